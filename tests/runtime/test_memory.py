"""A member's memory is bounded, whatever a record, a line or a batch weighs: with a heap of 512 MB the JVM
lives on, the cause is named, and a neighbour's rows arrive."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cooperator.connectors.output import read_units
from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench, spark_bench

pytestmark = pytest.mark.real

HEAP_MB = 512


@pytest.fixture(scope="module")
def small(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkBench]:
    root = tmp_path_factory.mktemp("small")
    with spark_bench(broker, root, heap_mb=HEAP_MB, allowed_files=(str(root.parent),)) as bench:
        yield bench


class Neighbour:
    """A connector of the same member, which copies records all the time."""

    def __init__(self, spark: SparkBench, unique: str) -> None:
        self._spark = spark
        self._source, self._target = f"{unique}-small", f"{unique}-small-out"
        spark.create_topic(self._source, 1)
        config = {"connector.class": "kafka-to-kafka", "topics": self._source, "topic": self._target}
        self.tasks = spark.start_connector(f"{unique}-neighbour", config, 1)
        self._jvm = spark.jvm_pid()
        self._sent = 0

    def lives(self) -> None:
        """The JVM is the same, no attempt has failed, and a new row arrives within 20 s."""
        self._spark.produce(self._source, [f"row {self._sent}".encode()])
        self._sent += 1
        eventually(lambda: len(self._spark.records(self._target)) == self._sent, 20, "a row of the neighbour")
        assert self._spark.unharmed(self.tasks)
        assert self._spark.jvm_pid() == self._jvm


def produce_large(spark: SparkBench, topic: str, value: bytes, count: int) -> None:
    """Produces the same value many times; compressed, it costs the broker little."""
    producer = Producer(
        {
            **spark.client,
            "compression.type": "zstd",
            "message.max.bytes": 100_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    for _ in range(count):
        producer.produce(topic, value, partition=0)
    assert producer.flush(120) == 0


def envelope(size: int) -> bytes:
    schema = {"type": "struct", "fields": [{"field": "text", "type": "string"}], "optional": False}
    return json.dumps({"schema": schema, "payload": {"text": "x" * size}}).encode()


LONG = pytest.mark.long("tests/runtime/test_memory.py::test_a_batch_is_cut_to_what_fits_into_memory")
SINKS = [
    "kafka-to-kafka",
    pytest.param("kafka-to-files", marks=LONG),
    pytest.param("kafka-to-postgres", marks=LONG),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize(
    ("converter", "size", "count"),
    [
        pytest.param("json-schema", 10_000, 60_000, id="envelopes"),
        pytest.param("bytes", 2_000_000, 200, id="megabytes", marks=LONG),
    ],
)
def test_a_batch_is_cut_to_what_fits_into_memory(
    small: SparkBench,
    postgres: Postgres,
    tmp_path: Path,
    unique: str,
    sink: str,
    converter: str,
    size: int,
    count: int,
) -> None:
    neighbour = Neighbour(small, unique)
    small.create_topic(unique, 1)
    produce_large(small, unique, envelope(size) if converter == "json-schema" else b"x" * size, count)
    config = {
        "connector.class": sink,
        "topics": unique,
        "value.converter": converter,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{unique}-dead",
    }
    length = "length(value.text)" if converter == "json-schema" else "length(value)"
    select = f"SELECT {length} AS n FROM input"
    out = tmp_path / "out"
    table = unique.replace("-", "_")
    if sink == "kafka-to-kafka":
        config |= {
            "topic": f"{unique}-out",
            "transform.sql": f"SELECT CAST({length} AS STRING) AS value FROM input",
        }
    elif sink == "kafka-to-files":
        config |= {"path": str(out), "rotate.interval.ms": "0", "transform.sql": select}
    else:
        postgres.query(f"CREATE TABLE {table} (n int)")
        config |= {**postgres.config, "table.name.format": table, "transform.sql": select}
    tasks = small.start_connector(f"{unique}-copy", config, 1)

    def arrived() -> int:
        if sink == "kafka-to-kafka":
            return len(small.records(f"{unique}-out"))
        if sink == "kafka-to-files":
            return read_units(out).num_rows
        return int(postgres.query(f"SELECT count(*) FROM {table}")[0][0])

    eventually(lambda: arrived() >= count, 120, f"{small.heard.traces}")
    assert arrived() == count
    neighbour.lives()
    assert small.unharmed(tasks)
    small.stop(*tasks, *neighbour.tasks)


def test_a_line_that_is_too_long_is_named_and_the_neighbour_goes_on(
    small: SparkBench, tmp_path: Path, unique: str
) -> None:
    neighbour = Neighbour(small, unique)
    folder = tmp_path / "in"
    folder.mkdir()
    with (folder / "long.csv").open("wb") as file:
        file.write(b"first\n")
        file.truncate(700 << 20)
    small.create_topic(unique, 1)
    config = {"connector.class": "files-to-kafka", "path": str(folder), "topic": unique, "units": "1"}
    _, task = small.start_connector(f"{unique}-files", config, 1)
    attempt = ("failed", small.attempts[task])
    eventually(lambda: attempt in small.heard.of(task), 60, f"{small.heard.texts}")
    trace = small.heard.traces[task, small.attempts[task]]
    assert "long.csv" in trace
    assert "line that begins at byte 6" in trace
    assert "spec.spark.heapMb" in trace
    neighbour.lives()
    small.stop(*neighbour.tasks)


@pytest.mark.timeout(300)
def test_a_cell_that_is_too_large_is_named_by_its_key_and_the_neighbour_goes_on(
    small: SparkBench, postgres: Postgres, unique: str
) -> None:
    neighbour = Neighbour(small, unique)
    table = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY, text text)")
    postgres.query(f"INSERT INTO {table} (text) SELECT 'small' FROM generate_series(1, 5)")
    postgres.query(f"INSERT INTO {table} (text) VALUES (repeat('x', 200000000))")
    small.create_topic(unique, 1)
    config = {
        "connector.class": "postgres-to-kafka",
        "tables": table,
        "topic": unique,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        **postgres.config,
    }
    _, task = small.start_connector(f"{unique}-table", config, 1)
    attempt = small.attempts[task]
    eventually(lambda: ("failed", attempt) in small.heard.of(task), 60, f"{small.heard.texts}")
    trace = small.heard.traces[task, attempt]
    assert f'table {table} up to the row {{"incrementing": 6}}' in trace
    assert "spec.spark.heapMb" in trace
    assert len(small.records(unique)) == 5, "what is before it arrives"
    neighbour.lives()
    small.stop(*neighbour.tasks)
