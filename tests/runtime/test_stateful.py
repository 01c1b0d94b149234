"""Queries with state on a real Spark: windows, deduplication, joins over restarts, and formats of state."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cooperator.connectors import validate
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.unit_log import (
    commit_version,
    last_end,
    reached,
    recorded_settings,
    remove,
    settle_in_flight,
)
from cooperator.connectors.stateful import PROVIDER, ROCKSDB
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_pipeline import pipeline, rows_in, start

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOWS = """
    SELECT window(at, '10 seconds').start AS start, key, count(*) AS n
    FROM input GROUP BY window(at, '10 seconds'), key
"""
SLIDING = WINDOWS.replace("'10 seconds')", "'10 seconds', '5 seconds')")
COUNTS = "SELECT key, count(*) AS n FROM input GROUP BY key"
JOIN = """
    SELECT a.key AS key, a.at AS at, b.at AS later FROM input a JOIN input b
    ON a.key = b.key AND a.part = 0 AND b.part > 0 AND b.at BETWEEN a.at AND a.at + INTERVAL 60 SECONDS
"""
Row = dict[str, Any]


def rows_of(part: int) -> list[Row]:
    """Of each part some keys are those of the part before, within the watermark's delay."""
    times = [BEGIN + timedelta(seconds=part * 7 + number) for number in range(12)]
    return [{"at": at, "key": f"k{number % 5 + part}", "part": part} for number, at in enumerate(times)]


def windows(rows: Sequence[Row], slide_s: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row in rows:
        since_s = int((row["at"] - BEGIN).total_seconds())
        last = since_s // slide_s * slide_s
        for start_s in range(last, since_s - 10, -slide_s):
            found[BEGIN + timedelta(seconds=start_s), row["key"]] += 1
    return found


def joined(rows: Sequence[Row]) -> Counter[Any]:
    pairs = ((a, b) for a in rows if a["part"] == 0 for b in rows if b["part"] > 0 and a["key"] == b["key"])
    near = ((a, b) for a, b in pairs if timedelta(0) <= b["at"] - a["at"] <= timedelta(seconds=60))
    return Counter((a["key"], a["at"], b["at"]) for a, b in near)


def utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


QUERIES: dict[str, tuple[dict[str, str], Callable[[list[Row]], Any], Callable[[list[Row]], Any]]] = {
    "tumbling windows": (
        {"transform.sql": WINDOWS},
        lambda rows: windows(rows, 10),
        lambda out: Counter({(utc(row["start"]), row["key"]): row["n"] for row in out}),
    ),
    "sliding windows": (
        {"transform.sql": SLIDING},
        lambda rows: windows(rows, 5),
        lambda out: Counter({(utc(row["start"]), row["key"]): row["n"] for row in out}),
    ),
    "without duplicates": (
        {"deduplicate.by": "key"},
        lambda rows: Counter({row["key"]: 1 for row in rows}),
        lambda out: Counter(row["key"] for row in out),
    ),
    "a join": (
        {"transform.sql": JOIN},
        joined,
        lambda out: Counter((row["key"], utc(row["at"]), utc(row["later"])) for row in out),
    ),
}

LONG = pytest.mark.long("tests/runtime/test_stateful.py::test_state_lives_through_restarts")
BRIEFLY = ("tumbling windows",)
"""Of queries without duplicates, every run has those whose newest batch is repeated."""


class Stream:
    """Events in files, and a query on them with its state."""

    def __init__(self, spark: SparkBench, root: Path, name: str, **config: str) -> None:
        self.spark, self.root, self.name = spark, root, name
        (root / "in").mkdir()
        self.out = root / "out"
        self.checkpoint = spark.settings.checkpoints / name / "unit-0"
        self.rows: list[Row] = []
        self._files = 0
        options = {
            "source.schema": "at TIMESTAMP, key STRING, part INT",
            "source.options.path": f"{root}/in",
            "watermark.column": "at",
            "watermark.delay.ms": "60000",
        }
        # Files take no other mode than append.
        sink = "noop" if "sink.output.mode" in config else "parquet"
        path = {"sink__options__path": f"{self.out}"} if sink == "parquet" else {}
        self.config = {**pipeline("json", sink, **path), **options, **config}

    def add(self, rows: Sequence[Row]) -> None:
        lines = [json.dumps({**row, "at": row["at"].isoformat()}) for row in rows]
        hidden = self.root / "in" / f".{self._files}.json"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.root / "in" / f"{self._files}.json")
        self._files += 1
        self.rows += rows

    def run(self) -> None:
        """Runs until all files are in a finished batch, as an attempt of its own."""
        task = start(self.spark, self.name, self.config)
        eventually(self._is_read, 60)
        self.spark.stop(task)

    def finish(self) -> None:
        """Runs until no batch is in flight: not the one without rows either that a watermark causes."""
        while len({*reached(self.checkpoint)}) > 1:
            task = start(self.spark, self.name, self.config)
            eventually(lambda: len({*reached(self.checkpoint)}) == 1, 60)
            self.spark.stop(task)

    def refusal(self, **other: str) -> str:
        """Returns why an attempt with these options fails for good."""
        task = TaskId(self.name, 0)
        attempt = self.spark.start(task, {**self.config, **other, "task.units": "unit-0"})
        eventually(lambda: self.spark.heard.of(task)[-1:] == [("failed", attempt)], 60)
        assert self.spark.heard.reasons[task, attempt] == "InvalidOption"
        return self.spark.heard.traces[task, attempt]

    def _is_read(self) -> bool:
        end = last_end(self.checkpoint)
        return bool(end) and json.loads(end)["logOffset"] + 1 == self._files


