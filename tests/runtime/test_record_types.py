"""Records that bring their types: one query for each type, in the records' order; a type that the SELECT or
the sink refuses is a defect of its records, unless no other type was ever accepted."""

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from cooperator.connectors import conversion, failing_rows, files_task
from cooperator.connectors.base import UnitContext
from cooperator.connectors.conversion import Conversion
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.options import OptionError, Options, parse
from cooperator.connectors.outcomes import Refused
from cooperator.connectors.parts import as_one_table, in_order
from cooperator.model import TaskId
from tests.harness.encoders import json_schema_encoder
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_conversion import RECORDS, SINKS, Sink

pytestmark = pytest.mark.real

ORDER = json_schema_encoder(pa.struct([("id", pa.int64()), ("name", pa.string())]))
WIDER = json_schema_encoder(pa.struct([("name", pa.string()), ("id", pa.int64()), ("more", pa.int32())]))
NO_ID = json_schema_encoder(pa.struct([("name", pa.string())]))
TEXT_ID = json_schema_encoder(pa.struct([("id", pa.string()), ("name", pa.string())]))
NUMBER = json_schema_encoder(pa.int64())


def order(number: int) -> bytes:
    return ORDER({"id": number, "name": "a"})


class Unit:
    """A unit whose batches are converted as its sink does; each incarnation has a new ``Conversion``."""

    def __init__(self, spark: SparkBench, checkpoint: Path, sink: Sink, **config: str) -> None:
        self._session = spark.runtime.session(Event()).newSession()
        self._sink = sink
        common = {"connector.class": "any", "topics": "t", "bootstrap.servers": "nowhere:9092"}
        told = {**common, **sink.config, "task.units": "t-0", "value.converter": "json-schema", **config}
        self._options: Options = parse(sink.options, told)
        self.said: list[str] = []
        self._context = UnitContext(
            group_id="g",
            task=TaskId("c", 0),
            unit="t-0",
            owner="m/i/1",
            checkpoint=checkpoint,
            cancelled=Event(),
            session=lambda: self._session,
            say=self.said.append,
        )
        self.restart()

    def restart(self) -> None:
        self._conversion: Conversion = self._sink.conversion(self._options, self._context)

    def batch(self, values: Sequence[bytes | None], first: int = 0) -> Any:
        common = {"key": None, "topic": "t", "partition": 0, "headers": None}
        rows = [{"value": value, "offset": first + n, **common} for n, value in enumerate(values)]
        records = self._session.createDataFrame(pa.Table.from_pylist(rows, RECORDS))
        return self._conversion.table(records.toArrow(), self._session)

    def offsets(self, *values: bytes | None) -> tuple[list[int], list[int]]:
        """The offsets of the rows and of the dead letters of one batch."""
        parts, letters = self.batch(values)
        rows = [dict(zip(part.rows.column_names, row, strict=True)) for part, _, row in in_order(parts)]
        if self._sink is SINKS["kafka"]:
            rows = [json.loads(row["value"]) for row in rows]
        return [row["offset"] for row in rows], [letter.row["offset"] for letter in letters]


def selecting(sink: str, columns: str) -> str:
    chosen = columns if SINKS[sink].gives_columns else f"to_json(struct({columns})) AS value"
    return f"SELECT {chosen} FROM input"


