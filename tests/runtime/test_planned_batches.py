"""Clean batches are converted in Spark's plan and pass no Python; a bad record is a dead letter once, and
rows before and after it arrive once."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from cooperator.connectors.conversion import Conversion
from cooperator.connectors.output import read_units
from tests.harness.encoders import AvroWriter, json_schema_encoder
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.registry import Registry
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
WIDER = pa.struct([("id", pa.int64()), ("name", pa.string()), ("more", pa.int32())])


class ByRow:
    """The number of records in batches that are converted row by row, and of those that failed in Spark's
    tasks and were converted alone, by connector."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: Counter[str] = Counter()
        self.failing: Counter[str] = Counter()
        table, refused = Conversion.table, Conversion.refused

        def counted(conversion: Conversion, raw: pa.Table, session: Any) -> Any:
            self.records[conversion._context.task.connector] += raw.num_rows
            return table(conversion, raw, session)

        def alone(conversion: Conversion, raw: pa.Table, session: Any) -> Any:
            self.failing[conversion._context.task.connector] += raw.num_rows
            return refused(conversion, raw, session)

        monkeypatch.setattr(Conversion, "table", counted)
        monkeypatch.setattr(Conversion, "refused", alone)


CASES = [
    ("kafka-to-kafka", "avro"),
    ("kafka-to-files", "json-schema"),
    ("kafka-to-postgres", "avro"),
    ("kafka-to-postgres", "json-schema"),
    ("kafka-to-kafka", "json"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(CASES[1:2], id="files"),
        pytest.param(
            CASES,
            id="all",
            marks=pytest.mark.long(
                "tests/runtime/test_planned_batches.py::"
                "test_clean_batches_are_converted_in_the_plan_and_a_bad_record_is_left_out_once"
            ),
        ),
    ],
)
def test_clean_batches_are_converted_in_the_plan_and_a_bad_record_is_left_out_once(
    spark: SparkBench,
    postgres: Postgres,
    registry: Registry,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    cases: list[tuple[str, str]],
) -> None:
    by_row = ByRow(monkeypatch)
    client = SchemaRegistryClient({"url": registry.url})
    writers: dict[str, Callable[[Any], bytes]] = {
        "avro": AvroWriter(client, f"{unique}-avro", ORDER, "order", False),
        "json-schema": json_schema_encoder(ORDER),
        "json": lambda value: json.dumps(value).encode(),
    }
    wider: dict[str, Callable[[Any], bytes]] = {
        "avro": AvroWriter(client, f"{unique}-avro", WIDER, "order", False),
        "json-schema": json_schema_encoder(WIDER),
        "json": writers["json"],
    }
    names = {case: f"{unique}-{number}" for number, case in enumerate(cases)}
    for converter in writers:
        spark.create_topic(f"{unique}-{converter}", 2)

    def produce(write: Callable[[str], Callable[[Any], bytes]], first: int, count: int) -> None:
        for converter in writers:
            spark.produce(
                f"{unique}-{converter}",
                [
                    {
                        "value": write(converter)({"id": number, "name": "a", "more": 1}),
                        "partition": number % 2,
                    }
                    for number in range(first, first + count)
                ],
            )

    tasks = []
    for (sink, converter), name in names.items():
        columns = "value.id AS id, value.name AS name, topic AS source, partition AS part, offset AS place"
        config = {
            "connector.class": sink,
            "topics": f"{unique}-{converter}",
            "trigger.interval.ms": "100",
            "value.converter": converter,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{name}-dead",
            "transform.sql": f"SELECT {columns} FROM input",
        }
        config |= {"schema.registry.url": registry.url} if converter == "avro" else {}
        config |= {"value.schema": "id LONG, name STRING"} if converter == "json" else {}
        if sink == "kafka-to-postgres":
            table = name.replace("-", "_")
            postgres.query(
                f"CREATE TABLE {table} (id bigint, name text, source text, part int, place bigint)"
            )
            config |= {**postgres.config, "table.name.format": table}
        elif sink == "kafka-to-files":
            config |= {"path": str(tmp_path / name), "rotate.interval.ms": "0"}
        else:
            config |= {"topic": f"{name}-out"}
            config["transform.sql"] = "SELECT to_json(value) AS value FROM input"
        tasks += spark.start_connector(name, config, 2)

    def ids(case: tuple[str, str]) -> Counter[int]:
        name = names[case]
        if case[0] == "kafka-to-postgres":
            return Counter(one for (one,) in postgres.query(f"SELECT id FROM {name.replace('-', '_')}"))
        if case[0] == "kafka-to-files":
            table = read_units(tmp_path / name)
            return Counter(table["id"].to_pylist() if table.num_rows else ())
        return Counter(json.loads(value)["id"] for _, value in spark.records(f"{name}-out"))

    def arrive(count: int) -> None:
        for case in cases:
            eventually(lambda case=case: ids(case).total() >= count, 60, f"{case}: {spark.heard.traces}")
            assert ids(case) == Counter(range(count)), case

    produce(lambda converter: writers[converter], 0, 40)
    arrive(40)
    first = Counter(by_row.records)
    assert {case for case, name in names.items() if first[name]} == {one for one in cases if one[1] != "json"}
    produce(lambda converter: writers[converter], 40, 500)
    arrive(540)
    assert by_row.records == first, "clean batches of settled types are converted in the plan"

    def letters(name: str) -> list[bytes | None]:
        return sorted(value or b"" for _, value in spark.records(f"{name}-dead"))

    wanted: list[bytes] = []
    for count in (550, 600, 850):
        # Bad records come first, and among the others.
        bad = [b"bad %d" % count, b"bad", *([b"b"] * (count // 100))]
        for converter in writers:
            spark.produce(f"{unique}-{converter}", [{"value": bad[0], "partition": 1}])
        between = ids(cases[0]).total()
        produce(lambda converter: writers[converter], between, 5)
        for converter in writers:
            spark.produce(f"{unique}-{converter}", [{"value": one, "partition": 0} for one in bad[1:]])
        produce(lambda converter, between=between: writers[converter], between + 5, count - between - 5)
        arrive(count)
        wanted = sorted([*wanted, *bad])
        for name in names.values():
            eventually(lambda name=name, wanted=wanted: letters(name) == wanted, 60, name)
    assert by_row.records == first, "no batch is converted row by row for its bad records"
    alone = Counter(by_row.failing)
    assert all(alone[name] >= len(wanted) for name in names.values())
    produce(lambda converter: wider[converter], 850, 10)
    arrive(860)
    produce(lambda converter: writers[converter], 860, 200)
    arrive(1_060)
    assert by_row.records == first, "a new type makes another plan"
    assert (by_row.failing - alone).total() <= 20 * len(cases), "few records tell that their type is new"
    for name in names.values():
        assert letters(name) == wanted, name
    assert spark.unharmed(tasks)
    spark.stop(*tasks)
