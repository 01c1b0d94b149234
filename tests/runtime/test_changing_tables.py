"""Tables that change while they are read: no row of the new shape is written as one of the earlier shape."""

import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from cooperator.connectors.microbatch.batches import Outcome
from cooperator.connectors.registry import AvroReader
from cooperator.connectors.tablelogs.batches import Records, Slots, TableBatches
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.registry import Registry
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_followed_tables import run
from tests.runtime.test_postgres_to_kafka import source, table_of

pytestmark = pytest.mark.real

LARGE = 2**40
PATIENCE_S, TOLD_S = 180, 20
MADE = (
    "CREATE TABLE {t} (id bigserial PRIMARY KEY, n integer, word text, mood {t}_mood); "
    "INSERT INTO {t} (n, word) VALUES (1, 'a')"
)


class Change(NamedTuple):
    """A change of a table, and its second row afterwards: its key, its columns' types, and its values."""

    statements: str
    types: dict[str, str]
    values: dict[str, Any]
    key: Any = 2


BEFORE = {"id": "int64", "n": "int32", "word": "string", "mood": "string"}
ROW = {"id": 2, "n": 2, "word": "b", "mood": None}
LONG = {**BEFORE, "n": "int64"}

CHANGES: dict[str, Change] = {
    "add": Change(
        "ALTER TABLE {t} ADD more text DEFAULT 'x'", {**BEFORE, "more": "string"}, {**ROW, "more": "x"}
    ),
    "address": Change(
        "ALTER TABLE {t} ADD host inet DEFAULT '10.0.0.1'",
        {**BEFORE, "host": "string"},
        {**ROW, "host": "10.0.0.1"},
    ),
    "drop": Change(
        "ALTER TABLE {t} DROP word",
        {name: kind for name, kind in BEFORE.items() if name != "word"},
        {name: value for name, value in ROW.items() if name != "word"},
    ),
    "rename": Change(
        "ALTER TABLE {t} RENAME word TO words",
        {{"word": "words"}.get(name, name): kind for name, kind in BEFORE.items()},
        {{"word": "words"}.get(name, name): value for name, value in ROW.items()},
    ),
    "swap": Change(
        "ALTER TABLE {t} RENAME word TO other; ALTER TABLE {t} RENAME mood TO word; "
        "ALTER TABLE {t} RENAME other TO mood",
        BEFORE,
        {"id": 2, "n": 2, "mood": "b", "word": None},
    ),
    "larger": Change(
        f"ALTER TABLE {{t}} ALTER n TYPE bigint; UPDATE {{t}} SET n = {LARGE} WHERE id = 2",
        LONG,
        {**ROW, "n": LARGE},
    ),
    "text": Change("ALTER TABLE {t} ALTER n TYPE text", {**BEFORE, "n": "string"}, {**ROW, "n": "2"}),
    "number": Change(
        "ALTER TABLE {t} ALTER word TYPE integer USING 7", {**BEFORE, "word": "int32"}, {**ROW, "word": 7}
    ),
    "again": Change(
        "ALTER TABLE {t} DROP n; ALTER TABLE {t} ADD n bigint DEFAULT 5",
        {"id": "int64", "word": "string", "mood": "string", "n": "int64"},
        {**ROW, "n": 5},
    ),
    "key": Change(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ADD PRIMARY KEY (n, id)", BEFORE, ROW, {"n": 2, "id": 2}
    ),
    "keyless": Change("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey", BEFORE, ROW, None),
    "required": Change("ALTER TABLE {t} ALTER n SET NOT NULL", BEFORE, ROW),
    "label": Change(
        "ALTER TYPE {t}_mood ADD VALUE 'new'; UPDATE {t} SET mood = 'new' WHERE id = 2",
        BEFORE,
        {**ROW, "mood": "new"},
    ),
    "rewrite": Change("VACUUM FULL {t}", BEFORE, ROW),
    "default": Change("ALTER TABLE {t} ALTER n SET DEFAULT 9", BEFORE, ROW),
    "index": Change("CREATE INDEX ON {t} (word)", BEFORE, ROW),
}


def make(postgres: Postgres, table: str) -> None:
    run(postgres, f"CREATE TYPE {{t}}_mood AS ENUM ('old'); {MADE}", t=table)


def insert(postgres: Postgres, tables: Sequence[str]) -> None:
    with postgres.session() as session:
        for table in tables:
            session.execute(f"INSERT INTO {table} (n, word) VALUES (2, 'b')".encode())
        session.commit()


def envelope(text: bytes | None) -> tuple[dict[str, str], Any]:
    """The types of an envelope's fields, and the payload."""
    if text is None:
        return {}, None
    found = json.loads(text)
    fields = found["schema"].get("fields", [])
    return {field["field"]: field["type"] for field in fields}, found["payload"]