@pytest.mark.real
@pytest.mark.parametrize(
    "name", [name if name in BRIEFLY else pytest.param(name, marks=LONG) for name in QUERIES]
)
def test_state_lives_through_restarts(spark: SparkBench, tmp_path: Path, unique: str, name: str) -> None:
    config, expected, found = QUERIES[name]
    stream = Stream(spark, tmp_path, unique, **config)
    for part in range(3):
        stream.add(rows_of(part))
        stream.run()
    wanted = expected(stream.rows)
    stream.add([{"at": BEGIN + timedelta(days=1), "key": "last", "part": 9}])

    def all_written() -> bool:
        out = found([row for row in rows_in(stream.out) if row["key"] != "last"])
        assert out <= wanted, f"too many: {out - wanted}"
        assert out == wanted, f"missing: {wanted - out}"
        return True

    # The watermark passes the last windows in a batch without rows, and only after one with rows.
    task = start(spark, stream.name, stream.config)
    eventually(all_written, 30)
    spark.stop(task)
    assert commit_version(stream.checkpoint) == 2, "the files of each attempt have names of their own"
    assert recorded_settings(stream.checkpoint)[PROVIDER] == ROCKSDB


KEEPS = "tests/runtime/test_stateful.py::test_a_batch_that_the_sink_has_already_keeps_its_state"


@pytest.mark.real
@pytest.mark.parametrize("batches", [pytest.param(1, marks=pytest.mark.long(KEEPS)), 3])
def test_a_batch_that_the_sink_has_already_keeps_its_state(
    spark: SparkBench, tmp_path: Path, unique: str, batches: int
) -> None:
    """A member dies after Spark's file sink has a batch, and before Spark has noted that it is finished."""
    stream = Stream(spark, tmp_path, unique, **{"deduplicate.by": "key"})
    for part in range(batches):
        stream.add(rows_of(part))
        stream.run()
    stream.finish()
    committed, _ = reached(stream.checkpoint)
    remove(stream.checkpoint / "commits" / str(committed))
    # Without the state of that batch its keys would be in the sink twice.
    stream.add([*rows_of(batches - 1), *rows_of(batches)])
    stream.run()
    assert Counter(row["key"] for row in rows_in(stream.out)) == {row["key"]: 1 for row in stream.rows}
    assert commit_version(stream.checkpoint) == 2


