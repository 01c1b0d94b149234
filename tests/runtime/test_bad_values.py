"""Every converter before every sink, with every kind of bad value: each record becomes a row or a dead
letter, once, and no task fails."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from cooperator.connectors.output import read_units
from cooperator.model import TaskId
from tests.harness.encoders import AvroWriter, json_schema_encoder
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.registry import Registry
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

VALUE = pa.struct([("id", pa.int64()), ("name", pa.string())])
OTHERS = {
    "another type of a field": (
        pa.struct([("id", pa.string()), ("name", pa.string())]),
        {"id": "x", "name": "a"},
    ),
    "without the field": (pa.struct([("name", pa.string())]), {"name": "a"}),
    "of another schema": (pa.struct([("amount", pa.float64())]), {"amount": 1.5}),
    "with more fields": (pa.struct([*VALUE, ("more", pa.bool_())]), {"id": 1, "name": "a", "more": True}),
}
"""By kind, types of valid records besides ``VALUE``, each with a value: for converters with schemas."""
REFUSED = {"another type of a field", "without the field", "of another schema"}
"""Those that a SELECT of the fields refuses, or a column."""
LARGE = 1_000_000
STRUCTS = ("json", "json-schema", "avro")
LETTERS = {
    "string": set(),
    "bytes": set(),
    "json": {
        "broken",
        "cut off",
        "of a wrong type",
        "out of range",
        "a literal",
        "a list",
        "large and broken",
        "not UTF-8",
        "half of a pair",
    },
    "json-schema": {
        *("broken", "cut off", "of a wrong type", "out of range", "a literal", "a list", "large and broken"),
        *("empty", "missing a field", "not UTF-8", "half of a pair"),
    },
    "avro": {
        *("broken", "cut off", "of a wrong type", "a literal", "a list", "large and broken", "empty"),
        "not UTF-8",
    },
}
"""By converter, the kinds of values that no sink gets. All others become rows."""


def values_of(
    converter: str, write: Callable[[Mapping[str, Any]], bytes], others: Mapping[str, bytes]
) -> dict[str, bytes | None]:
    """The values by kind; ``write`` is the converter's own writer, ``others`` are records of other types."""
    whole = write({"id": 1, "name": "a"})
    found: dict[str, bytes | None] = {
        "a null first": None,
        **others,
        "good": whole,
        "broken": b'{"id": broken',
        "not UTF-8": whole[:-1] + b"\xff" if converter == "avro" else whole.replace(b'"a"', b'"\xff"'),
        "cut off": whole[:-1],
        "of a wrong type": b'{"id": "x"}',
        "a literal": b"null",
        "a list": b"[1]",
        "empty": b"",
        "without a value": None,
        "with U+0000": write({"id": 1, "name": "a\0"}),
        "a null field": write({"id": None, "name": None}),
        "large": write({"id": 1, "name": "a" * (LARGE - 1_000)}),
        "large and broken": b'{"id": ' + b"x" * LARGE,
    }
    if converter in ("json", "json-schema"):
        found["half of a pair"] = whole.replace(b'"a"', rb'"\ud800"')
    if converter == "json":
        found |= {"out of range": b'{"id": 99999999999999999999}', "missing a field": b'{"name": "a"}'}
    if converter == "json-schema":
        envelope = json.loads(whole)
        envelope["schema"]["fields"][0] |= {"type": "int8", "optional": False}
        for kind, payload in (
            ("of a wrong type", {"id": "x"}),
            ("out of range", {"id": 300}),
            ("missing a field", {}),
        ):
            found[kind] = json.dumps({**envelope, "payload": payload}).encode()
    if converter in ("string", "bytes"):
        found["not UTF-8"] = b"\xff\xfe"
        found["with U+0000"] = b"a\0b"
    return found


def select(converter: str, sink: str) -> str:
    body = {"string": "value AS body", "bytes": "value AS body"}.get(
        converter, "value.id, value.name AS body"
    )
    if sink != "kafka-to-kafka":
        return f"SELECT key AS kind, {body} FROM input"
    return f"SELECT key, {'to_json(value)' if converter in STRUCTS else 'value'} AS value FROM input"


