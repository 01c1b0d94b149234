"""Every test of the logs runs on two fabrics, since Kafka and the in-memory broker promise the same."""

from collections.abc import Iterator

import pytest

from cooperator.logs import LogsConfig
from tests.logs.fabrics import Fabric, KafkaFabric, LogsUnderTest, MemoryFabric


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def fabric(request: pytest.FixtureRequest) -> Fabric:
    if request.param == "memory":
        return MemoryFabric()
    return KafkaFabric(request.getfixturevalue("broker"))


@pytest.fixture
def no_topics(fabric: Fabric, unique: str) -> Iterator[LogsUnderTest]:
    """A group whose topics do not exist."""
    under_test = LogsUnderTest(fabric, LogsConfig("", unique, write_timeout_ms=4_000))
    yield under_test
    under_test.close()


@pytest.fixture
def under_test(no_topics: LogsUnderTest) -> LogsUnderTest:
    """A group with its topics."""
    no_topics.ensure()
    return no_topics
