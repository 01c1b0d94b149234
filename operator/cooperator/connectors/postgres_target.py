"""The tables that ``kafka-to-postgres`` writes to: its options, and whether rows fit a table."""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from cooperator.connectors.conversion import ConversionOptions
from cooperator.connectors.dead_letters import treats_rows_alone
from cooperator.connectors.options import Names, OptionError, Problem, option, refuse
from cooperator.connectors.postgres import (
    MOST_OF_A_NAME,
    Database,
    DatabaseUnavailable,
    PostgresOptions,
    create_table,
    identifier,
    is_table_name,
)
from cooperator.connectors.postgres_checks import check_kinds, missing
from cooperator.connectors.postgres_sink import DELETED, TargetTable
from cooperator.connectors.postgres_table import Table, describe_table, digest_of
from cooperator.connectors.spark import LOOP_INTERVAL_MS, trigger_interval
from cooperator.model.text import hinted

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

log = logging.getLogger(__name__)

SOURCE: Final = "{topic}"
"""It stands for the source topic's name in names of tables."""
_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def _pattern(value: str) -> str:
    if not is_table_name(value.replace(SOURCE, "t")):
        remedy = "write table or schema.table; {topic} stands for the source topic's name"
        raise refuse("is not a valid table name", remedy)
    return value


def _mode(value: object) -> object:
    return "append" if value == "insert" else value  # Kafka Connect's name


class KafkaToPostgresOptions(ConversionOptions, PostgresOptions):
    table: Annotated[str, AfterValidator(_pattern)] = option(
        "table.name.format",
        SOURCE,
        expected="a table, or schema.table; {topic} stands for the source topic's name",
    )
    mode: Annotated[Literal["append", "upsert"], BeforeValidator(_mode)] = option(
        "insert.mode",
        "append",
        expected="append (each row is inserted) or upsert (it replaces the row with its key)",
    )
    key: Names = option(
        "pk.fields",
        (),
        expected="the key's columns for upsert, separated by commas (default: the primary key)",
    )
    auto_create: bool = option(
        "auto.create", False, expected="true (a missing table is created) or false (the task fails)"
    )
    positions_table: Annotated[str, AfterValidator(_pattern)] = option(
        "positions.table",
        "cooperator_positions",
        expected="the table of positions; it is created if missing",
        fixed=True,
    )
    marker_table: Annotated[str, AfterValidator(_pattern)] = option(
        "marker.table",
        "cooperator_batches",
        expected="the table in which earlier releases recorded batches: only offsets migrate reads it",
        fixed=True,
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms",
        10_000,
        expected="milliseconds until the server releases the locks of a frozen member, 1000 to 900000",
        ge=1_000,
        le=900_000,
    )
    trigger_interval_ms: int = trigger_interval(LOOP_INTERVAL_MS)
    max_offsets: int = option(
        "max.offsets.per.trigger",
        100_000,
        expected="the maximum number of records in a batch (10000 where the member converts them)",
        ge=1,
    )

    @model_validator(mode="after")
    def _batches_do_not_show(self) -> Self:
        # A batch has any number of records, so an aggregate or a limit of it would mean nothing.
        if self.select and not treats_rows_alone(self.select):
            remedy = (
                "remove aggregates, windows, DISTINCT, joins, hints, LIMIT, OFFSET and ORDER, SORT, "
                "DISTRIBUTE or CLUSTER BY"
            )
            raise refuse("does not treat each row by itself", remedy, self.select_option)
        return self

    @model_validator(mode="after")
    def _key_is_used(self) -> Self:
        if self.key and self.mode == "append":
            raise refuse("is not used with insert.mode = append", "set insert.mode to upsert", "pk.fields")
        return self


class FittedTable(NamedTuple):
    """A table that rows fit, as the database describes it, and how they are written there."""

    table: Table
    rows: TargetTable


Types = tuple[tuple[str, str], ...]
"""The columns of rows: names with Spark's types."""


