"""``kafka-to-postgres``: writes records of topics to tables in PostgreSQL, exactly once.

A unit is a partition of a topic. The rows that ``transform.sql`` returns for a batch are written in one
transaction with the batch's marker (see ``postgres_sink``): they are inserted (``append``), or replace the
row with the same key (``upsert``). The columns are those of the table; whether they fit is checked when a
unit starts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from cooperator.connectors.base import Delivered, Delivery, UnitContext
from cooperator.connectors.conversion import (
    Conversion,
    ConversionOptions,
    LetterBox,
    ensure_letters,
)
from cooperator.connectors.decoding import fields_of_value
from cooperator.connectors.kafka_offsets import KafkaOffsets
from cooperator.connectors.kafka_source import partition_lag, partition_units, source_partitions
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import SourceOffsets
from cooperator.connectors.offsets.unit_log import content_of
from cooperator.connectors.options import Names, OptionError, Options, Problem, option, refuse
from cooperator.connectors.parts import Part, in_order
from cooperator.connectors.postgres import (
    Database,
    PostgresOptions,
    Table,
    create_table,
    describe_table,
    identifier,
    is_table_name,
)
from cooperator.connectors.postgres_checks import missing, storable
from cooperator.connectors.postgres_sink import DELETED, Chunk, TableWriter, TargetTable
from cooperator.connectors.spark import SparkConnector
from cooperator.model.text import hinted

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SOURCE = "{topic}"
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
    if not is_table_name(value.replace(_SOURCE, "t")):
        remedy = "write table or schema.table; {topic} stands for the source topic's name"
        raise refuse("is not a valid table name", remedy)
    return value


def _mode(value: object) -> object:
    return "append" if value == "insert" else value  # Kafka Connect's name


class KafkaToPostgresOptions(ConversionOptions, PostgresOptions):
    table: Annotated[str, AfterValidator(_pattern)] = option(
        "table.name.format",
        _SOURCE,
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
    marker_table: Annotated[str, AfterValidator(_pattern)] = option(
        "marker.table",
        "cooperator_batches",
        expected="the table that records committed batches; it is created if missing",
        fixed=True,
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms",
        10_000,
        expected="milliseconds until the server releases the locks of a frozen member, 1000 to 900000",
        ge=1_000,
        le=900_000,
    )
    max_offsets: int = option(
        "max.offsets.per.trigger",
        10_000,
        expected="the maximum number of records in a batch, which has to fit into memory",
        ge=1,
    )

    @model_validator(mode="after")
    def _key_is_used(self) -> Self:
        if self.key and self.mode == "append":
            raise refuse("is not used with insert.mode = append", "set insert.mode to upsert", "pk.fields")
        return self


class KafkaToPostgres(SparkConnector[KafkaToPostgresOptions]):
    options: ClassVar[type[Options]] = KafkaToPostgresOptions

    def delivery(self, options: KafkaToPostgresOptions) -> Delivered:
        return Delivered(
            Delivery.EXACTLY_ONCE, f"The table {options.marker_table} records committed batches: keep it."
        )

    def offsets(self) -> SourceOffsets[KafkaToPostgresOptions]:
        # The database with the marker is not queried here, so the number of a batch in flight is not reused.
        return KafkaOffsets(Sink())

    def lag(self, options: KafkaToPostgresOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToPostgresOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = partition_units(source_partitions(options, say))
        ensure_letters(options)
        return found

    def reader(
        self, spark: "SparkSession", options: KafkaToPostgresOptions, context: UnitContext
    ) -> "DataFrame":
        return _conversion(options, context).stream(spark)

    def writer(
        self, stream: "DataFrame", options: KafkaToPostgresOptions, context: UnitContext
    ) -> "DataStreamWriter":
        name = f"{context.task.connector}/{context.unit}"
        database = Database(options, name, context.cancelled, context.say, options.transaction_timeout_ms)
        context.closing.callback(database.close)

        @cache
        def target(types: tuple[tuple[str, str], ...]) -> TargetTable:
            return _target(database, types, options, context)

        described: list[Table] = []

        def table() -> Table | None:
            if not described:
                name = _table_name(options, context)
                found = database.run(lambda connection: describe_table(connection, name))
                described.extend(filter(None, [found]))
            return described[0] if described else None

        conversion = _conversion(options, context, lambda rows: target(tuple(rows.dtypes)), table)

        types = conversion.types(stream)
        if types is not None:
            target(types)  # rows that do not fit are reported now
        letter_box = LetterBox(options, context)
        table_writer = TableWriter(database, context, options.marker_table)
        table_writer.claim()
        context.counts.rows_out = 0

        def write(batch: "DataFrame", batch_id: int) -> None:
            query = str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
            if conversion.by_batch:
                parts, left_out = conversion.batch(batch)
            else:
                parts, left_out = [Part(tuple(batch.dtypes), batch.toArrow())], []
            chunks = _chunks(parts, target)
            letter_box.put(query, batch_id, left_out)
            written = table_writer.write(query, batch_id, chunks, content_of(context.checkpoint, batch_id))
            context.counts.rows_out = (context.counts.rows_out or 0) + written

        return stream.writeStream.foreachBatch(write)


def _conversion(
    options: KafkaToPostgresOptions,
    context: UnitContext,
    accept: "Callable[[DataFrame], object]" = lambda rows: None,
    table: Callable[[], Table | None] = lambda: None,
) -> Conversion:
    def finish(rows: "DataFrame") -> "DataFrame":
        checked_against = table() if options.tolerance == "all" else None
        return storable(rows if options.select else fields_of_value(rows), checked_against)

    return Conversion(options, context, finish, accept=accept)


def _chunks(
    parts: Sequence[Part], target: Callable[[tuple[tuple[str, str], ...]], TargetTable]
) -> list[Chunk]:
    """Returns the rows in order; a chunk ends where the target changes."""
    rows = ((target(part.types), row) for part, row in in_order(parts))
    return [Chunk(into, [row for _, row in run]) for into, run in groupby(rows, key=lambda one: one[0])]


def _target(
    database: Database,
    columns: Sequence[tuple[str, str]],
    options: KafkaToPostgresOptions,
    context: UnitContext,
) -> TargetTable:
    """Returns where the unit's rows go; raises ``OptionError`` when they do not fit there."""
    name = _table_name(options, context)
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
    return TargetTable(name, names, _key(table, names, options))


