"""Spark's plan decodes records as Python does, value by value, or refuses them; whatever their bytes are."""

import io
import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from cooperator.connectors import failing_rows
from cooperator.connectors.decoder import Decoder, SettledColumn
from cooperator.connectors.decoding import DecodingOptions, read_envelope
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.options import parse
from cooperator.connectors.planned_decoding import Decoding, DecodingPlanner, failing_once
from cooperator.connectors.registry import AvroReader, Undecodable
from tests.harness.encoders import json_schema_encoder
from tests.runtime.test_converters import JSON, ROW, ROWS, SCHEMAS, OneSchema

pytestmark = pytest.mark.real

BRIEFLY = pytest.param(6, id="briefly")
ID = 7
HEAD = b"\0" + ID.to_bytes(4, "big")
CONNECT = "org.apache.kafka.connect.data."


class Ways:
    """Both ways of decoding values of one settled type."""

    def __init__(self, session: Any, root: Path, kind: pa.DataType, schema: object = None) -> None:
        client: Any = OneSchema(schema)
        self.converter = "json-schema" if schema is None else "avro"
        config = {"connector.class": "x", "value.converter": self.converter}
        if schema is not None:
            config["schema.registry.url"] = "http://nowhere"
        avro = AvroReader(client)
        self._decoder = Decoder(parse(DecodingOptions, config), FileMemory(root / "none"), avro)
        self._session = session
        self._kind = kind
        texts = {} if schema is None else {ID: (json.dumps(schema),)}
        self.decoding = DecodingPlanner(session).decoding(
            [SettledColumn("value", self.converter, kind, texts)]
        )

    def by_row(self, values: Sequence[bytes | None]) -> dict[int, Any]:
        """The values that Python reads as the settled type, by number."""
        found, _ = self._decoder.tables(_table(values))
        of_kind = [one for one in found if one.types == (self._kind,)]
        if not of_kind:
            return {}
        [(_, numbers, rows)] = of_kind
        return dict(zip(numbers, _values(self._session.createDataFrame(rows)), strict=True))

    def planned(self, values: Sequence[bytes | None]) -> dict[int, Any]:
        """The values that the plan reads, by number; each is read by itself."""
        assert self.decoding is not None
        table, count = _table(values), len(values)
        alone: Any = self.decoding.applied(failing_rows._grouped(table, self._session, count))
        trial = failing_rows._java(self._session).RowTrial
        failures = json.loads(trial.failures(alone._jdf, 1))
        assert all(failing_rows.blames_a_row(one["state"]) for one in failures), failures
        refused = {one["row"] for one in failures}
        read = [number for number in range(count) if number not in refused]
        rows = self.decoding.applied(
            failing_rows.frame_of(table.take(pa.array(read, pa.int64())), self._session)
        )
        return dict(zip(read, _values(rows), strict=True))

    def check(self, values: Sequence[bytes | None], valid: Sequence[int] = ()) -> None:
        by_row, planned = self.by_row(values), self.planned(values)
        for number, value in planned.items():
            assert values[number] is None or number in by_row, (values[number], value)
            # Floats that are no numbers are not equal to themselves.
            assert repr(value) == repr(by_row.get(number)), values[number]
        assert set(valid) <= planned.keys(), [values[n] for n in set(valid) - planned.keys()]


def _table(values: Sequence[bytes | None]) -> pa.Table:
    return pa.table(
        {"key": pa.array([None] * len(values), pa.binary()), "value": pa.array(values, pa.binary())}
    )


def _values(rows: DataFrame) -> list[Any]:
    return rows.toArrow()["value"].to_pylist() if rows.schema["value"].dataType.typeName() != "void" else []


def examples(count: int) -> Callable[[Any], Any]:
    return settings(max_examples=count, suppress_health_check=list(HealthCheck), print_blob=True)


