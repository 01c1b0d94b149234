"""Records that the database refuses are found in a batch, whatever it refuses them for, and all others are
written, in order."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from math import log2
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import errors

from cooperator.connectors.postgres_refusals import DatabaseRefusal, Record, StatementRefused, accept
from cooperator.connectors.postgres_sink import DELETED, Chunk, TargetTable, move, stage
from tests.runtime.postgres import Postgres


class Savepoints:
    """A connection that counts its savepoints."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def transaction(self, *, force_rollback: bool = False) -> Iterator[None]:
        self.count += 1
        yield


@given(st.lists(st.booleans(), max_size=300))
def test_each_record_is_accepted_or_refused_once_and_in_order_in_few_runs(good: list[bool]) -> None:
    connection: Any = Savepoints()
    accepted: list[int] = []
    refused: list[int] = []
    narrowed: list[int] = []

    def write(run: Sequence[Record]) -> None:
        if not all(good[number] for number, _ in run):
            raise errors.InvalidTextRepresentation("bad")
        accepted.extend(number for number, _ in run)

    records: list[Record] = [(number, [[str(number)]]) for number in range(len(good))]
    accept(
        connection,
        "t",
        ["c"],
        records,
        write,
        lambda number, refusal: refused.append(number),
        lambda: narrowed.append(connection.count),
    )
    assert accepted == [number for number, is_good in enumerate(good) if is_good]
    assert refused == [number for number, is_good in enumerate(good) if not is_good]
    assert narrowed == ([2] if refused else [])
    doublings = log2(len(good) or 1)
    tried = min(2 * len(good), (2 * doublings + 2) * len(refused)) + 2 * doublings + 1
    assert connection.count <= tried + (1 if refused else 0), "the trial without records"


@pytest.mark.parametrize(
    "error",
    [errors.LockNotAvailable, errors.AdminShutdown, errors.SerializationFailure, errors.InternalError_],
)
def test_what_passes_refuses_no_record(error: type[psycopg.Error]) -> None:
    connection: Any = Savepoints()

    def write(run: Sequence[Record]) -> None:
        raise error("not now")

    with pytest.raises(error):
        accept(connection, "t", ["c"], [(0, [["1"]]), (1, [["2"]])], write, lambda *_: pytest.fail("refused"))
    assert connection.count == 1


@pytest.mark.parametrize(
    ("error", "trials", "remedy"),
    [
        (errors.UndefinedColumn, 1, "alter the table, its rule, trigger or function, or transform.sql"),
        # Without records it fails, too: so it is no policy of rows.
        (errors.InsufficientPrivilege, 2, "grant the role the rights"),
        (errors.RaiseException, 2, "alter the table, its rule, trigger or function"),
        (errors.FeatureNotSupported, 2, "alter the table, its rule, trigger or function"),
    ],
)
def test_a_statement_that_fails_whatever_its_records_are_refuses_none_and_is_told(
    error: type[psycopg.Error], trials: int, remedy: str
) -> None:
    connection: Any = Savepoints()

    def write(run: Sequence[Record]) -> None:
        raise error("not at all")

    with pytest.raises(StatementRefused) as told:
        accept(connection, "t", ["c"], [(0, [["1"]]), (1, [["2"]])], write, lambda *_: pytest.fail("refused"))
    assert "table t cannot be written: not at all" in str(told.value)
    assert f"(SQLSTATE {error.sqlstate})" in str(told.value)
    assert remedy in str(told.value)
    assert connection.count == trials


def written(
    session: psycopg.Connection[Any], target: TargetTable, rows: Sequence[tuple[int, Sequence[Any]]]
) -> dict[int, DatabaseRefusal]:
    """Writes rows as a batch does; returns what the database refuses."""
    refused: dict[int, DatabaseRefusal] = {}
    with session.transaction():
        chunks = [Chunk(target, rows)]
        stage(session, chunks, refused.__setitem__)
        move(session, chunks, refused.__setitem__)
    return refused


