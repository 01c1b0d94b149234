"""Topics that cannot be made sure of: the servers and the cause are named."""

import pytest

from cooperator.logs import LogsConfig, LogUnavailable, ensure_topics


@pytest.mark.parametrize("adopts", [False, True])
@pytest.mark.parametrize(
    ("servers", "cause"),
    [("127.0.0.1:1", "Connection refused"), ("no-such-host.invalid:9092", "resolve")],
)
def test_a_broker_that_is_not_there(servers: str, cause: str, adopts: bool) -> None:
    with pytest.raises(LogUnavailable) as raised:
        ensure_topics(LogsConfig(servers, "lake", adopts=adopts), timeout_ms=1_500)
    assert f"Kafka at {servers}: " in str(raised.value)
    assert cause in str(raised.value)
