"""A million rows through queries with state, over kills and moves: what a batch of the same query finds."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cooperator.connectors.offsets.unit_log import commit_version, last_end
from cooperator.connectors.output import committed_files
from cooperator.connectors.places import place_of
from cooperator.connectors.transform import selected
from cooperator.local.broker import EmbeddedBroker
from tests.guarantees.pipelines_group import PATIENCE_S
from tests.guarantees.stateful_group import StatefulGroup
from tests.harness.support import eventually
from tests.runtime.s3_server import S3Server
from tests.runtime.spark_bench import SparkBench, spark_bench

ROWS, FILES = 1_000_000, 20
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "at TIMESTAMP, id LONG, key STRING"
WINDOWS = """
    SELECT window(at, '10 minutes').start AS start, key, count(*) AS n
    FROM input GROUP BY window(at, '10 minutes'), key
"""
QUERIES = {"windows": {"transform.sql": WINDOWS}, "without duplicates": {"deduplicate.by": "id"}}


def lines(file: int) -> list[str]:
    """The rows of one file, 100 ms apart from each other, and after them a part of those before once more."""
    new, again = ROWS // FILES * 4 // 5, ROWS // FILES // 5
    first, before = file * new, max(0, file - 1) * new
    return [
        json.dumps(
            {
                "at": (BEGIN + timedelta(milliseconds=100 * number)).isoformat(),
                "id": number,
                "key": f"k{number * 7 % 5_000}",
            }
        )
        for number in (*range(first, first + new), *range(before, before + again))
    ]


@pytest.fixture
def checkpoints(
    request: pytest.FixtureRequest, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A directory, or a place in an S3 store."""
    if request.param == "directory":
        yield str(tmp_path / "checkpoints")
        return
    server = S3Server(tmp_path / "s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield f"s3a://{server.bucket}/{unique}"
    server.stop()


@pytest.fixture(scope="module")
def batches(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkBench]:
    """A Spark of the test, which runs the same queries as batches."""
    root = tmp_path_factory.mktemp("batches")
    with spark_bench(broker, root) as bench:
        yield bench


def expected(batches: SparkBench, source: Path, name: str) -> set[tuple[Any, ...]]:
    session = batches.runtime.session(Event())
    rows = session.read.schema(SCHEMA).json(str(source)).where("key <> 'last'")
    found = selected(rows, WINDOWS) if name == "windows" else rows.dropDuplicates(["id"])
    return tuples(found.toArrow())


def tuples(table: Any) -> set[tuple[Any, ...]]:
    columns = [
        table[name].cast(pa.timestamp("us", tz="UTC")) if name in ("at", "start") else table[name]
        for name in sorted(table.column_names)
    ]
    found = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len(found) == len(set(found)), "a row is there twice"
    return set(found)


@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
@pytest.mark.real
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("checkpoints", ["directory", "s3"], indirect=True)
@pytest.mark.parametrize("name", QUERIES)
def test_a_million_rows_are_what_a_batch_finds(
    broker: EmbeddedBroker, batches: SparkBench, checkpoints: str, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    config = {
        **QUERIES[name],
        "source.schema": SCHEMA,
        "watermark.column": "at",
        "watermark.delay.ms": "14400000",
        "sink.format": "parquet",
        "sink.options.path": f"{out}",
    }
    group = StatefulGroup(broker, tmp_path, config, checkpoints)
    unit = place_of(checkpoints, {}, os.environ) / "counts" / "unit-0"

    def is_read(files: int) -> bool:
        end = last_end(unit)
        return bool(end) and json.loads(end)["logOffset"] + 1 >= files

    try:
        for file in range(FILES):
            group.feed(lines(file))
            if file % 5 == 4:
                # In mid-stream: the files before are read, and the newest is on its way.
                eventually(lambda file=file: is_read(file), PATIENCE_S, f"file {file} is read")
                gone = group.kill() if file % 10 == 4 else group.leave()
                group.has_moved_from(gone)
                group.start(gone)
        eventually(lambda: is_read(FILES), PATIENCE_S, "all files are read")
        group.feed([json.dumps({"at": (BEGIN + timedelta(days=9)).isoformat(), "id": -1, "key": "last"})])
        wanted = expected(batches, group.source, name)

        def written() -> set[tuple[Any, ...]]:
            tables = [pq.read_table(file) for file in committed_files(out)]
            return {row for table in tables for row in tuples(table) if "last" not in row}

        def rows() -> int:
            files = committed_files(out) if (out / "_spark_metadata").exists() else []
            return sum(pq.read_metadata(file).num_rows for file in files)

        eventually(lambda: rows() >= len(wanted), PATIENCE_S, f"{len(wanted)} rows are written")
        found = written()
        assert found == wanted, f"missing {len(wanted - found)}, too many {len(found - wanted)}"
        assert rows() - len(found) <= 1, "a row is there twice"
        assert commit_version(unit) == 2
    finally:
        group.group.close()
