"""Topics that cannot be verified: the error names the servers and the cause."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from cooperator.logs import LogsConfig, LogUnavailable, ensure_topics
from cooperator.logs.kafka.settings import result_of


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


def test_a_client_that_never_answers_is_not_waited_for() -> None:
    with pytest.raises(KafkaException, match=r"gave no answer within 0\.01 s") as raised:
        result_of(Future[int](), within_s=0.01)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
