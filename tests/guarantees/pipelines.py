"""The columns of the table of guarantees: a source, a sink, and a way to read the sink.

Each one is a class that is listed in ``PIPELINES``.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from cooperator.connectors.output import OutputError, read_units
from tests.guarantees.pipeline import UNITS, Kafka, Pipeline
from tests.harness.plain_files import read_plainly

TRIGGER_MS = "500"
"""So short that a fault hits a running stream; eighteen tasks that idle cost little."""


class FilesToKafka(Pipeline):
    """Its positions are with its rows."""

    source, sink, connector_class = "files", "Kafka", "files-to-kafka"
    is_query = is_on_disk = False
    _PER_FILE = 10

    @property
    def _root(self) -> Path:
        return self.place.sources / "files-to-kafka"

    @property
    def _topic(self) -> str:
        return f"{self.place.unique}-from-files"

    def options(self) -> dict[str, str]:
        return {
            "path": str(self._root),
            "topic": self._topic,
            "topic.partitions": str(UNITS),
            "units": str(UNITS),
            "max.files.per.trigger": "2",
            "trigger.interval.ms": TRIGGER_MS,
            "record.value": "line",
        }

    def prepare(self) -> None:
        self._root.mkdir(parents=True)
        self.place.kafka.create(self._topic)

    def write(self, values: list[str]) -> None:
        for first in range(0, len(values), self._PER_FILE):
            name = f"{values[first].rpartition(' ')[2]}.txt"
            part = self.place.sources / f"part-{name}"
            part.write_text("\n".join(values[first : first + self._PER_FILE]))
            part.replace(self._root / name)

    def found(self) -> Counter[str]:
        return self.place.kafka.committed(self._topic)


class KafkaToFiles(Pipeline):
    """Its positions are beside its files."""

    source, sink, connector_class = "Kafka", "files", "kafka-to-files"
    is_query = False

    @property
    def _topic(self) -> str:
        return f"{self.place.unique}-to-files"

    @property
    def _output(self) -> Path:
        return self.place.shared / "kafka-to-files"

    def options(self) -> dict[str, str]:
        return {
            "topics": self._topic,
            "path": str(self._output),
            "max.offsets.per.trigger": "10",
            "trigger.interval.ms": TRIGGER_MS,
            "rotate.interval.ms": "1000",
            "transform.sql": "SELECT value FROM input",
        }

    def prepare(self) -> None:
        self.place.kafka.create(self._topic)

    def write(self, values: list[str]) -> None:
        self.place.kafka.produce(self._topic, values)

    def found(self) -> Counter[str]:
        """Returns the rows that a plain reader finds."""
        if not self._output.exists():
            return Counter()
        table = read_plainly(self._output)
        return Counter(table["value"].to_pylist() if table.num_rows else [])


class TopicToTopic(Pipeline):
    source, sink = "Kafka", "Kafka"

    @property
    def _from(self) -> str:
        return f"{self.place.unique}-{self.slug()}-from"

    @property
    def _to(self) -> str:
        return f"{self.place.unique}-{self.slug()}-to"

    def prepare(self) -> None:
        self.place.kafka.create(self._from)
        self.place.kafka.create(self._to)

    def write(self, values: list[str]) -> None:
        self.place.kafka.produce(self._from, values)

    def found(self) -> Counter[str]:
        return self.place.kafka.committed(self._to)


class KafkaToKafka(TopicToTopic):
    """Its positions are with its rows."""

    connector_class = "kafka-to-kafka"
    is_query = is_on_disk = False

    def options(self) -> dict[str, str]:
        return {
            "topics": self._from,
            "topic": self._to,
            "max.offsets.per.trigger": "10",
            "trigger.interval.ms": TRIGGER_MS,
        }


class AppendToTable(TopicToTopic):
    """Rows are only added, so a duplicate is visible. Its positions are with its rows."""

    sink, connector_class = "PostgreSQL", "kafka-to-postgres"
    is_query = is_on_disk = False
    mode: ClassVar[str] = "append"
    column: ClassVar[str] = "value text"

    @classmethod
    def title(cls) -> str:
        return f"`kafka-to-postgres`, {cls.mode}"

    @classmethod
    def slug(cls) -> str:
        return f"postgres-{cls.mode}"

    @property
    def _table(self) -> str:
        return f"{self.place.unique}_{self.mode}".replace("-", "_")

    def options(self) -> dict[str, str]:
        return {
            "topics": self._from,
            "table.name.format": self._table,
            "insert.mode": self.mode,
            "max.offsets.per.trigger": "10",
            "trigger.interval.ms": TRIGGER_MS,
            "transform.sql": "SELECT value FROM input",
            **self.place.tables.config,
        }

    def prepare(self) -> None:
        self.place.kafka.create(self._from)
        self.place.tables.query(f"CREATE TABLE {self._table} ({self.column})")

    def found(self) -> Counter[str]:
        rows = self.place.tables.query(f"SELECT value, count(*) FROM {self._table} GROUP BY value")
        return Counter(dict(rows))


class UpsertToTable(AppendToTable):
    mode, column = "upsert", "value text PRIMARY KEY"


class PostgresToKafka(Pipeline):
    source, sink, connector_class = "PostgreSQL", "Kafka", "postgres-to-kafka"
    is_query = is_on_disk = False

    @property
    def _tables(self) -> list[str]:
        return [f"{self.place.unique}_from_{number}".replace("-", "_") for number in range(UNITS)]

    @property
    def _to(self) -> str:
        return f"{self.place.unique}-from-tables"

    def options(self) -> dict[str, str]:
        return {
            "tables": ",".join(self._tables),
            "mode": "incrementing",
            "topic": self._to,
            "batch.max.rows": "10",
            "trigger.interval.ms": TRIGGER_MS,
            "transform.sql": "SELECT value FROM input",
            **self.place.tables.config,
        }

    def prepare(self) -> None:
        self.place.kafka.create(self._to)
        for table in self._tables:
            self.place.tables.query(f"CREATE TABLE {table} (id bigserial PRIMARY KEY, value text NOT NULL)")

    def write(self, values: list[str]) -> None:
        for number, table in enumerate(self._tables):
            rows = ", ".join(f"('{value}')" for value in values[number::UNITS])
            self.place.tables.query(f"INSERT INTO {table} (value) VALUES {rows}")

    def found(self) -> Counter[str]:
        return self.place.kafka.committed(self._to)


class SparkToFiles(KafkaToFiles):
    """Spark's own source and its file sink."""

    connector_class = "spark"
    is_query = True

    @classmethod
    def title(cls) -> str:
        return "`spark`, Kafka to parquet"

    @classmethod
    def slug(cls) -> str:
        return "spark-files"

    @property
    def _topic(self) -> str:
        return f"{self.place.unique}-spark-to-files"

    @property
    def _output(self) -> Path:
        return self.place.shared / "spark-to-files"

    def options(self) -> dict[str, str]:
        paths = [{"sink.options.path": str(self._output / str(number))} for number in range(UNITS)]
        return {
            **_spark_source(self.place.kafka, self._topic, paths),
            "sink.format": "parquet",
            "transform.sql": "SELECT CAST(value AS STRING) AS value FROM input",
        }

    def found(self) -> Counter[str]:
        try:
            table = read_units(self._output)
        except OutputError as error:
            # Spark removes entries of its log during the read.
            raise AssertionError(str(error)) from error
        return Counter(table["value"].to_pylist() if table.num_rows else [])