@pytest.fixture
def before_next_batch(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Lets something happen once a batch with rows is planned, before its rows are read."""
    happens: list[Callable[[], None]] = []
    original = TableBatches.run

    def after_that(self: TableBatches, session: str, slots: Slots, records: Records) -> Outcome:
        if happens and any(each.size for slot in slots for each in slot):
            happens.pop()()
        return original(self, session, slots, records)

    monkeypatch.setattr(TableBatches, "run", after_that)
    return happens.append


def test_a_planned_batch_is_read_in_the_shape_that_its_table_has_got_meanwhile(
    spark: SparkBench,
    postgres: Postgres,
    unique: str,
    before_next_batch: Callable[[Callable[[], None]], None],
) -> None:
    tables = {f"{table_of(unique)}_{kind}": change for kind, change in CHANGES.items()}
    for table in tables:
        make(postgres, table)
    config = source(postgres, tables=",".join(tables), tasks_max=1)
    config |= {"key.converter": "json-schema", "value.converter": "json-schema"}
    tasks = spark.start_connector(unique, config, len(tables))
    for table in tables:
        eventually(lambda table=table: len(spark.records(table)) == 1, PATIENCE_S, table)
        assert envelope(spark.records(table)[0][1])[0] == BEFORE

    def change_all() -> None:
        for table, change in tables.items():
            run(postgres, change.statements, t=table)

    before_next_batch(change_all)
    insert(postgres, list(tables))
    for table, change in tables.items():
        eventually(
            lambda table=table: len(spark.records(table)) == 2, PATIENCE_S, f"{table}: {spark.heard.texts}"
        )
        key, value = spark.records(table)[1]
        assert (table, envelope(key)[1], *envelope(value)) == (table, change.key, change.types, change.values)
    assert spark.unharmed(tasks)
    # Later changes are noticed by the look, and no batch fails for them.
    first = next(iter(tables))
    run(postgres, "ALTER TABLE {t} ADD last text DEFAULT 'z'", t=first)
    insert(postgres, [first])
    eventually(lambda: len(spark.records(first)) == 3, PATIENCE_S, f"{spark.heard.texts}")
    assert envelope(spark.records(first)[2][1])[1]["last"] == "z"
    spark.stop(*tasks)


def test_a_select_sees_the_columns_that_its_table_has(
    spark: SparkBench,
    postgres: Postgres,
    unique: str,
    before_next_batch: Callable[[Callable[[], None]], None],
) -> None:
    for sql in (
        "SELECT to_json(struct(*)) AS value FROM input",
        "SELECT DISTINCT to_json(struct(*)) AS value FROM input",
    ):
        table = f"{table_of(unique)}_{len(sql)}"
        make(postgres, table)
        tasks = spark.start_connector(table, source(postgres, tables=table, transform_sql=sql), 1)
        eventually(lambda table=table: len(spark.records(table)) == 1, PATIENCE_S)
        change = CHANGES["larger"].statements + "; " + CHANGES["add"].statements
        before_next_batch(lambda table=table, change=change: run(postgres, change, t=table))
        insert(postgres, [table])
        eventually(lambda table=table: len(spark.records(table)) == 2, PATIENCE_S, f"{spark.heard.texts}")
        assert json.loads(spark.records(table)[1][1]) == {"id": 2, "n": LARGE, "word": "b", "more": "x"}
        spark.stop(*tasks)


def test_avro_is_registered_anew_and_what_the_registry_refuses_is_named(
    spark: SparkBench, postgres: Postgres, registry: Registry, unique: str
) -> None:
    table = table_of(unique)
    make(postgres, table)
    config = source(postgres, tables=table, schema_registry_url=registry.url)
    tasks = spark.start_connector(unique, {**config, "value.converter": "avro"}, 1)
    eventually(lambda: len(spark.records(table)) == 1, PATIENCE_S)
    run(postgres, f"{CHANGES['add'].statements}; ALTER TABLE {{t}} ALTER n TYPE bigint", t=table)
    run(postgres, f"INSERT INTO {{t}} (n) VALUES ({LARGE})", t=table)
    eventually(lambda: len(spark.records(table)) == 2, PATIENCE_S)
    read = AvroReader(SchemaRegistryClient({"url": registry.url}))
    wanted = {"id": 2, "n": LARGE, "word": None, "mood": None, "more": "x"}
    assert read(spark.records(table)[1][1])[1] == wanted
    compatible = json.dumps({"compatibility": "BACKWARD"}).encode()
    kinds = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    url = f"{registry.url}/config/{table}-value"
    urllib.request.urlopen(urllib.request.Request(url, compatible, kinds, method="PUT"), timeout=10).close()
    run(postgres, "ALTER TABLE {t} ALTER word TYPE integer USING 7; INSERT INTO {t} (n) VALUES (3)", t=table)
    eventually(lambda: spark.heard.of(tasks[1])[-1:] == [("failed", 1)], TOLD_S)
    told = spark.heard.traces[tasks[1], 1]
    assert f"'value.converter' = 'avro': has columns of table {table} that the registry refuses for" in told
    assert f"for {table}-value" in told
    assert "change the table back, or the subject's compatibility" in told
    assert len(spark.records(table)) == 2
    spark.stop(tasks[0])


class Break(NamedTuple):
    """A change after which a table cannot be read on, and what its task says."""

    statements: str
    told: str
    options: Mapping[str, str] = MappingProxyType({})


BREAKS: dict[str, Break] = {
    "position": Break(
        "ALTER TABLE {t} RENAME id TO number",
        "'incrementing.column.name' = 'id': is not a column of table {t}; use one of number, n, word",
        {"incrementing.column.name": "id"},
    ),
    "dropped": Break("DROP TABLE {t}", "'tables' = '{t}': no longer exists"),
    "another": Break(
        "DROP TABLE {t}; " + MADE,
        "'tables' = '{t}': was created again after rows up to {{\"incrementing\": 1}} were read; alter its",
    ),
    "replaced": Break("ALTER TABLE {t} RENAME TO {t}_old; " + MADE, "was created again after rows up to"),
    "restarted": Break(
        "TRUNCATE {t} RESTART IDENTITY",
        "gets numbers of sequence {t}_id_seq, which was restarted or altered after rows up to",
    ),
    "infinite": Break(
        "ALTER TABLE {t} ADD day date; INSERT INTO {t} (n, day) VALUES (2, 'infinity')",
        "table {t}, row id = 2: column day has the value infinity, which is no value of a record (use",
    ),
    "cached": Break("ALTER SEQUENCE {t}_id_seq CACHE 10", "from which sessions take 10 numbers at a time"),
    "selected": Break(
        "ALTER TABLE {t} DROP word; INSERT INTO {t} (n) VALUES (2)",
        "option 'transform.sql' = 'SELECT word AS value FROM input': is refused by Spark",
        {"transform.sql": "SELECT word AS value FROM input"},
    ),
}


def test_what_cannot_be_read_on_is_told_with_names_and_remedy(
    spark: SparkBench, postgres: Postgres, unique: str
) -> None:
    tables = {f"{table_of(unique)}_{kind}": broken for kind, broken in BREAKS.items()}
    for table, broken in tables.items():
        make(postgres, table)
        spark.start_connector(table, {**source(postgres, tables=table), **broken.options}, 1)
    for table, broken in tables.items():
        eventually(lambda table=table: len(spark.records(table)) == 1, PATIENCE_S, table)
        with postgres.session() as session:
            # At once, so that no look falls between them.
            session.execute(broken.statements.format(t=table).encode())
            session.commit()
    for table, broken in tables.items():
        task = TaskId(table, 0)
        eventually(lambda task=task: spark.heard.of(task)[-1:] == [("failed", 1)], TOLD_S, table)
        assert broken.told.format(t=table) in spark.heard.traces[task, 1]
        assert len(spark.records(table)) == 1
        spark.stop(TaskId(table, -1))


def test_a_name_that_means_another_table_for_new_sessions_is_told(
    spark: SparkBench,
    postgres: Postgres,
    unique: str,
    before_next_batch: Callable[[Callable[[], None]], None],
) -> None:
    table, role = table_of(unique), f"{table_of(unique)}_role"
    make(postgres, table)
    run(
        postgres,
        "CREATE ROLE {t}_role SUPERUSER LOGIN PASSWORD 'correct horse'; CREATE SCHEMA {t}_other",
        t=table,
    )
    run(postgres, "CREATE TABLE {t}_other.{t} (LIKE {t} INCLUDING ALL)", t=table)
    config = source(postgres, tables=table, **{"connection.user": role})
    [instance, task] = spark.start_connector(unique, config, 1)
    eventually(lambda: len(spark.records(table)) == 1, PATIENCE_S)

    def rename() -> None:
        """The reader's sessions end, as those of a pool do at some time."""
        run(postgres, "ALTER ROLE {t}_role SET search_path = {t}_other, public", t=table)
        postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)

    before_next_batch(rename)
    insert(postgres, [table])
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], TOLD_S, f"{spark.heard.texts}")
    assert f"'tables' = '{table}': was created again after rows up to" in spark.heard.traces[task, 1]
    assert len(spark.records(table)) == 1
    spark.stop(instance)
