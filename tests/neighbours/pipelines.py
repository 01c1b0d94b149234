"""The columns of the table of neighbours: a source and a sink, with three parts that do not need each other.

A part is a topic, a table or a file, and its target where the class has one for each. Values name their part,
so that one reader of all targets tells what has arrived of each. Each pipeline is a class that is listed in
``PIPELINES``.
"""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from cooperator.connectors.files import bucket_of
from cooperator.connectors.topics import ensure_topic, partition_counts
from cooperator.model import TaskId
from tests.harness.plain_files import read_plainly
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench

PARTS: Final = ("a", "b", "c")
PARTITIONS: Final = 2
"""Those of each topic."""


@dataclass
class World:
    """What all cells share: a member with its Spark and its broker, a database, and a directory."""

    member: SparkBench
    tables: Postgres
    root: Path

    def create_topic(self, topic: str, partitions: int = PARTITIONS) -> None:
        """A deleted topic's name is free a moment later."""

        def created() -> bool:
            try:
                ensure_topic(self.member.client, topic, partitions, 1)
            except KafkaException as error:
                raise AssertionError(str(error)) from error
            return partition_counts(self.member.client, [topic])[topic] == partitions

        eventually(created, what=f"topic {topic} with {partitions} partitions")

    def delete_topic(self, topic: str) -> None:
        admin = AdminClient(self.member.client)
        admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: not partition_counts(self.member.client, [topic])[topic])

    def produce(self, topic: str, values: list[str], partition: int | None = None) -> None:
        """The values go to all partitions in turn, or to one."""
        producer = Producer(self.member.client)
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % PARTITIONS if partition is None else partition)
        assert producer.flush(30) == 0


@dataclass
class Pipeline(ABC):
    """One connector. ``unique`` names it, and all that it reads and writes."""

    source: ClassVar[str]
    sink: ClassVar[str]
    connector_class: ClassVar[str]
    is_apart: ClassVar[bool] = True
    """Whether each part has a target of its own."""
    world: World
    unique: str
    more: dict[str, str] = field(default_factory=dict)
    """Further options."""
    tasks: list[TaskId] = field(default_factory=list)
    _fed: Counter[str] = field(default_factory=Counter)

    @classmethod
    def title(cls) -> str:
        return f"`{cls.connector_class}`"

    @abstractmethod
    def prepare(self, part: str) -> None:
        """Makes the source and the target of a part."""

    @abstractmethod
    def options(self) -> dict[str, str]: ...

    @abstractmethod
    def write(self, part: str, values: list[str]) -> None:
        """Puts values into the source of a part."""

    @abstractmethod
    def found(self) -> Counter[str]:
        """The values that an independent reader finds in all targets that exist."""

    def units(self) -> int:
        return len(PARTS)

    def name_of(self, part: str) -> str:
        """The name of a part's source, legal for topics and tables."""
        return f"{self.unique}_{part}".replace("-", "_")

    def target_of(self, part: str) -> str:
        return f"{self.name_of(part)}_to" if self.is_apart else f"{self.unique}_to".replace("-", "_")

    def start(self) -> None:
        """Starts all parts in one task, and waits until each has delivered."""
        for part in PARTS:
            self.prepare(part)
        config = {
            "connector.class": self.connector_class,
            "tasks.max": "1",
            "units.refresh.interval.ms": "5000",
            "trigger.interval.ms": "200",
            **self.options(),
            **self.more,
        }
        self.tasks = self.world.member.start_connector(self.unique, config, self.units())
        for part in PARTS:
            self.feed(part)
        eventually(lambda: not self.missing(PARTS), 120, f"{self.unique} delivers")

    def stop(self) -> None:
        self.world.member.stop(*self.tasks)

    def feed(self, part: str, count: int = 4) -> None:
        values = [f"{part} {number}" for number in range(self._fed[part], self._fed[part] + count)]
        self._fed[part] += count
        self.write(part, values)

    def missing(self, parts: tuple[str, ...]) -> list[str]:
        """The values of these parts that were fed and have not arrived."""
        found = self.found()
        wanted = [f"{part} {number}" for part in parts for number in range(self._fed[part])]
        return [value for value in wanted if not found[value]]

    def said(self) -> str:
        """What its instance and its tasks say now: waits with their parts, and failures."""
        heard, texts = self.world.member.heard, []
        for task in self.tasks:
            waits = heard.progress_of(task).get("waits", ())
            texts += [f"{', '.join(each['parts'])}: {each['for']}" for each in waits]
            events = heard.of(task)
            if events and events[-1][0] == "failed":
                texts.append(heard.traces[task, events[-1][1]])
        return "\n".join(texts)


