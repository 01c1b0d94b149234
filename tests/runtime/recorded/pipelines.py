"""The pipelines whose checkpoints are recorded here: what they read, and what must be at their end."""

import json
from collections import Counter
from pathlib import Path
from typing import ClassVar, Final

import pyarrow.parquet as pq

from cooperator.connectors.output import committed_files, read_units
from tests.runtime.spark_bench import SparkBench

KEYS: Final = 3
"""Rows of a batch: one for each key."""


class Recorded:
    """A connector with one unit. ``home`` has its input and output; ``name`` is also that of its topic."""

    kind: ClassVar[str]
    batches: ClassVar[int] = 4

    def unit(self, name: str) -> str:
        return "unit-0"

    def config(self, home: Path, name: str) -> dict[str, str]:
        return {
            "connector.class": "spark",
            "source.format": "json",
            "source.schema": "id LONG, key STRING",
            "source.options.path": f"{home}/in",
            "trigger.interval.ms": "100",
        }

    def feed(self, bench: SparkBench, home: Path, name: str, batch: int) -> None:
        """Gives the source the rows of a batch."""
        rows = [{"id": KEYS * batch + number, "key": f"k{number}"} for number in range(KEYS)]
        partial = home / f".{batch}"
        partial.write_text("\n".join(json.dumps(row) for row in rows))
        partial.rename(home / "in" / f"{batch}.json")

    def wanted(self, batches: int) -> Counter[str]:
        return Counter(str(number) for number in range(KEYS * batches))

    def found(self, bench: SparkBench, home: Path, name: str) -> Counter[str]:
        logs = (home / "out").rglob("_spark_metadata")
        tables = [pq.read_table(file) for log in logs for file in committed_files(log.parent)]
        return Counter(str(value) for table in tables for value in table["id"].to_pylist())


class Files(Recorded):
    """JSON files into parquet files, with enough batches for Spark's logs to be compacted."""

    kind = "files"
    batches = 12

    def config(self, home: Path, name: str) -> dict[str, str]:
        return {**super().config(home, name), "sink.format": "parquet", "sink.options.path": f"{home}/out"}


class Counts(Recorded):
    """Counts the rows of each key, in a state store; the counts that change go to the topic."""

    kind = "counts"

    def config(self, home: Path, name: str) -> dict[str, str]:
        return {
            **super().config(home, name),
            "sink.format": "kafka",
            "sink.options.topic": name,
            "sink.output.mode": "update",
            "transform.sql": "SELECT key, CAST(count(*) AS STRING) AS value FROM input GROUP BY key",
        }

    def wanted(self, batches: int) -> Counter[str]:
        return Counter({f"k{number}": batches for number in range(KEYS)})

    def found(self, bench: SparkBench, home: Path, name: str) -> Counter[str]:
        return Counter({(key or b"").decode(): int(value) for key, value in bench.records(name)})


class Topic(Recorded):
    """A partition of the topic into parquet files, by Spark's file sink in earlier releases."""

    kind = "topic"

    def unit(self, name: str) -> str:
        return f"{name}-0"

    def config(self, home: Path, name: str) -> dict[str, str]:
        return {
            "connector.class": "kafka-to-files",
            "topics": name,
            "path": f"{home}/out",
            "transform.sql": "SELECT CAST(value AS STRING) AS id FROM input",
            "trigger.interval.ms": "100",
            "rotate.interval.ms": "0",
        }

    def found(self, bench: SparkBench, home: Path, name: str) -> Counter[str]:
        return Counter(str(value) for value in read_units(home / "out")["id"].to_pylist())

    def feed(self, bench: SparkBench, home: Path, name: str, batch: int) -> None:
        bench.produce(name, [str(KEYS * batch + number) for number in range(KEYS)])


FILES, COUNTS, TOPIC = Files(), Counts(), Topic()
ALL: Final = (FILES, COUNTS, TOPIC)