def _table_name(options: KafkaToPostgresOptions, context: UnitContext) -> str:
    name = options.table.replace(_SOURCE, context.unit.rpartition("-")[0])
    if not is_table_name(name):
        remedy = "write a name without {topic}, or put schema. before it"
        raise _refused(
            "table.name.format", options.table, f"results in {name}, which is not a valid table name", remedy
        )
    return name


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

    lacking = missing(names, table) if options.tolerance == "all" and DELETED not in names else []
    if lacking:
        problem = f"lacks columns that table {table.name} needs: {', '.join(lacking)}"
        raise _refused("transform.sql", given, problem, "select them, or give them a default")


def _key(table: Table, names: Iterable[str], options: KafkaToPostgresOptions) -> tuple[str, ...]:
    if options.mode == "append":
        return ()
    written = ",".join(options.key) or None
    key = options.key or (table.unique[0] if table.unique else ())
    if set(key) not in [set(columns) for columns in table.unique] or not key:
        problem = f"table {table.name} has no unique index over {', '.join(key) or 'any column'}"
        raise _refused(
            "pk.fields", written, problem, "add a primary key to it, or name columns with a unique index"
        )
    if missing := set(key) - set(names):
        problem = f"rows lack the key columns {', '.join(sorted(missing))} of table {table.name}"
        raise _refused("pk.fields", written, problem, "select them in transform.sql")
    return tuple(key)


def _statement(name: str, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> "sql.Composed":
    """Returns the statement that would create the table."""
    from psycopg import sql

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