class Targets:
    """The tables that rows of a task go to, each described once until one has changed. For one thread."""

    def __init__(self, database: Database, options: KafkaToPostgresOptions) -> None:
        self._database = database
        self._options = options
        self._fitted: dict[tuple[Types, str], FittedTable] = {}
        self._described: dict[str, Table | None] = {}

    def of(self, types: Types, topic: str) -> FittedTable:
        """Returns where rows of these columns from a topic go. Raises ``OptionError``."""
        if (types, topic) not in self._fitted:
            self._fitted[types, topic] = target_of(self._database, types, self._options, topic)
        return self._fitted[types, topic]

    def described(self, topic: str) -> Table | None:
        """Returns the table for rows from a topic, if it exists."""
        if topic not in self._described:
            name = table_name(self._options, topic)
            self._described[topic] = self._database.run(lambda connection: describe_table(connection, name))
        return self._described[topic]

    def forget(self, topic: str) -> None:
        """Lets the table for rows from a topic be described anew."""
        self._described.pop(topic, None)
        self._fitted = {key: each for key, each in self._fitted.items() if key[1] != topic}

    def have_changed(self) -> bool:
        """Whether a table is not as it was described, as far as the database can be asked. If so, all of them
        are described anew.
        """
        known = {each.table.name: each.table.digest for each in self._fitted.values()}
        known |= {each.name: each.digest for each in self._described.values() if each is not None}

        def changed(connection: "psycopg.Connection[Any]") -> list[str]:
            return [name for name, digest in known.items() if digest_of(connection, name) != digest]

        try:
            found = self._database.once(changed)
        except DatabaseUnavailable:
            return False
        if not found:
            return False
        log.info("tables have changed, and are described anew: %s", ", ".join(found))
        self._fitted.clear()
        self._described.clear()
        return True


def target_of(
    database: Database, columns: Sequence[tuple[str, str]], options: KafkaToPostgresOptions, topic: str
) -> FittedTable:
    """Returns where rows from a topic go; raises ``OptionError`` when they do not fit there.

    ``columns`` are the rows' names with Spark's types. A missing table is created, if that is configured.
    """
    name = table_name(options, topic)
    table = database.run(lambda connection: describe_table(connection, name))
    if table is None:
        statement = _statement(name, columns, options.key)
        if not options.auto_create:
            remedy = f"create it, or set auto.create to true. For example: {statement.as_string(None)}"
            problem = f"table {name} does not exist"
            raise _refused("table.name.format", options.table, problem, remedy, passing=True)
        table = database.run(lambda connection: _created(connection, name, statement))
    names = tuple(column for column, _ in columns)
    _check_columns(table, names, options)
    check_kinds(columns, table)
    direct = not table.inserts_wait
    rows = TargetTable(name, names, _key(table, names, options), direct, table.digest)
    return FittedTable(table, rows)


def table_name(options: KafkaToPostgresOptions, topic: str) -> str:
    """Returns the name of the table for rows from a topic. Raises ``OptionError``."""
    name = options.table.replace(SOURCE, topic)
    if not is_table_name(name):
        remedy = "write a name without {topic}, of at most 63 characters, or put schema. before it"
        raise _refused(
            "table.name.format", options.table, f"results in {name}, which is not a valid table name", remedy
        )
    return name


def refuse_shared_tables(database: Database, options: KafkaToPostgresOptions, topics: Sequence[str]) -> None:
    """Raises ``OptionError`` if names of several topics are names of one table: with and without its schema.

    Rows of one topic would replace those of another.
    """
    names = {topic: table_name(options, topic) for topic in topics}
    if SOURCE not in options.table or len(names) < 2:
        return
    # A table that does not exist yet is created in the first schema of the search path.
    query = (
        "SELECT coalesce(to_regclass(quoted)::oid::text, coalesce(schema, current_schema()) || '.' || name) "
        "FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS asked (quoted, schema, name, at) "
        "ORDER BY at"
    )
    parts = [name.rpartition(".") for name in names.values()]
    asked = (
        [identifier(name).as_string(None) for name in names.values()],
        [schema or None for schema, _, _ in parts],
        [name for _, _, name in parts],
    )
    found = database.run(lambda connection: connection.execute(query, asked).fetchall())
    first: dict[str, str] = {}
    for topic, (table,) in zip(names, found, strict=True):
        if (other := first.setdefault(table, topic)) != topic:
            problem = f"leads topics {other} and {topic} to one table, {names[topic]}"
            remedy = "use a Connector for each of them, or name the table without {topic} if that is intended"
            raise _refused("table.name.format", options.table, problem, remedy)


