"""Two worlds, one Kafka and one in memory: what holds for the logs holds in both."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient

from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import (
    KafkaTransport,
    Logs,
    LogsConfig,
    MemoryBroker,
    MemoryTransport,
    Transport,
    ensure_topics_of,
)


class Fabric(Protocol):
    """A broker, and clients of it."""

    def transport(self, group_id: str, on_trouble: Callable[[str], None]) -> Transport: ...
    def stop(self) -> None: ...
    def start(self) -> None: ...
    def delete(self, topic: str) -> None: ...


@dataclass
class MemoryFabric:
    broker: MemoryBroker = field(default_factory=MemoryBroker)

    def transport(self, group_id: str, on_trouble: Callable[[str], None]) -> Transport:
        return MemoryTransport(self.broker, on_trouble)

    def stop(self) -> None:
        self.broker.stop()

    def start(self) -> None:
        self.broker.start()

    def delete(self, topic: str) -> None:
        self.broker.delete(topic)


@dataclass
class KafkaFabric:
    broker: EmbeddedBroker

    def transport(self, group_id: str, on_trouble: Callable[[str], None]) -> Transport:
        return KafkaTransport(self.broker.bootstrap_servers, group_id, {}, on_trouble)

    def stop(self) -> None:
        self.broker.kill()

    def start(self) -> None:
        self.broker.start()

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(10)


@dataclass
class World:
    """One group's logs in a fabric; everything that was opened is closed at the end."""

    fabric: Fabric
    config: LogsConfig
    opened: list[Logs] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def transport(self) -> Transport:
        return self.fabric.transport(self.config.group_id, lambda _: None)

    def ensure(self) -> None:
        ensure_topics_of(self.transport(), self.config.topic_names, -1, 10_000)

    def open(self) -> Logs:
        """As one more process would: with clients of its own. The first one's troubles are kept."""
        told = self.troubles.append if not self.opened else lambda _: None
        logs = Logs(self.fabric.transport(self.config.group_id, told), self.config)
        self.opened.append(logs)
        return logs

    def close(self) -> None:
        for logs in self.opened:
            logs.close()


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
