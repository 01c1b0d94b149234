"""Tables that change while ``kafka-to-postgres`` writes to them, between two batches of one attempt: the next
record is a row of the table as it is then, a letter, or a failure that names table, column and remedy."""

from typing import NamedTuple

import pytest

from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_kafka_to_postgres import sink, table_of
from tests.runtime.test_refused_records import letters

pytestmark = pytest.mark.real

PATIENCE_S = 150
MADE = "CREATE TABLE {t} (id integer, amount numeric(10,4), word text, at timestamptz)"
KEYED = MADE.replace("id integer", "id integer PRIMARY KEY")
SELECT = (
    "SELECT CAST(key AS INT) AS id, CAST(split(value, ';')[0] AS DECIMAL(10,4)) AS amount, "
    "split(value, ';')[1] AS word, timestamp_micros(1764333045123456) AS at FROM input"
)
MOMENT = "2025-11-28 12:30:45.123456"
VALUE = "2.1234;longer"


class Change(NamedTuple):
    """What happens to a table after its first row, and the text of its rows then; or what is told of the
    second record: as a letter where errors are tolerated and a failure elsewhere, or as a failure of both.
    """

    statements: str
    rows: tuple[str, ...] = ()
    letter: str = ""
    failure: str = ""
    intolerant: str = ""
    """The failure where it is another one if nothing is tolerated."""
    made: str = MADE


CHANGES: dict[str, Change] = {
    "more": Change("ALTER TABLE {t} ADD more text", (f"(2,2.1234,longer,'{MOMENT}+00',)",)),
    "default": Change("ALTER TABLE {t} ADD more int DEFAULT 7", (f"(2,2.1234,longer,'{MOMENT}+00',7)",)),
    "required": Change(
        "DELETE FROM {t}; ALTER TABLE {t} ADD more text NOT NULL",
        failure="lacks columns that table {t} needs: more; select them, or give them a default",
        intolerant='table {t} refuses the row: null value in column "more"',
    ),
    "dropped": Change(
        "ALTER TABLE {t} DROP word",
        failure="has columns that table {t} does not have: word; select only columns of the table",
    ),
    "renamed": Change(
        "ALTER TABLE {t} RENAME word TO words",
        failure="has columns that table {t} does not have: word; did you mean 'words'",
    ),
    "wider": Change("ALTER TABLE {t} ALTER id TYPE bigint", (f"(2,2.1234,longer,'{MOMENT}+00')",)),
    "text": Change("ALTER TABLE {t} ALTER amount TYPE text", (f"(2,2.1234,longer,'{MOMENT}+00')",)),
    "short": Change(
        "ALTER TABLE {t} ALTER word TYPE varchar(3)",
        letter='table {t} refuses column word, which is "longer": value too long',
    ),
    "narrow": Change(
        "ALTER TABLE {t} ALTER id TYPE smallint, ADD CHECK (id < 2)",
        letter='table {t} refuses column id, which is "2": new row for relation',
    ),
    "scale": Change(
        "ALTER TABLE {t} ALTER amount TYPE numeric(10,2)",
        letter="column amount is 2.1234, of which numeric(10,2) in table {t} would lose a part; round or cut",
    ),
    "float": Change(
        "ALTER TABLE {t} ALTER amount TYPE real, ALTER id TYPE real",
        (f"(2,2.1234,longer,'{MOMENT}+00')",),
    ),
    "clock": Change("ALTER TABLE {t} ALTER at TYPE timestamp", (f"(2,2.1234,longer,'{MOMENT}')",)),
    "seconds": Change(
        "ALTER TABLE {t} ALTER at TYPE timestamptz(0)",
        letter="column at is 2025-11-28 12:30:45.123456+00, of which timestamp(0) with time zone in "
        "table {t} would lose a part; round or cut",
    ),
    "day": Change(
        "ALTER TABLE {t} ALTER at TYPE date",
        letter="of which date in table {t} would lose a part; round or cut it in transform.sql",
    ),
    "json": Change(
        "ALTER TABLE {t} ALTER word TYPE jsonb USING NULL",
        letter='table {t} refuses column word, which is "longer": invalid input syntax for type json',
    ),
    "domain": Change(
        "CREATE DOMAIN {t}_cents AS numeric(10,2); CREATE DOMAIN {t}_price AS {t}_cents; "
        "ALTER TABLE {t} ALTER amount TYPE {t}_price",
        letter="column amount is 2.1234, of which numeric(10,2) in table {t} would lose a part",
    ),
    "key": Change(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey",
        failure="table {t} has no primary key; add a primary key to it, or name columns with a unique index",
        made=KEYED,
    ),
    "other key": Change(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; ALTER TABLE {t} ADD PRIMARY KEY (word); "
        "INSERT INTO {t} VALUES (2, 1, 'longer', NULL)",
        (f"(2,2.1234,longer,'{MOMENT}+00')",),
        made=KEYED,
    ),
    "index": Change(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; CREATE UNIQUE INDEX ON {t} (word)",
        failure="table {t} has no primary key",
        made=KEYED,
    ),
    "late key": Change(
        "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey; ALTER TABLE {t} ADD PRIMARY KEY (id) DEFERRABLE",
        failure="table {t} has no primary key",
        made=KEYED,
    ),
    "unique": Change("CREATE UNIQUE INDEX ON {t} (id)", (f"(2,2.1234,longer,'{MOMENT}+00')",)),
    "gone": Change("DROP TABLE {t}", failure="table {t} does not exist; create it, or set auto.create"),
    "anew": Change("DROP TABLE {t}; " + MADE, (f"(2,2.1234,longer,'{MOMENT}+00')",)),
    "another": Change(
        "DROP TABLE {t}; CREATE TABLE {t} (word jsonb, id bigint)",
        failure="has columns that table {t} does not have: amount, at; select only columns of the table",
    ),
    "trigger": Change(
        "CREATE FUNCTION {t}_f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN NEW.word = upper(NEW.word)\\; RETURN NEW\\; END$$; "
        "CREATE TRIGGER t BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_f()",
        (f"(2,2.1234,LONGER,'{MOMENT}+00')",),
    ),
    "raising": Change(
        "CREATE FUNCTION {t}_f() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE 'no % here', NEW.word USING COLUMN = 'word'\\; END$$; "
        "CREATE TRIGGER t BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_f()",
        letter='table {t} refuses column word, which is "longer": no longer here',
    ),
    # COPY would pass it over.
    "rule": Change(
        "CREATE RULE r AS ON INSERT TO {t} DO ALSO UPDATE {t} SET word = 'ruled' WHERE id = NEW.id",
        (f"(2,2.1234,ruled,'{MOMENT}+00')",),
    ),
    "generated": Change(
        "ALTER TABLE {t} ALTER id SET NOT NULL, ALTER id ADD GENERATED ALWAYS AS IDENTITY",
        failure="has columns that table {t} generates: id; leave them out, or alter them to BY DEFAULT",
    ),
}