def _created(connection: "psycopg.Connection[Any]", name: str, statement: "sql.Composed") -> Table:
    create_table(connection, name, statement)
    table = describe_table(connection, name)
    assert table is not None, "it was created"
    return table


def _check_columns(table: Table, names: Sequence[str], options: KafkaToPostgresOptions) -> None:
    given = options.transform_sql or None
    if len(set(names)) < len(names):
        raise _refused("transform.sql", given, "names a column twice", "name each column once")
    if DELETED in names and options.mode == "append":
        remedy = "set insert.mode to upsert, or remove the column"
        raise _refused(
            "transform.sql", given, f"has the column {DELETED}, but rows are only inserted", remedy
        )
    if unknown := [name for name in names if name not in table.columns and name != DELETED]:
        problem = f"has columns that table {table.name} does not have: {', '.join(unknown)}"
        columns = f"select only columns of the table: {', '.join(table.columns)}"
        remedy = hinted(unknown[0], table.columns, columns)
        raise _refused("transform.sql", given, problem, remedy)
    if unwritable := [name for name in names if name in table.generated]:
        problem = f"has columns that table {table.name} generates: {', '.join(unwritable)}"
        raise _refused("transform.sql", given, problem, "leave them out, or alter them to BY DEFAULT")
    lacking = missing(names, table) if options.tolerance == "all" and DELETED not in names else []
    if lacking:
        problem = f"lacks columns that table {table.name} needs: {', '.join(lacking)}"
        raise _refused("transform.sql", given, problem, "select them, or give them a default")


def key_of(table: Table | None, options: KafkaToPostgresOptions) -> tuple[str, ...]:
    """Returns the columns by which a row replaces another one; none if rows are only inserted."""
    if options.mode == "append":
        return ()
    return options.key or (table.primary if table is not None else ())


def _key(table: Table, names: Iterable[str], options: KafkaToPostgresOptions) -> tuple[str, ...]:
    if options.mode == "append":
        return ()
    written = ",".join(options.key) or None
    key = key_of(table, options)
    if set(key) not in [set(columns) for columns in table.unique] or not key:
        lacks = f"unique index over {', '.join(key)}" if key else "primary key"
        problem = f"table {table.name} has no {lacks}"
        raise _refused(
            "pk.fields", written, problem, "add a primary key to it, or name columns with a unique index"
        )
    if missing := set(key) - set(names):
        problem = f"rows lack the key columns {', '.join(sorted(missing))} of table {table.name}"
        raise _refused("pk.fields", written, problem, "select them in transform.sql")
    return tuple(key)


def _statement(name: str, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> "sql.Composed":
    """Returns the statement that would create the table. Raises ``OptionError``."""
    from psycopg import sql

    for column, _ in columns:
        if len(column.encode()) > MOST_OF_A_NAME:
            problem = f"has the column {column}, of whose name PostgreSQL keeps {MOST_OF_A_NAME} bytes"
            raise _refused("transform.sql", None, problem, "select it under a shorter name")

    def type_of(spark_type: str) -> str:
        if spark_type.startswith("decimal"):
            return spark_type.replace("decimal", "numeric")
        if spark_type.startswith("array<") and spark_type[6:-1] in _TYPES:
            return f"{_TYPES[spark_type[6:-1]]}[]"
        return _TYPES.get(spark_type, "jsonb")

    parts = [
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(type_of(spark_type)))
        for column, spark_type in columns
        if column != DELETED
    ]
    if key:
        names = sql.SQL(", ").join(map(sql.Identifier, key))
        parts.append(sql.SQL("PRIMARY KEY ({})").format(names))
    return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(identifier(name), sql.SQL(", ").join(parts))


def _refused(
    name: str, value: str | None, problem: str, remedy: str, *, passing: bool = False
) -> OptionError:
    return OptionError([Problem(name, value, problem, remedy)], passing=passing)