class Queries:
    """Counts the conversions, each of which is a query."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0

        def frame_of(rows: Any, session: Any) -> Any:
            self.count += 1
            return frames(rows, session)

        frames = failing_rows.frame_of
        monkeypatch.setattr(failing_rows, "frame_of", frame_of)
        monkeypatch.setattr(conversion, "frame_of", frame_of)


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize("sink", list(SINKS))
def test_a_thousand_records_of_two_types_in_turn_take_two_queries_and_keep_their_order(
    spark: SparkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str, tolerance: str
) -> None:
    sql = selecting(sink, "offset, value.id AS id") + " WHERE value.id % 10 != 3"
    unit = Unit(spark, tmp_path, SINKS[sink], **{"transform.sql": sql, "errors.tolerance": tolerance})
    queries = Queries(monkeypatch)
    values = [order(n) if n % 2 else WIDER({"id": n, "name": "b", "more": 1}) for n in range(1_000)]
    assert unit.offsets(*values) == ([n for n in range(1_000) if n % 10 != 3], [])
    assert queries.count == 2


def test_rows_that_a_record_is_exploded_into_stay_together_and_failing_ones_are_left_out(
    spark: SparkBench, tmp_path: Path
) -> None:
    sql = (
        "SELECT offset, explode(slice(sequence(1, 9), 1, value.id)) AS part, INT(value.name) AS n FROM input"
    )
    unit = Unit(spark, tmp_path, SINKS["files"], **{"transform.sql": sql, "errors.tolerance": "all"})
    values = []
    for n in range(40):
        name = "bad" if n in (3, 4, 30) else "1"
        values.append((ORDER if n % 3 else TEXT_ID)({"id": 2 if n % 3 else "2", "name": name}))
    parts, letters = unit.batch(values)
    assert [letter.row["offset"] for letter in letters] == [3, 4, 30]
    table = as_one_table(parts)
    assert table is not None
    assert [(row["offset"], row["part"]) for row in table.to_pylist()] == [
        (n, part) for n in range(40) if n not in (3, 4, 30) for part in (1, 2)
    ]


@pytest.mark.parametrize("sink", list(SINKS))
def test_a_record_whose_type_the_select_refuses_is_a_dead_letter_and_the_unit_goes_on(
    spark: SparkBench, tmp_path: Path, sink: str
) -> None:
    sql = selecting(sink, "offset, value.id, value.name")
    unit = Unit(spark, tmp_path, SINKS[sink], **{"transform.sql": sql, "errors.tolerance": "all"})
    refused = NO_ID({"name": "x"})
    with pytest.raises(OptionError, match=r"transform\.sql"):
        unit.batch([refused, None])
    assert unit.offsets(refused, order(1), None, NUMBER(7), refused) == ([1, 2], [0, 3, 4])
    for _ in range(2):
        assert unit.offsets(refused, NUMBER(7)) == ([], [0, 1]), "a batch of such records alone"
        unit.restart()
    assert unit.offsets(None, None) == ([0, 1], [])


def test_without_tolerance_a_refused_type_fails_the_task(spark: SparkBench, tmp_path: Path) -> None:
    unit = Unit(spark, tmp_path, SINKS["files"], **{"transform.sql": "SELECT value.id, offset FROM input"})
    assert unit.offsets(order(1)) == ([0], [])
    with pytest.raises(OptionError, match=r"transform\.sql"):
        unit.batch([order(1), NO_ID({"name": "x"})])


def test_a_select_that_refuses_what_was_accepted_before_is_wrong_and_leaves_nothing_out(
    spark: SparkBench, tmp_path: Path
) -> None:
    config = {"errors.tolerance": "all", "transform.sql": "SELECT value.id, offset FROM input"}
    assert Unit(spark, tmp_path, SINKS["files"], **config).offsets(order(1)) == ([0], [])
    config["transform.sql"] = "SELECT value.more, offset FROM input"
    changed = Unit(spark, tmp_path, SINKS["files"], **config)
    with pytest.raises(OptionError, match=r"transform\.sql"):
        changed.batch([order(1)])
    assert changed.offsets(order(1), WIDER({"name": "", "id": 1, "more": 2})) == ([1], [0])


def test_nulls_before_any_value_are_left_out_where_the_select_needs_their_type(
    spark: SparkBench, tmp_path: Path
) -> None:
    config = {"errors.tolerance": "all", "transform.sql": "SELECT value.id, offset FROM input"}
    unit = Unit(spark, tmp_path, SINKS["files"], **config)
    assert unit.offsets(None, None) == ([], [0, 1])
    assert unit.offsets(None, order(1), None) == ([0, 1, 2], [])
    assert unit.offsets(None) == ([0], [])


def test_rows_of_another_column_type_are_left_out_of_files_also_in_later_batches(
    spark: SparkBench, tmp_path: Path
) -> None:
    config = {"errors.tolerance": "all", "transform.sql": "SELECT value.id, offset FROM input"}
    unit = Unit(spark, tmp_path, SINKS["files"], **config)
    small = json_schema_encoder(pa.struct([("id", pa.int32())]))
    real = json_schema_encoder(pa.struct([("id", pa.float64())]))
    batch = [TEXT_ID({"id": "x", "name": "a"}), order(1), small({"id": 2}), real({"id": 0.5}), order(3)]
    parts, letters = unit.batch(batch)
    assert [letter.row["offset"] for letter in letters] == [0, 3], "most records have the type of the order"
    assert all(isinstance(letter.error, Refused) for letter in letters)
    assert "its column id is of type string, in earlier rows of type int64" in str(letters[0].error)
    table = as_one_table(parts)
    assert table is not None
    assert table.to_pylist() == [{"id": n, "offset": n} for n in (1, 2)] + [{"id": 3, "offset": 4}]
    unit.restart()
    assert unit.offsets(batch[0]) == ([], [0])
    assert unit.offsets(*batch) == ([1, 2, 4], [0, 3]), "a repeated batch is decided in the same way"


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_columns_that_files_cannot_have_are_left_out(
    spark: SparkBench, tmp_path: Path, file_format: str
) -> None:
    config = {"path": str(tmp_path / "out"), "format": file_format, "partition.by": "part"}
    config |= {"errors.tolerance": "all", "transform.sql": "SELECT value.* FROM input"}
    unit = Unit(spark, tmp_path, Sink(KafkaToFilesOptions, {}, files_task.conversion), **config)
    fits = json_schema_encoder(pa.struct([("part", pa.int32()), ("id", pa.int64())]))
    nested = json_schema_encoder(pa.struct([("part", pa.int32()), ("sub", pa.struct([("a", pa.int32())]))]))
    values = [fits({"part": 1, "id": 1}), order(1), nested({"part": 1, "sub": {"a": 1}})]
    _, letters = unit.batch(values)
    assert [letter.row["offset"] for letter in letters] == ([1, 2] if file_format == "csv" else [1])
    assert "partition.by" in str(letters[0].error)