def run(postgres: Postgres, statements: str, table: str) -> None:
    """All at once, so that no batch falls between them."""
    with postgres.session() as session:
        for statement in statements.replace("\\;", "\0").format(t=table).split("; "):
            session.execute(statement.replace("\0", ";").encode())
        session.commit()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_record_after_a_change_is_a_row_of_the_table_as_it_is_or_told(
    spark: SparkBench, postgres: Postgres, unique: str, tolerance: str
) -> None:
    tables = {f"{table_of(unique)}_{kind.replace(' ', '_')}": change for kind, change in CHANGES.items()}
    dead = f"{unique}-dead"
    spark.create_topic(dead, 1)
    for table, change in tables.items():
        run(postgres, change.made, table)
        spark.produce(table, [{"key": "1", "value": "1.5000;a"}])
        config = sink(postgres, topics=table, transform_sql=SELECT, errors_tolerance=tolerance)
        config |= {"task.units": f"{table}-0"}
        if tolerance == "all":
            config["errors.deadletterqueue.topic.name"] = dead
        if change.made is KEYED:
            config["insert.mode"] = "upsert"
        spark.start(TaskId(table, 0), config)
    for table in tables:
        eventually(
            lambda table=table: postgres.count(table) == 1, PATIENCE_S, f"{table}: {spark.heard.texts}"
        )
    for table, change in tables.items():
        run(postgres, change.statements, table)
        spark.produce(table, [{"key": "2", "value": VALUE}])
    for table, change in tables.items():
        task = TaskId(table, 0)
        if change.rows:
            eventually(lambda table=table: row(postgres, table), PATIENCE_S, f"{table}: {spark.heard.texts}")
            assert (table, row(postgres, table)) == (table, list(change.rows))
            assert spark.heard.of(task)[-1] != ("failed", 1), "the attempt goes on"
        elif change.letter and tolerance == "all":
            eventually(lambda table=table: told(spark, dead, table), PATIENCE_S, table)
            [text] = told(spark, dead, table)
            assert change.letter.format(t=table) in text
            assert row(postgres, table) == []
        else:
            eventually(lambda task=task: spark.heard.of(task)[-1:] == [("failed", 1)], PATIENCE_S, table)
            strict = change.intolerant if tolerance == "none" else ""
            expected = (strict or change.failure or change.letter).format(t=table)
            assert expected in spark.heard.traces[task, 1]
            assert change.statements.startswith("DROP TABLE {t}") or row(postgres, table) == []
    for table in tables:
        spark.stop(TaskId(table, 0))


def row(postgres: Postgres, table: str) -> list[str]:
    """The second record's rows, as texts."""
    with postgres.session() as session:
        session.execute("SET timezone = 'UTC'")
        found = session.execute(f"SELECT r::text FROM {table} AS r WHERE id::text = '2'".encode())
        return [text.replace('"', "'") for (text,) in found]


def told(spark: SparkBench, dead: str, table: str) -> list[str]:
    """The messages of the letters of records for a table."""
    return [why for offset, key, why in letters(spark, dead) if table in why and offset == 1 and key == b"2"]
