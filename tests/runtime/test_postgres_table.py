"""How a table is described, what domains are, and that this holds while rows are written."""

from contextlib import closing, nullcontext
from threading import Event

import pytest
from psycopg import errors

from cooperator.connectors.options import OptionError, parse
from cooperator.connectors.postgres import Database, is_table_name
from cooperator.connectors.postgres_shape import shapes
from cooperator.connectors.postgres_sink import Chunk, TargetChanged, TargetTable, move, stage
from cooperator.connectors.postgres_table import describe_table, digest_of
from cooperator.connectors.postgres_target import KafkaToPostgresOptions, refuse_shared_tables
from tests.runtime.postgres import Postgres

pytestmark = pytest.mark.real


def test_a_table_is_compared_once_it_cannot_change_until_the_commit(postgres: Postgres) -> None:
    postgres.query("CREATE TABLE compared (id integer)")
    with postgres.session() as session:
        described = describe_table(session, "compared")
        assert described is not None
    target = TargetTable("compared", ("id",), digest=described.digest)
    with postgres.session() as session, postgres.session() as other:
        stage(session, [Chunk(target, [(0, ("1",))])], lambda *_: pytest.fail("refused"))
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(errors.LockNotAvailable):
            other.execute("ALTER TABLE compared ALTER id TYPE bigint")
        move(session, [Chunk(target, [(0, ("1",))])], lambda *_: pytest.fail("refused"))
        session.commit()
    postgres.query("ALTER TABLE compared ALTER id TYPE bigint")
    with postgres.session() as session, pytest.raises(TargetChanged, match="table compared has changed"):
        stage(session, [Chunk(target, [(0, ("2",))])], lambda *_: pytest.fail("refused"))
    assert postgres.query("SELECT * FROM compared") == [(1,)]
    postgres.query("DROP TABLE compared")


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ("ALTER TABLE seen ADD more text", True),
        ("ALTER TABLE seen RENAME word TO words", True),
        ("ALTER TABLE seen ALTER word TYPE varchar(9)", True),
        ("ALTER TABLE seen ALTER word SET NOT NULL", True),
        ("ALTER TABLE seen ALTER word SET DEFAULT 'a'", True),
        ("CREATE UNIQUE INDEX ON seen (word)", True),
        ("CREATE RULE r AS ON INSERT TO seen DO ALSO NOTHING", True),
        ("ALTER TABLE seen ENABLE ROW LEVEL SECURITY", True),
        ("DROP TABLE seen; CREATE TABLE seen (id integer, word text)", True),
        # What the database does itself, whatever is described.
        ("CREATE INDEX ON seen (word)", False),
        ("ALTER TABLE seen ADD CHECK (id > 0)", False),
        ("INSERT INTO seen VALUES (1, 'a')", False),
    ],
)
def test_the_digest_differs_if_and_only_if_rows_may_be_written_in_another_way(
    postgres: Postgres, change: str, differs: bool
) -> None:
    with postgres.session() as session:
        session.execute("CREATE TABLE seen (id integer, word text)")
        before = digest_of(session, "seen")
        for statement in change.split("; "):
            session.execute(statement.encode())
        assert (digest_of(session, "seen") != before) == differs
        described = describe_table(session, "seen")
        assert described is not None
        assert described.digest == digest_of(session, "seen")
        session.rollback()


@pytest.mark.parametrize(
    ("domains", "kind", "resolved"),
    [
        ("", "numeric(10,2)[]", "numeric(10,2)[]"),
        ("a AS numeric(10,2)", "a", "numeric(10,2)"),
        ("a AS numeric(10,2); b AS a; c AS b", "c", "numeric(10,2)"),
        ("a AS numeric(10,2); b AS a", "b[]", "numeric(10,2)[]"),
        ("a AS integer[]", "a", "integer[]"),
        ("a AS text; b AS a[]", "b", "text[]"),
        ("a AS timestamptz(3)", "a", "timestamp(3) with time zone"),
        ("a AS int4range", "a[]", "int4range[]"),
        ("a AS int2vector", "a", "int2vector"),
    ],
)
def test_a_domain_is_described_as_what_its_values_are(
    postgres: Postgres, domains: str, kind: str, resolved: str
) -> None:
    with postgres.session() as session:
        for domain in filter(None, domains.split("; ")):
            session.execute(f"CREATE DOMAIN {domain}".encode())
        session.execute(f"CREATE TABLE described (v {kind})".encode())
        target = describe_table(session, "described")
        assert target is not None
        assert target.columns == {"v": resolved}
        assert shapes(session, ["described"])["described"].columns == {"v": resolved}
        session.rollback()


@pytest.mark.parametrize(
    ("topics", "pattern", "is_refused"),
    [
        (("common", "public.common"), "{topic}", True),
        (("later", "public.later"), "{topic}", True),
        (("common", "own.common"), "{topic}", False),
        (("common", "public.common"), "one", False),
    ],
)
def test_topics_whose_names_are_names_of_one_table_are_refused(
    postgres: Postgres, topics: tuple[str, ...], pattern: str, is_refused: bool
) -> None:
    postgres.query("CREATE TABLE IF NOT EXISTS common (id integer)")
    config = {"topics": ",".join(topics), "table.name.format": pattern, **postgres.config}
    options = parse(KafkaToPostgresOptions, {"connector.class": "x", **config})
    with closing(Database(options, "common", Event(), lambda text: None)) as database:
        told = pytest.raises(OptionError, match=f"topics {topics[0]} and {topics[1]} to one table")
        with told if is_refused else nullcontext():
            refuse_shared_tables(database, options, topics)


def test_a_name_that_the_database_would_cut_is_no_name_of_a_table() -> None:
    assert is_table_name("x" * 63)
    assert is_table_name(f"{'x' * 63}.{'y' * 63}")
    assert not is_table_name("x" * 64)
    assert not is_table_name(f"s.{'x' * 64}")
