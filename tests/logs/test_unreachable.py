"""Topics that cannot be verified: the error names the servers and the cause."""

import pytest

from cooperator.logs import LogsConfig, LogUnavailable, ensure_topics


@pytest.mark.parametrize("adopts", [False, True])
@pytest.mark.parametrize(
    ("servers", "cause"),
    [("127.0.0.1:1", "Connection refused"), ("no-such-host.invalid:9092", "resolve")],
)
def test_an_unreachable_broker_is_an_error(servers: str, cause: str, adopts: bool) -> None:
    with pytest.raises(LogUnavailable) as raised:
        ensure_topics(LogsConfig(servers, "lake", adopts=adopts), timeout_ms=1_500)
    assert f"Kafka at {servers}: " in str(raised.value)
    assert cause in str(raised.value)
