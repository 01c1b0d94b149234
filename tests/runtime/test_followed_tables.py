"""A counting column that cannot be followed safely is refused, and one that has gone back is told, on a real
PostgreSQL: whatever happens to its numbers, no row is passed over in silence."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.options import OptionError, parse
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_source import PostgresSourceOptions, offset_of
from cooperator.connectors.tablelogs.database import PostgresTables
from tests.runtime.postgres import Postgres

pytestmark = pytest.mark.real

READER = "reader"
"""A role that may read tables, and no sequences."""


class Reading:
    """A table as a task reads it: from position to position."""

    def __init__(self, postgres: Postgres, name: str, database: Database, **config: str) -> None:
        mode = {"mode": "incrementing", "incrementing.column.name": "id", **config}
        options = parse(
            PostgresSourceOptions, {"connector.class": "x", "tables": name, **mode, **postgres.config}
        )
        self.table = Partition(name, 0)
        self.position = ""
        self._database = database
        self._tables = PostgresTables(database, options, {self.table: name})

    def look(self) -> str:
        """Returns the doubt of a look; raises what it refuses."""
        return self._tables.observe({self.table: self.position})[self.table].doubt

    def read(self) -> list[int]:
        """The numbers of all rows after the position, as a batch reads them; moves it to the last one."""
        ceiling = self._tables.observe({self.table: self.position})[self.table].ceiling
        bound = self._tables.end(self.table, self.position, ceiling, 1_000) if ceiling else None
        if bound is None:
            return []
        query = self._tables.described[self.table].texts(self.position, bound.position).encode()
        rows = self._database.run(lambda connection: connection.execute(query).fetchall())
        self.position = bound.position
        return [int(row[0]) for row in rows]

    def read_until_told(self) -> None:
        """An explicit number is read first, and told by the look after it."""
        assert self.read() == [7]
        self.look()


@contextmanager
def reading(postgres: Postgres, name: str, user: str = "tester", **config: str) -> Iterator[Reading]:
    options = parse(
        PostgresSourceOptions,
        {
            "connector.class": "x",
            "tables": name,
            "mode": "incrementing",
            **postgres.config,
            "connection.user": user,
        },
    )
    with closing(Database(options, name, threading.Event(), lambda text: None)) as database:
        yield Reading(postgres, name, database, **config)


def run(postgres: Postgres, statements: str, **names: str) -> None:
    for statement in filter(None, map(str.strip, statements.split(";"))):
        with psycopg.connect(
            postgres.url.removeprefix("jdbc:"), user="tester", password="correct horse", autocommit=True
        ) as connection:
            connection.execute(statement.format(**names).encode())


@pytest.fixture
def name(unique: str) -> str:
    return unique.replace("-", "_")


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            "CREATE TABLE {t} (id bigserial PRIMARY KEY); ALTER SEQUENCE {t}_id_seq CACHE 20",
            "from which sessions take 20 numbers at a time: rows with lower numbers than those that were "
            "read would be skipped; run ALTER SEQUENCE {t}_id_seq CACHE 1, or set mode to "
            "timestamp+incrementing",
        ),
        (
            "CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY (CACHE 2) PRIMARY KEY)",
            "run ALTER SEQUENCE {t}_id_seq CACHE 1,",
        ),
        (
            "CREATE SEQUENCE {t}_own CACHE 5; "
            "CREATE TABLE {t} (id bigint PRIMARY KEY DEFAULT nextval('{t}_own'))",
            "run ALTER SEQUENCE {t}_own CACHE 1,",
        ),
        (
            "CREATE TABLE {t} (id bigint PRIMARY KEY); "
            "CREATE SEQUENCE {t}_blocks INCREMENT 50 OWNED BY {t}.id",
            "counts in steps of 50: rows with lower numbers than those that were read would be skipped; run "
            "ALTER SEQUENCE {t}_blocks INCREMENT BY 1, or",
        ),
        (
            "CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY (INCREMENT -1) PRIMARY KEY)",
            "counts down: rows with lower numbers",
        ),
        (
            "CREATE TABLE {t} (id smallint GENERATED ALWAYS AS IDENTITY (CYCLE) PRIMARY KEY)",
            "begins again after its last number: rows with lower numbers than those that were read would be "
            "skipped; run ALTER SEQUENCE {t}_id_seq NO CYCLE, or",
        ),
        (
            "CREATE TABLE {t} (id bigint NOT NULL, part int, PRIMARY KEY (part, id))",
            "is not unique in table {t}, so a row with a number that was read would be skipped; create a "
            "unique index on it, or set mode to timestamp+incrementing",
        ),
        (
            "CREATE TABLE {t} (id bigint NOT NULL); CREATE UNIQUE INDEX ON {t} (id) WHERE id > 10",
            "is not unique in table {t}",
        ),
        ("CREATE TABLE {t} (id bigint UNIQUE)", "may be null in table {t}"),
    ],
)
def test_a_column_that_cannot_be_followed_is_refused(
    postgres: Postgres, name: str, made: str, problem: str
) -> None:
    run(postgres, made, t=name)
    with pytest.raises(OptionError) as refused, reading(postgres, name):
        pass
    assert "'incrementing.column.name' = 'id': " in str(refused.value)
    assert problem.format(t=name) in str(refused.value)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE {t} (id bigserial)",
        "CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY, part int, PRIMARY KEY (part, id)) "
        "PARTITION BY LIST (part)",
        "CREATE TABLE {t} (id bigint NOT NULL, more int); CREATE UNIQUE INDEX ON {t} (id) INCLUDE (more)",
    ],
)
def test_a_column_whose_numbers_only_grow_is_followed(postgres: Postgres, name: str, made: str) -> None:
    run(postgres, made, t=name)
    with reading(postgres, name) as table:
        assert table.look() == ""


NUMBERS = 'was restarted or altered after rows up to {{"incrementing": 3}} were read'
AGAIN = 'alter its offset: null to read it from its beginning, or {{"incrementing": 3}} to go on there'


@pytest.mark.parametrize(
    ("happens", "problem"),
    [
        ("TRUNCATE {t} RESTART IDENTITY", NUMBERS),
        # Behind the position there are new rows, and the greatest number is after it.
        ("TRUNCATE {t} RESTART IDENTITY; INSERT INTO {t} SELECT FROM generate_series(1, 9)", NUMBERS),
        ("DELETE FROM {t}; ALTER SEQUENCE {t}_id_seq RESTART", NUMBERS),
        ("ALTER TABLE {t} ALTER id RESTART WITH 2", NUMBERS),
        (
            "SELECT setval('{t}_id_seq', 1)",
            "gets numbers of sequence {t}_id_seq, which is at 1, but rows up to",
        ),
        (
            "SELECT setval('{t}_id_seq', 1)",
            "run SELECT setval('{t}_id_seq', 3), or alter its offset: null to",
        ),
        ("INSERT INTO {t} OVERRIDING SYSTEM VALUE VALUES (7)", "which is at 3, but rows up to"),
        (
            "DROP TABLE {t}; CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY)",
            "was created again after",
        ),
        ("DROP TABLE {t}; CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY)", AGAIN),
        ("ALTER SEQUENCE {t}_id_seq CACHE 20", "from which sessions take 20 numbers at a time"),
        ("ALTER TABLE {t} DROP CONSTRAINT {t}_pkey, ALTER id DROP IDENTITY", "is not unique in table {t}"),
        ("DROP TABLE {t}", "'tables' = '{t}': no longer exists"),
    ],
)
def test_numbers_that_go_back_are_told_by_the_next_look(
    postgres: Postgres, name: str, happens: str, problem: str
) -> None:
    run(postgres, "CREATE TABLE {t} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)", t=name)
    run(postgres, "INSERT INTO {t} SELECT FROM generate_series(1, 3)", t=name)
    with reading(postgres, name) as table:
        assert table.read() == [1, 2, 3]
        run(postgres, happens, t=name)
        with pytest.raises(OptionError) as told:
            table.read_until_told()
        assert problem.format(t=name) in str(told.value)


@pytest.mark.parametrize(
    "happens",
    [
        "DELETE FROM {t} WHERE id > 1",
        "TRUNCATE {t}",
        "VACUUM FULL {t}",
        "UPDATE {t} SET text = 'changed'",
        "ALTER TABLE {t} ALTER id TYPE bigint",
        "SELECT setval('{t}_id_seq', 100)",
        "INSERT INTO {t} (text) VALUES ('x'); DELETE FROM {t} WHERE id > 2",
    ],
)
def test_what_leaves_numbers_growing_is_no_reason_to_stop(
    postgres: Postgres, name: str, happens: str
) -> None:
    run(postgres, "CREATE TABLE {t} (id serial PRIMARY KEY, text text)", t=name)
    run(postgres, "INSERT INTO {t} (text) VALUES ('a'), ('b'), ('c')", t=name)
    with reading(postgres, name) as table:
        assert table.read() == [1, 2, 3]
        run(postgres, happens, t=name)
        assert table.look() == ""
        run(postgres, "INSERT INTO {t} (text) VALUES ('new')", t=name)
        [(last,)] = postgres.query(f"SELECT max(id) FROM {name}")
        assert table.read() == [last]


def test_a_position_that_a_user_has_set_is_gone_on_with(postgres: Postgres, name: str) -> None:
    run(postgres, "CREATE TABLE {t} (id serial PRIMARY KEY)", t=name)
    run(postgres, "INSERT INTO {t} SELECT FROM generate_series(1, 3)", t=name)
    with reading(postgres, name) as table:
        assert table.read() == [1, 2, 3]
        assert offset_of(table.position) == {"incrementing": 3}
        run(
            postgres,
            "TRUNCATE {t} RESTART IDENTITY; INSERT INTO {t} SELECT FROM generate_series(1, 5)",
            t=name,
        )
        table.position = '{"incrementing": 4}'
        assert table.read() == [5]
        table.position = '{"incrementing": 100}'
        assert table.look() == "", "rows are skipped on purpose"


def test_what_the_database_cannot_tell_is_said_as_a_doubt(postgres: Postgres, name: str) -> None:
    """Without a right to the sequence, or without one, deleted rows look as numbers that began again."""
    run(
        postgres,
        "CREATE TABLE {t} (id serial PRIMARY KEY); CREATE TABLE {t}_own (id bigint PRIMARY KEY)",
        t=name,
    )
    if not postgres.query("SELECT FROM pg_roles WHERE rolname = %s", READER):
        run(postgres, "CREATE ROLE reader LOGIN PASSWORD 'correct horse'")
    run(postgres, "GRANT SELECT ON {t} TO reader; GRANT SELECT ON {t}_own TO reader", t=name)
    for table_name, remedy in (
        (name, f"grant SELECT on sequence {name}_id_seq"),
        (f"{name}_own", "make its column an identity"),
    ):
        run(postgres, "INSERT INTO {t} SELECT n FROM generate_series(1, 3) AS n", t=table_name)
        with reading(postgres, table_name, user=READER) as table:
            assert table.read() == [1, 2, 3]
            assert table.look() == ""
            run(postgres, "DELETE FROM {t} WHERE id > 1", t=table_name)
            assert table.look() == (
                f'table {table_name} ends with number 1, but rows up to {{"incrementing": 3}} were read; if '
                "its numbers began again, alter its offset: null to read it from its beginning, or "
                f'{{"incrementing": 3}} to go on there; to have this told from deleted rows, {remedy}'
            )
            run(postgres, "DELETE FROM {t}", t=table_name)
            assert table.look() == "", "an empty table has no rows to pass over"


def test_times_are_followed_in_any_table_but_another_one_of_its_name(postgres: Postgres, name: str) -> None:
    made = "CREATE TABLE {t} (id bigint, at timestamptz NOT NULL); INSERT INTO {t} VALUES (1, '2024-01-01')"
    run(postgres, made, t=name)
    times = {"mode": "timestamp", "timestamp.column.name": "at", "incrementing.column.name": ""}
    with reading(postgres, name, **times) as table:
        assert table.read() == [1]
        run(postgres, "TRUNCATE {t}; INSERT INTO {t} VALUES (2, '2024-01-02')", t=name)
        assert table.read() == [2]
        run(postgres, "DROP TABLE {t};" + made, t=name)
        with pytest.raises(OptionError, match="was created again after rows up to"):
            table.look()


def test_a_view_may_be_made_anew(postgres: Postgres, name: str) -> None:
    view = "CREATE VIEW {t} AS SELECT id FROM {t}_rows"
    run(postgres, "CREATE TABLE {t}_rows (id serial); INSERT INTO {t}_rows VALUES (1);" + view, t=name)
    with reading(postgres, name, **{"validate.non.null": "false"}) as table:
        assert table.read() == [1]
        run(postgres, "DROP VIEW {t};" + view + "; INSERT INTO {t}_rows VALUES (2)", t=name)
        assert table.read() == [2]