@pytest.mark.real
def test_an_existing_checkpoint_keeps_its_provider_and_format(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    more = {"sink.output.mode": "update", "transform.sql": COUNTS}
    stream = Stream(spark, tmp_path, unique, **more)
    stream.add(rows_of(0))
    session = spark.runtime.session(Event()).newSession()
    session.conf.set(PROVIDER, HDFS)
    rows = session.readStream.format("json").schema("at TIMESTAMP, key STRING, part INT")
    counts = rows.load(f"{tmp_path}/in").withWatermark("at", "60 seconds").groupBy("key").count()
    query = counts.writeStream.format("noop").outputMode("update")
    earlier = query.option("checkpointLocation", f"{stream.checkpoint}").start()
    earlier.processAllAvailable()
    earlier.stop()
    assert commit_version(stream.checkpoint) == 1
    stream.add(rows_of(1))
    stream.run()
    assert recorded_settings(stream.checkpoint)[PROVIDER] == HDFS
    assert commit_version(stream.checkpoint) == 1
    state = session.read.format("statestore").load(f"{stream.checkpoint}")
    counted = {row["key"]["key"]: row["value"]["count"] for row in state.collect()}
    assert counted == Counter(row["key"] for row in stream.rows)


ANOTHER = pytest.mark.long(
    "tests/runtime/test_stateful.py::test_another_state_than_the_checkpoints_is_refused_with_the_way_out"
)


@pytest.mark.real
@pytest.mark.parametrize(
    "other",
    [
        "SELECT key, part, count(*) AS n FROM input GROUP BY key, part",
        pytest.param("SELECT key, avg(part) AS n FROM input GROUP BY key", marks=ANOTHER),
        "SELECT key FROM input",
    ],
)
def test_another_state_than_the_checkpoints_is_refused_with_the_way_out(
    spark: SparkBench, tmp_path: Path, unique: str, other: str
) -> None:
    more = {"sink.output.mode": "update", "transform.sql": COUNTS}
    stream = Stream(spark, tmp_path, unique, **more)
    stream.add(rows_of(0))
    stream.run()
    stream.add(rows_of(1))
    assert stream.refusal(**{"transform.sql": other}) == (
        "option 'transform.sql': makes a query whose state is not that of its checkpoint; restore what "
        "groups, joins and deduplicates rows, or create the connector under another name"
    )
    stream.run()
    assert commit_version(stream.checkpoint) == 2, "the refused attempt has harmed nothing"


@pytest.mark.real
def test_state_that_the_checkpoint_lacks_is_refused_with_the_way_out(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    more = {"sink.output.mode": "update"}
    stream = Stream(spark, tmp_path, unique, **more)
    stream.add(rows_of(0))
    stream.run()
    assert stream.refusal(**{"transform.sql": COUNTS}) == (
        "option 'transform.sql': makes a query whose state is not that of its checkpoint; restore what "
        "groups, joins and deduplicates rows, or create the connector under another name"
    )


@pytest.mark.real
def test_another_number_of_partitions_than_the_checkpoints_is_refused_with_the_way_out(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    more = {"sink.output.mode": "update", "transform.sql": COUNTS}
    stream = Stream(spark, tmp_path, unique, **{"state.partitions": "3"}, **more)
    stream.add(rows_of(0))
    stream.run()
    assert stream.refusal(**{"state.partitions": "4"}) == (
        "option 'state.partitions' = '4': is not the number of partitions that the state has in its "
        "checkpoint, 3; use 3, or create the connector under another name"
    )
    del stream.config["state.partitions"]
    stream.add(rows_of(1))
    stream.run()
    assert len([*(stream.checkpoint / "state" / "0").glob("[0-9]")]) == 3, "without the option it stays"
    assert recorded_settings(stream.checkpoint)["spark.sql.shuffle.partitions"] == "3"


@pytest.mark.real
def test_a_query_without_state_has_commits_as_before(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    stream = Stream(spark, tmp_path, unique)
    stream.add(rows_of(0))
    stream.run()
    assert commit_version(stream.checkpoint) == 1


@pytest.mark.real
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"watermark.column": "when"},
            "option 'watermark.column' = 'when': does not name a column of the view input; use one of at, "
            "key, part",
        ),
        (
            {"watermark.column": "key"},
            "option 'watermark.column' = 'key': is of type string; make it a timestamp by source.sql",
        ),
        (
            {"deduplicate.by": "key,no"},
            "option 'deduplicate.by' = 'no': does not name a column of the view input; use one of at, key",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: SparkBench, tmp_path: Path, unique: str, more: dict[str, str], said: str
) -> None:
    stream = Stream(spark, tmp_path, unique, **more)
    task = TaskId(unique, 0)
    spark.start(task, {**stream.config, "task.units": "unit-0"})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    assert said in spark.heard.traces[task, 1]
    assert spark.heard.reasons[task, 1] == "InvalidOption"


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (
            {"watermark.column": "at"},
            "option 'watermark.column' = 'at': requires watermark.delay.ms; set watermark.delay.ms, too",
        ),
        (
            {"watermark.delay.ms": "5"},
            "option 'watermark.delay.ms' = '5': requires watermark.column; set watermark.column, too",
        ),
        (
            {"deduplicate.by": "key"},
            "option 'deduplicate.by' = 'key': requires a watermark; set watermark.column and "
            "watermark.delay.ms, which bound how long a row is remembered",
        ),
    ],
)
def test_half_a_watermark_is_refused(more: dict[str, str], problem: str) -> None:
    config = pipeline("rate", "parquet", sink__options__path="/a")
    assert [f"{each}" for each in validate("spark", {**config, **more})] == [problem]


def test_a_batch_with_state_is_finished_by_spark_alone(tmp_path: Path) -> None:
    for log, names, version in (("offsets", "01", "v1"), ("commits", "0", "v2")):
        (tmp_path / log).mkdir()
        for name in names:
            (tmp_path / log / name).write_text(f'{version}\n{{"conf":{{}}}}\n{{"at":1}}')
    (tmp_path / "metadata").write_text('{"id":"a"}')
    with pytest.raises(OffsetsError, match=r"batch 1 was in flight .* resume the connector until"):
        settle_in_flight(tmp_path, lambda query, batch: None)
    assert settle_in_flight(tmp_path, lambda query, batch: False).newest == 0
