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
from tests.harness.support import eventually, slow
from tests.runtime.postgres import Postgres
from tests.runtime.registry import Registry
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
WIDER = pa.struct([("id", pa.int64()), ("name", pa.string()), ("more", pa.int32())])


class ByRow:
    """The number of records that are converted row by row, by connector."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: Counter[str] = Counter()
        table = Conversion.table

        def counted(conversion: Conversion, raw: pa.Table, session: Any) -> Any:
            self.records[conversion._context.task.connector] += raw.num_rows
            return table(conversion, raw, session)

        monkeypatch.setattr(Conversion, "table", counted)


CASES = [
    ("kafka-to-kafka", "avro"),
    ("kafka-to-files", "json-schema"),
    ("kafka-to-postgres", "avro"),
    ("kafka-to-postgres", "json-schema"),
    ("kafka-to-kafka", "json"),
]


COMMAND = "env -u CI pytest tests/runtime/test_planned_batches.py"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "cases",
    [pytest.param(CASES[1:2], id="files"), pytest.param(CASES, id="all", marks=slow(COMMAND))],
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

    for converter in writers:
        spark.produce(f"{unique}-{converter}", [{"value": b"bad", "partition": 1}])
    produce(lambda converter: writers[converter], 540, 10)
    arrive(550)
    for name in names.values():
        eventually(lambda name=name: len(spark.records(f"{name}-dead")) == 1, 60, name)
    produce(lambda converter: wider[converter], 550, 10)
    arrive(560)
    bad = Counter(by_row.records)
    assert all(bad[name] > first[name] for name in names.values())

    def planned_again() -> bool:
        before, count = Counter(by_row.records), ids(cases[0]).total()
        produce(lambda converter: writers[converter], count, 2)
        arrive(count + 2)
        return by_row.records == before

    eventually(planned_again, 60)
    for name in names.values():
        assert [value for _, value in spark.records(f"{name}-dead")] == [b"bad"], name
    assert spark.unharmed(tasks)
    spark.stop(*tasks)