class FromKafka(Pipeline):
    source = "Kafka"

    def prepare(self, part: str) -> None:
        self.world.create_topic(self.name_of(part))

    def units(self) -> int:
        return len(PARTS) * PARTITIONS

    @property
    def topics(self) -> dict[str, str]:
        return {"topics": ",".join(map(self.name_of, PARTS))}

    def write(self, part: str, values: list[str]) -> None:
        self.world.produce(self.name_of(part), values)


class ToKafka(Pipeline):
    sink = "Kafka"

    def found(self) -> Counter[str]:
        client, found = self.world.member.client, Counter[str]()
        targets = {self.target_of(part) for part in PARTS}
        there = [topic for topic, count in partition_counts(client, targets).items() if count]
        for topic in there:
            found.update((value or b"").decode() for _, value in self.world.member.records(topic))
        return found


class KafkaToKafka(FromKafka, ToKafka):
    connector_class = "kafka-to-kafka"

    def options(self) -> dict[str, str]:
        return {**self.topics, "topic": "{topic}_to"}


class KafkaToFiles(FromKafka):
    sink, connector_class, is_apart = "files", "kafka-to-files", False

    def options(self) -> dict[str, str]:
        return {
            **self.topics,
            "path": str(self.world.root / self.unique),
            "rotate.interval.ms": "0",
            "transform.sql": "SELECT value FROM input",
        }

    def found(self) -> Counter[str]:
        output = self.world.root / self.unique
        table = read_plainly(output) if output.exists() else None
        return Counter(table["value"].to_pylist() if table is not None and table.num_rows else ())


class KafkaToPostgres(FromKafka):
    sink, connector_class = "PostgreSQL", "kafka-to-postgres"

    def prepare(self, part: str) -> None:
        super().prepare(part)
        self.world.tables.query(f"CREATE TABLE {self.target_of(part)} (value text)")

    def options(self) -> dict[str, str]:
        return {
            **self.topics,
            "table.name.format": "{topic}_to",
            "transform.sql": "SELECT value FROM input",
            **self.world.tables.config,
        }

    def found(self) -> Counter[str]:
        found, query = Counter[str](), self.world.tables.query
        for table in map(self.target_of, PARTS):
            if query("SELECT to_regclass(%s)::text", table) != [(None,)]:
                found.update(value for (value,) in query(f"SELECT value FROM {table}"))
        return found


class FilesToKafka(ToKafka):
    source, connector_class, is_apart = "files", "files-to-kafka", False

    @property
    def directory(self) -> Path:
        return self.world.root / f"{self.unique}-in"

    def prepare(self, part: str) -> None:
        self.directory.mkdir(exist_ok=True)

    def options(self) -> dict[str, str]:
        return {
            "path": str(self.directory),
            "topic": self.target_of("a"),
            "units": str(len(PARTS)),
            "record.value": "line",
        }

    def free_name(self, part: str) -> str:
        """The name of a file that does not exist, and that the part's unit reads."""
        number = 0
        while bucket_of(name := f"{number}.txt", len(PARTS)) != PARTS.index(part) or (
            (self.directory / name).exists()
        ):
            number += 1
        return name

    def write(self, part: str, values: list[str]) -> None:
        whole = self.world.root / f"{self.unique}-whole"
        whole.write_text("\n".join(values))
        whole.replace(self.directory / self.free_name(part))


class PostgresToKafka(ToKafka):
    source, connector_class, is_apart = "PostgreSQL", "postgres-to-kafka", False

    def prepare(self, part: str) -> None:
        table = self.name_of(part)
        self.world.tables.query(f"CREATE TABLE {table} (id bigserial PRIMARY KEY, value text NOT NULL)")

    def options(self) -> dict[str, str]:
        return {
            "tables": ",".join(map(self.name_of, PARTS)),
            "mode": "incrementing",
            "topic": self.target_of("a"),
            "transform.sql": "SELECT value FROM input",
            **self.world.tables.config,
        }

    def write(self, part: str, values: list[str]) -> None:
        for value in values:
            self.world.tables.query(f"INSERT INTO {self.name_of(part)} (value) VALUES (%s)", value)


PIPELINES: tuple[type[Pipeline], ...] = (
    KafkaToKafka,
    KafkaToFiles,
    KafkaToPostgres,
    FilesToKafka,
    PostgresToKafka,
)