@st.composite
def damaged(draw: Any, data: bytes) -> bytes:
    """The bytes with a few of them replaced, cut off or added."""
    at = draw(st.integers(0, max(0, len(data) - 1)))
    more = draw(
        st.binary(max_size=3) | st.sampled_from([b"\xed\xa0\x80", b"\0", b"}", b" ", b'"', b"1e400", b"NaN"])
    )
    return data[:at] + more + data[at + draw(st.integers(0, 3)) :]


# --- Avro --------------------------------------------------------------------------------------------

TIMES = st.integers(-(10**13), 10**14).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


SIMPLE: list[tuple[Any, Any]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", st.text()),
    ("bytes", st.binary()),
    (logical("int", "date"), st.dates()),
    (logical("long", "timestamp-millis"), TIMES),
    (logical("long", "timestamp-micros"), TIMES),
    (logical("bytes", "decimal", precision=30, scale=3), st.decimals(-(10**20), 10**20, places=3)),
    (logical("bytes", "decimal", precision=5), st.decimals(-99_999, 99_999, places=0)),
]


@st.composite
def avro(draw: Any, depth: int = 2, named: Any = None) -> tuple[Any, Any]:
    """A schema, and a strategy of its values."""
    names = named if named is not None else iter(range(1_000))
    kind = draw(st.sampled_from(["simple", "enum", "fixed", "optional", "array", "map", "record", "record"]))
    if kind == "enum":
        schema = {"type": "enum", "name": f"E{next(names)}", "symbols": ["A", "B", "C"]}
        return schema, st.sampled_from(["A", "B", "C"])
    if kind == "fixed":
        return {"type": "fixed", "name": f"F{next(names)}", "size": 3}, st.binary(min_size=3, max_size=3)
    if depth == 0 or kind == "simple":
        return draw(st.sampled_from(SIMPLE))
    if kind == "record":
        parts = [draw(avro(depth - 1, names)) for _ in range(draw(st.integers(1, 4)))]
        fields = [{"name": f"f{number}", "type": schema} for number, (schema, _) in enumerate(parts)]
        values = st.fixed_dictionaries({f"f{number}": value for number, (_, value) in enumerate(parts)})
        return {"type": "record", "name": f"R{next(names)}", "fields": fields}, values
    schema, value = draw(avro(depth - 1, names).filter(lambda one: not isinstance(one[0], list)))
    if kind == "optional":
        return draw(st.sampled_from([["null", schema], [schema, "null"]])), st.none() | value
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(value, max_size=3)
    return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=3), value, max_size=3)


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return HEAD + out.getvalue()


@pytest.mark.parametrize(
    "count",
    [
        BRIEFLY,
        pytest.param(
            400,
            id="long",
            marks=pytest.mark.long(
                "tests/microbatch/test_planned_decoding.py::test_avro_of_any_schema_is_read_in_the_same_way"
            ),
        ),
    ],
)
def test_avro_of_any_schema_is_read_in_the_same_way(session: Any, tmp_path: Path, count: int) -> None:
    @examples(count)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        schema, value = data.draw(avro())
        whole = [encoded(schema, one) for one in data.draw(st.lists(value, min_size=3, max_size=8))]
        broken = [data.draw(damaged(one)) for one in whole for _ in range(3)]
        client: Any = OneSchema(schema)
        kind, _ = AvroReader(client)(whole[0])
        ways = Ways(session, tmp_path, kind, schema)
        assert ways.decoding is not None, schema
        ways.check([*whole, None, *broken, HEAD, b"", b"\0\0\0\0\1"], range(len(whole) + 1))

    compare()


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (logical("string", "uuid"), pa.string()),
        (logical("int", "time-millis"), pa.string()),
        (logical("long", "time-micros"), pa.string()),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": logical("string", "uuid")}]},
            pa.struct([("a", pa.string())]),
        ),
    ],
)
def test_avro_whose_values_python_changes_is_left_to_python(
    session: Any, tmp_path: Path, schema: Any, kind: pa.DataType
) -> None:
    assert Ways(session, tmp_path, kind, schema).decoding is None