@pytest.mark.real
@pytest.mark.parametrize("batches", [(3,), (1, 2), (2, 1), (1, 1, 1)])
def test_a_row_that_was_deleted_is_a_new_one_wherever_a_batch_ends(
    postgres: Postgres, batches: Sequence[int]
) -> None:
    """What the new row does not name is its default, and not what the old row had."""
    events: list[tuple[str, str, bool]] = [("a", "1", False), ("a", "", True), ("a", "2", False)]
    target = TargetTable("again", ("id", "value", "__deleted"), ("id",))
    postgres.query("CREATE TABLE again (id text PRIMARY KEY, value text, own text DEFAULT 'default')")
    postgres.query("INSERT INTO again VALUES ('a', '0', 'of the first row'), ('b', '0', 'its own')")
    with postgres.session() as session:
        at = 0
        for size in batches:
            assert written(session, target, list(enumerate(events[at : at + size]))) == {}
            session.commit()
            at += size
    found = postgres.query("SELECT * FROM again ORDER BY id")
    postgres.query("DROP TABLE again")
    assert found == [("a", "2", "default"), ("b", "0", "its own")]


VERY_LARGE = "".join(sha256(b"%d" % number).hexdigest() for number in range(400))
LARGE = VERY_LARGE[:4000]
"""A text that no index of a B-tree can hold, however it is compressed."""
KINDS: dict[str, tuple[str, str | None, str | None, str, str]] = {
    "uuid": ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "no uuid", "22P02", "invalid input syntax"),
    "enum": ("mood", "happy", "unknown", "22P02", "invalid input value for enum mood"),
    "range": ("smallint", "1", "40000", "22003", "out of range for type smallint"),
    "no number": ("integer", "1", "x", "22P02", "invalid input syntax for type integer"),
    "overflow": ("numeric(4,2)", "1.5", "123", "22003", "numeric field overflow"),
    "too long": ("varchar(4)", "abcd", "too long", "22001", "value too long"),
    "bits": ("bit(2)", "10", "101", "22026", "does not match type bit(2)"),
    "ragged": ("integer[]", "{{1},{2}}", '{{"1"},{}}', "22P02", "malformed array literal"),
    "date": ("date", "2026-11-28", "2026-02-30", "22008", "date/time field value out of range"),
    "json": ("json", "{}", "{", "22P02", "invalid input syntax for type json"),
    "escaped nul": ("jsonb", '"a"', '"\\u0000"', "22P05", "unsupported Unicode escape sequence"),
    "nul": ("text", "a", "a\0b", "", "cannot contain NUL (0x00) bytes"),
    "domain": ("positive", "1", "-1", "23514", "value for domain positive violates check constraint"),
    "check": ("integer CHECK (a_column > 0)", "1", "-1", "23514", "violates check constraint"),
    "not null": ("integer NOT NULL", "1", None, "23502", "violates not-null constraint"),
    "unique": ("integer UNIQUE", "1", "7", "23505", "duplicate key value"),
    "late unique": ("integer UNIQUE DEFERRABLE INITIALLY DEFERRED", "1", "7", "23505", "duplicate key value"),
    "reference": ("integer REFERENCES things", "7", "8", "23503", "is not present in table"),
    "late reference": (
        "integer REFERENCES things DEFERRABLE INITIALLY DEFERRED",
        "7",
        "8",
        "23503",
        "is not present in table",
    ),
    "excluded": (
        "int4range, EXCLUDE USING gist (a_column WITH &&)",
        "[1,5)",
        "[7,9)",
        "23P01",
        "conflicting",
    ),
    "index row": ("text", "a", LARGE, "54000", "index row size"),
    "longer than a page": ("text", "a", VERY_LARGE, "54000", "index row requires"),
    "raised": ("text", "a", "bad", "P0001", "no bad things"),
    "own state": ("text", "a", "bad", "C0DED", "no bad things"),
    "a privilege's state": ("text", "a", "bad", "42501", "no bad things"),
    "a state that is waited for": ("text", "a", "bad", "55000", "no bad things"),
    "column named": ("text", "a", "bad", "P0001", "no bad things"),
    "no case": ("text", "a", "bad", "20000", "case not found"),
    "several": ("integer", "1", "2", "21000", "more than one row"),
    "none": ("integer", "7", "2", "P0002", "returned no rows"),
    "asserted": ("text", "a", "bad", "P0004", "no bad things"),
    "infinite": ("numeric, g integer", "1", "Infinity", "0A000", "cannot convert infinity to integer"),
    "no return": ("text", "a", "bad", "2F005", "without RETURN"),
    "policy": ("integer", "1", "-1", "42501", "row-level security policy"),
    "generated": ("integer, g integer GENERATED ALWAYS AS (1 / a_column) STORED", "1", "0", "22012", "zero"),
}
"""By what the database refuses: the column, a good and a bad value, the SQLSTATE, and what it says."""
BY_TRIGGER: dict[str, str] = {
    "raised": "RAISE EXCEPTION 'no % things', NEW.a_column",
    "own state": "RAISE EXCEPTION 'no % things', NEW.a_column USING ERRCODE = 'C0DED'",
    "a privilege's state": "RAISE EXCEPTION 'no % things', NEW.a_column USING ERRCODE = '42501'",
    "a state that is waited for": "RAISE EXCEPTION 'no % things', NEW.a_column USING ERRCODE = '55000'",
    "column named": "RAISE EXCEPTION 'no % things', NEW.a_column USING COLUMN = 'a_column'",
    "no case": "CASE NEW.a_column WHEN 'a' THEN NULL; END CASE",
    "several": "PERFORM (SELECT g FROM generate_series(1, NEW.a_column) AS g)",
    "none": "SELECT id INTO STRICT NEW.id FROM things WHERE id = NEW.a_column",
    "asserted": "ASSERT NEW.a_column = 'a', 'no bad things'",
    "infinite": "NEW.g = NEW.a_column",
    "no return": "IF NEW.a_column = 'a' THEN RETURN NEW; END IF",
}
"""What a trigger does with a bad value; those that RAISE do it for ``bad`` alone."""
MORE: dict[str, str] = {
    "index row": "CREATE INDEX ON strict (a_column)",
    "longer than a page": "CREATE INDEX ON strict (a_column)",
    "policy": "ALTER TABLE strict ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON strict USING (a_column > 0); "
    "CREATE ROLE writer; GRANT ALL ON strict, things TO writer; SET ROLE writer",
}
UNNAMED = {"generated", "policy", *BY_TRIGGER} - {"column named"}
"""Of those the database names no column."""


