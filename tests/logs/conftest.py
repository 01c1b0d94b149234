"""Each test of the logs runs in both fabrics: what holds for the logs holds on Kafka and in memory."""

from collections.abc import Iterator

import pytest

from cooperator.logs import LogsConfig
from logs.world import Fabric, KafkaFabric, MemoryFabric, World


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def fabric(request: pytest.FixtureRequest) -> Fabric:
    if request.param == "memory":
        return MemoryFabric()
    return KafkaFabric(request.getfixturevalue("broker"))


@pytest.fixture
def no_topics(fabric: Fabric, unique: str) -> Iterator[World]:
    """A group whose topics do not exist."""
    world = World(fabric, LogsConfig("", unique, write_timeout_ms=4_000))
    yield world
    world.close()


@pytest.fixture
def world(no_topics: World) -> World:
    """A group with its topics."""
    no_topics.ensure()
    return no_topics