@dataclass
class SparkWithState(SparkToFiles):
    """Each record is sent again with the next ones: where state is lost, it is in the sink twice."""

    before: list[str] = field(default_factory=list)

    @classmethod
    def title(cls) -> str:
        return "`spark` with state (deduplication)"

    @classmethod
    def slug(cls) -> str:
        return "spark-state"

    @property
    def _topic(self) -> str:
        return f"{self.place.unique}-spark-state"

    @property
    def _output(self) -> Path:
        return self.place.shared / "spark-state"

    def options(self) -> dict[str, str]:
        return {
            **super().options(),
            "source.sql": "SELECT CAST(value AS STRING) AS value, timestamp AS at FROM input",
            "watermark.column": "at",
            "watermark.delay.ms": "3600000",
            "deduplicate.by": "value",
            "transform.sql": "SELECT value FROM input",
        }

    def write(self, values: list[str]) -> None:
        super().write([*self.before, *values])
        self.before = values


class SparkToKafka(TopicToTopic):
    """Spark's own source and its Kafka sink, which knows no transactions."""

    connector_class = "spark"

    @classmethod
    def title(cls) -> str:
        return "`spark`, Kafka to Kafka"

    @classmethod
    def slug(cls) -> str:
        return "spark-kafka"

    def options(self) -> dict[str, str]:
        return {
            **_spark_source(self.place.kafka, self._from, [{} for _ in range(UNITS)]),
            "sink.format": "kafka",
            "sink.options.kafka.bootstrap.servers": self.place.kafka.bootstrap_servers,
            "sink.options.topic": self._to,
            "transform.sql": "SELECT key, value FROM input",
        }


def _spark_source(kafka: Kafka, topic: str, units: list[dict[str, str]]) -> Mapping[str, str]:
    for number, unit in enumerate(units):
        unit["source.options.assign"] = json.dumps({topic: [number]})
    return {
        "units": json.dumps(units),
        "source.format": "kafka",
        "source.options.kafka.bootstrap.servers": kafka.bootstrap_servers,
        "source.options.kafka.fetch.max.wait.ms": "50",
        "source.options.startingOffsets": "earliest",
        "source.options.maxOffsetsPerTrigger": "10",
        "trigger.interval.ms": TRIGGER_MS,
    }


PIPELINES: tuple[type[Pipeline], ...] = (
    FilesToKafka,
    KafkaToFiles,
    KafkaToKafka,
    PostgresToKafka,
    AppendToTable,
    UpsertToTable,
    SparkToFiles,
    SparkWithState,
    SparkToKafka,
)