@pytest.mark.real
@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_names_table_column_value_and_remedy(postgres: Postgres, kind: str) -> None:
    column, good, bad, state, said = KINDS[kind]
    with postgres.session() as session:
        session.execute("CREATE TABLE things (id integer PRIMARY KEY)")
        session.execute("INSERT INTO things VALUES (7)")
        session.execute("CREATE TYPE mood AS ENUM ('happy', 'so sad')")
        session.execute("CREATE DOMAIN positive AS integer CHECK (value > 0)")
        session.execute(f"CREATE TABLE strict (id integer, a_column {column})".encode())
        if kind in BY_TRIGGER:
            does = BY_TRIGGER[kind]
            checked = f"IF NEW.a_column = 'bad' THEN {does}; END IF" if does.startswith("RAISE") else does
            returned = "" if kind == "no return" else "RETURN NEW;"
            body = f"BEGIN {checked}; {returned} END"
            session.execute(f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $${body}$$".encode())
            session.execute("CREATE TRIGGER t BEFORE INSERT ON strict FOR EACH ROW EXECUTE FUNCTION f()")
        for statement in filter(None, MORE.get(kind, "").split("; ")):
            session.execute(statement.encode())
        if kind in ("unique", "late unique", "excluded"):
            session.execute("INSERT INTO strict VALUES (0, %s)", [bad])
        before = session.execute("SELECT count(*) FROM strict").fetchone() or (0,)
        target = TargetTable("strict", ("id", "a_column"))
        refused = written(session, target, [(0, ("1", good)), (1, ("2", bad))])
        assert list(refused) == [1]
        reason, remedy = refused[1]
        assert "table strict refuses" in reason
        assert said in reason
        assert state in reason
        if kind not in UNNAMED:
            shown = {None: "null", '"\\u0000"': '"\\"\\\\u0000\\""', "a\0b": '"a\\u0000b"'}
            value = shown.get(
                bad,
                f'"{LARGE[:50]}'
                if (bad or "").startswith(LARGE)
                else '"' + (bad or "").replace('"', '\\"') + '"',
            )
            assert f"column a_column, which is {value}" in reason
        assert "\n" not in reason
        assert any(verb in remedy for verb in ("change", "select", "write", "set", "alter", "shorten"))
        after = session.execute("SELECT count(*) FROM strict").fetchone() or (0,)
        assert after[0] == before[0] + 1
        session.rollback()


@pytest.mark.real
@pytest.mark.parametrize(
    ("statements", "said", "remedy"),
    [
        (
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'closed'; END$$ / "
            "CREATE TRIGGER t BEFORE INSERT ON strict FOR EACH STATEMENT EXECUTE FUNCTION f()",
            "closed (SQLSTATE P0001)",
            "alter the table, its rule, trigger or function",
        ),
        (
            "CREATE ROLE reader / GRANT SELECT ON strict TO reader / SET ROLE reader",
            "permission denied for table strict (SQLSTATE 42501)",
            "grant the role the rights",
        ),
        ("ALTER TABLE strict RENAME id TO number", 'column "id" does not exist', "alter the table"),
        ("DROP TABLE strict", 'relation "strict" does not exist', "alter the table"),
    ],
)
def test_what_refuses_rows_whatever_they_are_makes_no_letters(
    postgres: Postgres, statements: str, said: str, remedy: str
) -> None:
    with postgres.session() as session:
        session.execute("CREATE TABLE strict (id integer, a_column text)")
        for statement in statements.split(" / "):
            session.execute(statement.encode())
        with pytest.raises(StatementRefused) as told:
            written(session, TargetTable("strict", ("id", "a_column")), [(0, ("1", "a")), (1, ("2", "b"))])
        assert "table strict cannot be written: " in str(told.value)
        assert said in str(told.value)
        assert remedy in str(told.value)
        session.rollback()


@pytest.mark.real
def test_a_column_is_found_by_its_name_in_the_texts_of_any_language() -> None:
    from cooperator.connectors.postgres_refusals import _named

    connection: Any = None
    for context, found in [
        ('COPY staging, line 1, column an id: "x"', ["an id"]),
        ('JSON data, line 1: x id\nCOPY staging, line 1, column an id: "x\n id"', ["an id"]),
        ('COPY staging, Zeile 1, Spalte an id: "x: "', ["an id"]),
        ("COPY staging, ligne 1, colonne id", ["id"]),
        ('COPY staging, line 1: "id"', []),
    ]:
        diag = SimpleNamespace(column_name=None, constraint_name=None, context=context)
        error: Any = SimpleNamespace(sqlstate="22P02", diag=diag)
        assert _named(connection, "t", ["id", "an id"], [["1", "x"]], error) == found


ROW = st.tuples(
    st.integers(0, 4),  # a key
    st.sampled_from(["1", "2", "-1", "40000", "x", "a\0", None]),
    st.sampled_from([None, None, "f", "t"]),  # deleted
)
RECORDS = st.lists(st.lists(ROW, max_size=2), max_size=24)


@pytest.fixture(scope="module")
def tables(postgres: Postgres) -> Iterator[psycopg.Connection[Any]]:
    with postgres.session() as session:
        for name, key in (("added", "integer UNIQUE"), ("replaced", "integer PRIMARY KEY")):
            columns = f"k {key}, v smallint NOT NULL CHECK (v > 0)"
            session.execute(f"CREATE TEMPORARY TABLE {name} ({columns})".encode())
        session.commit()
        yield session


@pytest.mark.real
@pytest.mark.parametrize("mode", ["append", "upsert"])
@settings(max_examples=60, deadline=None)
@given(records=RECORDS)
def test_a_batch_writes_what_its_records_would_write_one_after_the_other(
    tables: psycopg.Connection[Any], mode: str, records: list[list[tuple[int, str | None, str | None]]]
) -> None:
    """A row that a later one replaces may pass in one run, so upserts are compared by the rows alone."""
    table = "added" if mode == "append" else "replaced"
    target = TargetTable(table, ("k", "v"))
    values: list[list[Sequence[Any]]] = [[(str(key), value) for key, value, _ in rows] for rows in records]
    if mode == "upsert":
        target = TargetTable(table, ("k", "v", DELETED), ("k",))
        values = [[(str(key), value, gone) for key, value, gone in rows[:1]] for rows in records]

    def emptied() -> None:
        tables.execute(f"TRUNCATE {table}".encode())
        tables.commit()

    def found() -> list[Any]:
        rows = tables.execute(f"SELECT * FROM {table} ORDER BY k".encode()).fetchall()
        tables.commit()
        return rows

    emptied()
    rows = [(number, row) for number, some in enumerate(values) for row in some]
    refused = written(tables, target, rows)
    together = found()
    emptied()
    one_by_one: list[int] = []
    for number, some in enumerate(values):
        if number not in refused or mode == "append":
            one_by_one += written(tables, target, [(number, row) for row in some])
    assert found() == together
    assert mode == "upsert" or one_by_one == sorted(refused)