# --- Connect's envelope ------------------------------------------------------------------------------

INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def payloads(schema: Mapping[str, Any]) -> Any:
    """Payloads that mostly fit a schema."""
    kind = schema["type"]
    if kind == "struct":
        fit = st.fixed_dictionaries({}, optional={one["field"]: payloads(one) for one in schema["fields"]})
    elif kind == "array":
        fit = st.lists(payloads(schema["items"]), max_size=3)
    elif kind == "map":
        keys, values = payloads(schema["keys"]), payloads(schema["values"])
        fit = st.dictionaries(st.text(max_size=2), values, max_size=3) | st.lists(
            st.tuples(keys, values).map(list), max_size=2
        )
    elif kind in INTEGERS:
        most = 2 ** INTEGERS[kind]
        fit = st.integers(-most, most - 1) | st.integers(-most - 1, most) | st.integers(-100, 100)
    else:
        fit = {
            "boolean": st.booleans(),
            "string": st.text(),
            "bytes": st.binary().map(lambda data: b64encode(data).decode()),
        }.get(kind, st.floats() | st.integers(-(2**54), 2**54))
    return st.one_of(fit, fit, fit, st.none(), JSON)


@pytest.mark.parametrize(
    "count",
    [
        BRIEFLY,
        pytest.param(
            400,
            id="long",
            marks=pytest.mark.long(
                "tests/microbatch/test_planned_decoding.py::test_envelopes_of_any_schema_are_read_in_the_same_way"
            ),
        ),
    ],
)
def test_envelopes_of_any_schema_are_read_in_the_same_way(session: Any, tmp_path: Path, count: int) -> None:
    @examples(count)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        schema = data.draw(SCHEMAS)
        if data.draw(st.booleans()):
            schema = {"type": "struct", "fields": [{**schema, "field": "a"}, {"type": "int8", "field": "b"}]}
        if data.draw(st.booleans()):
            schema = {**schema, "default": data.draw(payloads(schema))}
        values = data.draw(st.lists(payloads(schema), min_size=4, max_size=12))
        texts = [json.dumps({"schema": schema, "payload": value}) for value in values]
        texts += [json.dumps({"payload": values[0], "schema": schema}), json.dumps(schema)]
        texts += [text.replace(" ", "") for text in texts] + [f" {text}\n" for text in texts]
        records = [text.encode() for text in texts]
        records += [text.encode("utf-16") for text in texts[:1]]
        records += [data.draw(damaged(one)) for one in records]
        try:
            kind, _ = read_envelope(
                json.dumps({"schema": {**schema, "optional": True}, "payload": None}).encode()
            )
        except Undecodable:
            return
        try:
            session.createDataFrame(pa.table({"value": pa.array([], kind)}))
        except Exception:
            return  # Spark has no such column, so that no rows are settled.
        Ways(session, tmp_path, kind).check(records)

    compare()


@pytest.mark.parametrize(
    "count",
    [
        BRIEFLY,
        pytest.param(
            400,
            id="long",
            marks=pytest.mark.long(
                "tests/microbatch/test_planned_decoding.py::test_envelopes_of_connects_own_converter_are_read_by_the_plan"
            ),
        ),
    ],
)
def test_envelopes_of_connects_own_converter_are_read_by_the_plan(
    session: Any, tmp_path: Path, count: int
) -> None:
    write, kind = json_schema_encoder(ROW), None
    kind, _ = read_envelope(write(dict.fromkeys(ROW.names)))

    @examples(count)
    @given(st.lists(ROWS | st.none(), min_size=1, max_size=20))
    def compare(rows: list[Any]) -> None:
        values = [write(row) for row in rows]
        ways = Ways(session, tmp_path, kind)
        ways.check([*values, None], range(len(values) + 1))

    compare()


SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int8"},
        {"field": "name", "type": "string", "optional": True, "default": "none"},
        {"field": "at", "type": "int64", "name": f"{CONNECT}Timestamp", "optional": True},
        {"field": "day", "type": "int32", "name": f"{CONNECT}Date", "optional": True},
        {"field": "time", "type": "int32", "name": f"{CONNECT}Time", "optional": True},
        {
            "field": "tags",
            "type": "map",
            "keys": {"type": "string"},
            "values": {"type": "float"},
            "optional": True,
        },
    ],
}
READ = [
    '{"id": 1}',
    '{"id": -128, "name": null, "at": 1, "day": -1, "time": 3600001, "tags": {"a": 1, "b": 2.5}}',
    '{"id": 1, "name": "\\ud83d\\ude00 \\u0000", "other": [{"id": NULL}]}'.replace("NULL", "null"),
    '{"\\u0069d": 1, "time": -1}',
]
REFUSED = [
    '{"id": 128}',
    '{"id": 1.0}',
    '{"id": true}',
    '{"id": "1"}',
    '{"id": null}',
    "{}",
    "null",
    "[]",
    '{"id": 1, "id": 2}',
    '{"id": 1, "name": "\\ud800"}',
    '{"id": 1, "tags": {"a": 1, "a": 2}}',
    '{"id": 1, "tags": {"a": NaN}}',
    '{"id": 1, "tags": {"a": 16777217}}',
    '{"id": 1, "day": 2147483647}',
    '{"id": 1, "at": 9223372036854775807}',
    '{"id": 1}, "more": 1',
]


def test_values_that_do_not_fit_their_schema_exactly_are_refused(session: Any, tmp_path: Path) -> None:
    records = [
        f'{{"schema": {json.dumps(SCHEMA)}, "payload": {text}}}'.encode() for text in (*READ, *REFUSED)
    ]
    kind, _ = read_envelope(records[0])
    ways = Ways(session, tmp_path, kind)
    ways.check(records, range(len(READ)))
    assert list(ways.planned(records)) == list(range(len(READ)))


def test_a_schema_of_another_type_and_one_that_is_null_are_refused(session: Any, tmp_path: Path) -> None:
    kind = pa.struct([("id", pa.int64())])
    other = json_schema_encoder(pa.struct([("id", pa.int32())]))({"id": 1})
    whole = json_schema_encoder(kind)({"id": 1})
    ways = Ways(session, tmp_path, kind)
    assert ways.planned([other, whole, b'{"schema": null, "payload": null}', None]) == {1: {"id": 1}, 3: None}


def test_a_column_of_nulls_has_no_type_and_refuses_values(session: Any, tmp_path: Path) -> None:
    columns = [SettledColumn("value", "json-schema", pa.null(), {})]
    decoding = DecodingPlanner(session).decoding(columns)
    assert isinstance(decoding, Decoding)
    rows = decoding.applied(failing_rows.frame_of(_table([None, None]), session))
    assert rows.dtypes[1] == ("value", "void")
    assert rows.count() == 2
    with pytest.raises(Exception, match="it has no type yet"):
        decoding.applied(failing_rows.frame_of(_table([None, b"1"]), session)).collect()


def test_a_job_that_fails_for_a_row_does_not_compute_it_again(session: Any) -> None:
    now = "reflect('java.lang.System', 'nanoTime')"
    rows = session.range(1).selectExpr(f"raise_error(concat('bad at ', {now}, '.')) AS value")
    context = session.sparkContext
    context.setJobGroup("fails", "a query that fails for a row")
    with pytest.raises(Exception, match="bad at"):
        failing_once(rows).toArrow()
    [job] = context.statusTracker().getJobIdsForGroup("fails")
    [stage] = context.statusTracker().getJobInfo(job).stageIds
    tasks = context._jsc.sc().statusStore().taskList(stage, 0, 100)
    errors = [str(tasks.apply(number).errorMessage()) for number in range(tasks.size())]
    times = [found for error in errors for found in re.findall(r"bad at (\d+)", error)[:1]]
    assert len(times) > 1, "Spark tries a task several times"
    assert len(set(times)) == 1
