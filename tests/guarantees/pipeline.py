"""A pipeline of the table of guarantees: its source, its sink, and where both are."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cooperator.connectors import delivery
from cooperator.connectors.base import Delivery
from cooperator.connectors.topics import ensure_topic, partition_counts

UNITS = 2


@dataclass
class Kafka:
    bootstrap_servers: str

    def create(self, topic: str) -> None:
        ensure_topic({"bootstrap.servers": self.bootstrap_servers}, topic, UNITS, -1)

    def produce(self, topic: str, values: Iterable[str]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for value in values:
            producer.produce(topic, value, value)
        assert producer.flush(60) == 0

    def committed(self, topic: str) -> Counter[str]:
        """The number of occurrences of each committed value in a topic."""
        client = {"bootstrap.servers": self.bootstrap_servers}
        settings = {"group.id": f"reader-{topic}", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**client, **settings, "fetch.wait.max.ms": 20})
        found: Counter[str] = Counter()
        try:
            for partition in range(partition_counts(client, [topic])[topic]):
                consumer.assign([TopicPartition(topic, partition, 0)])
                while (message := consumer.poll(10)) is not None and message.error() is None:
                    found[(message.value() or b"").decode()] += 1
                assert message is not None, f"{topic}: no end of the partition within 10 s"
        except KafkaException as error:
            raise AssertionError(f"{topic} cannot be read: {error}") from error
        finally:
            consumer.close()
        return found


class Tables(Protocol):
    """A PostgreSQL server. ``config`` has a connector's options for it."""

    @property
    def config(self) -> Mapping[str, str]: ...

    def query(self, text: str) -> list[Any]: ...


@dataclass
class Place:
    """The places that a pipeline reads and writes. ``shared`` is on the disk that gets full; ``sources`` is
    not."""

    kafka: Kafka
    tables: Tables
    unique: str
    sources: Path
    shared: Path


@dataclass
class Pipeline(ABC):
    """One row. Records are numbered; each pipeline defines the texts of its output."""

    source: ClassVar[str]
    sink: ClassVar[str]
    connector_class: ClassVar[str]
    is_query: ClassVar[bool] = True
    """Whether its units are queries of the JVM; otherwise Python decides what is written."""
    is_on_disk: ClassVar[bool] = True
    """Whether it needs the disk with the checkpoints and the files."""
    place: Place
    fed: int = field(default=0)

    @classmethod
    def title(cls) -> str:
        return f"`{cls.connector_class}`"

    @classmethod
    def slug(cls) -> str:
        return cls.connector_class

    @abstractmethod
    def options(self) -> dict[str, str]:
        """Options with small, frequent batches, so that a fault hits a running stream."""

    @abstractmethod
    def write(self, values: list[str]) -> None:
        """Puts new records into the source."""

    @abstractmethod
    def found(self) -> Counter[str]:
        """The number of occurrences of each committed record in the sink."""

    @abstractmethod
    def prepare(self) -> None:
        """Runs before the connector is created."""

    def config(self) -> dict[str, str]:
        return {"connector.class": self.connector_class, "tasks.max": "2", **self.options()}

    @classmethod
    def delivery(cls, place: Place) -> Delivery:
        """The connector's own promise, which docs and condition repeat."""
        promised = delivery(cls.connector_class, cls(place).config())
        assert promised is not None, cls.title()
        return promised.level

    def values(self, begin: int, end: int) -> list[str]:
        """The records of these numbers."""
        return [f"{self.slug()} {number}" for number in range(begin, end)]

    def feed(self, count: int) -> None:
        values = self.values(self.fed, self.fed + count)
        self.fed += count
        self.write(values)

    def wrong(self) -> dict[str, int]:
        """Missing (negative) and surplus records with their counts; empty if the sink is exact."""
        difference = self.found()
        difference.subtract(self.values(0, self.fed))
        return {value: count for value, count in difference.items() if count}

    def complete(self) -> bool:
        return not any(count < 0 for count in self.wrong().values())