SINKS = ("kafka-to-kafka", "kafka-to-files", "kafka-to-postgres")
PAIRS = [(converter, sink) for converter in LETTERS for sink in SINKS]
BRIEFLY = [
    ("string", "kafka-to-postgres"),
    ("bytes", "kafka-to-files"),
    ("json", "kafka-to-postgres"),
    ("json-schema", "kafka-to-kafka"),
    ("avro", "kafka-to-postgres"),
]
"""Covers each converter and each sink: the database accepts the fewest values."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "pairs",
    [
        pytest.param(BRIEFLY, id="each"),
        pytest.param(
            PAIRS,
            id="all",
            marks=pytest.mark.long(
                "tests/runtime/test_bad_values.py::"
                "test_every_record_becomes_a_row_or_a_dead_letter_whatever_its_value"
            ),
        ),
    ],
)
def test_every_record_becomes_a_row_or_a_dead_letter_whatever_its_value(
    spark: SparkBench,
    postgres: Postgres,
    registry: Registry,
    tmp_path: Path,
    unique: str,
    pairs: list[tuple[str, str]],
) -> None:
    client = SchemaRegistryClient({"url": registry.url})
    writers: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
        name: lambda value: json.dumps(value).encode() for name in ("string", "bytes", "json")
    }
    writers["json-schema"] = json_schema_encoder(VALUE)
    writers["avro"] = AvroWriter(client, f"{unique}-avro", VALUE, "value", False)
    others: dict[str, dict[str, bytes]] = {
        "json-schema": {name: json_schema_encoder(kind)(value) for name, (kind, value) in OTHERS.items()},
        "avro": {
            name: AvroWriter(client, f"{unique}-{name.replace(' ', '-')}", kind, "value", False)(value)
            for name, (kind, value) in OTHERS.items()
        },
    }
    kinds: dict[str, dict[str, bytes | None]] = {}
    tasks: dict[tuple[str, str], TaskId] = {}
    for converter, write in writers.items():
        topic = f"{unique}-{converter}"
        kinds[converter] = values_of(converter, write, others.get(converter, {}))
        records = [{"key": kind, "value": value} for kind, value in kinds[converter].items()]
        spark.produce(topic, records)
        for sink in [sink for one, sink in pairs if one == converter]:
            name = f"{topic}-{sink.removeprefix('kafka-to-')}"
            tasks[converter, sink] = task = TaskId(name, 0)
            spark.create_topic(f"{name}-dead", 1)
            config = {
                "connector.class": sink,
                "trigger.interval.ms": "100",
                "topics": topic,
                "key.converter": "string",
                "value.converter": converter,
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": f"{name}-dead",
                "transform.sql": select(converter, sink),
                "task.units": f"{topic}-0",
            }
            config |= {"value.schema": "id LONG, name STRING"} if converter == "json" else {}
            config |= {"schema.registry.url": registry.url} if converter == "avro" else {}
            if sink == "kafka-to-postgres":
                table = f'"{name}"'
                body = "body bytea" if converter == "bytes" else "id bigint, body text"
                postgres.query(f"CREATE TABLE {table} (kind text, {body})")
                config |= {**postgres.config, "table.name.format": name}
            elif sink == "kafka-to-files":
                config |= {"path": str(tmp_path / name), "rotate.interval.ms": "0"}
            else:
                spark.create_topic(f"{name}-out", 1)
                config |= {"topic": f"{name}-out", "message.max.bytes": str(LARGE + 10)}
            spark.start(task, config)

    def rows(sink: str, name: str) -> Counter[str]:
        if sink == "kafka-to-postgres":
            return Counter(kind for (kind,) in postgres.query(f'SELECT kind FROM "{name}"'))
        if sink == "kafka-to-files":
            table = read_units(tmp_path / name)
            return Counter(table["kind"].to_pylist() if table.num_rows else ())
        return Counter((key or b"").decode() for key, _ in spark.records(f"{name}-out"))

    for (converter, sink), task in tasks.items():
        name, given = task.connector, kinds[converter]

        def fates(sink: str = sink, name: str = name) -> tuple[Counter[str], Counter[str]]:
            letters = Counter((message.key() or b"").decode() for message in spark.messages(f"{name}-dead"))
            return rows(sink, name), letters

        def all_there(task: TaskId = task, given: Mapping[str, object] = given, fates: Any = fates) -> bool:
            if spark.heard.of(task)[-1:] == [("failed", 1)]:
                pytest.fail(f"{task}: {spark.heard.traces[task, 1]}")
            written, letters = fates()
            assert written.total() + letters.total() >= len(given), (task, written, letters)
            return True

        eventually(all_there, 120, str(task))
        written, letters = fates()
        wanted = LETTERS[converter] & given.keys()
        if converter in others and sink != "kafka-to-kafka":
            wanted = wanted | REFUSED
        if sink == "kafka-to-postgres" and converter != "bytes":
            wanted = wanted | {"with U+0000"}
        assert letters == Counter(wanted), task
        assert written == Counter(given.keys() - wanted), task
    texts = dict(postgres.query(f'SELECT kind, body FROM "{unique}-string-postgres"'))
    told_texts = {
        kind: None if value is None else value.decode(errors="replace")
        for kind, value in kinds["string"].items()
    }
    assert texts == {kind: text for kind, text in told_texts.items() if kind != "with U+0000"}
    pairs = {kind: (i, text) for kind, i, text in postgres.query(f'SELECT * FROM "{unique}-json-postgres"')}
    assert pairs["missing a field"] == (None, "a")
    assert pairs["empty"] == pairs["without a value"] == pairs["a null field"] == (None, None)
    for (converter, _), task in tasks.items():
        for message in spark.messages(f"{task.connector}-dead"):
            kind = (message.key() or b"").decode()
            assert message.value() == kinds[converter][kind], (task, kind)
            named = dict(message.headers() or [])
            assert named["__connect.errors.exception.message"], (task, kind)
    spark.stop(*tasks.values())
