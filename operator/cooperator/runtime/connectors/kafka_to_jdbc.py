"""``kafka-to-jdbc``: records of topics become rows of tables in PostgreSQL, exactly once.

A unit is a partition of a topic. What ``transform.sql`` makes of a batch is written in one transaction with
the batch's marker (see ``jdbc_sink``): added (``append``), or in place of the row with the same key
(``upsert``). The columns are those of the table; whether they fit is checked when a unit starts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from cooperator.runtime.connectors.base import Delivered, Delivery, UnitContext
from cooperator.runtime.connectors.conversion import (
    Conversion,
    ConversionOptions,
    LetterBox,
    Part,
    ensure_letters,
)
from cooperator.runtime.connectors.decoding import fields_of_value
from cooperator.runtime.connectors.jdbc_sink import DELETED, Chunk, TableWriter, Target
from cooperator.runtime.connectors.kafka_offsets import KafkaOffsets
from cooperator.runtime.connectors.kafka_source import partition_lag, partition_units, source_partitions
from cooperator.runtime.connectors.postgres import (
    Database,
    PostgresOptions,
    Table,
    describe_table,
    identifier,
    is_table_name,
)
from cooperator.runtime.connectors.spark import SparkConnector
from cooperator.runtime.offsets.sinks import Sink
from cooperator.runtime.offsets.sources import SourceOffsets
from cooperator.runtime.options import Names, OptionError, Options, Problem, option, refuse

if TYPE_CHECKING:
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
        raise refuse("is no name of a table", remedy)
    return value


def _mode(value: object) -> object:
    return "append" if value == "insert" else value  # as Kafka Connect calls it


class KafkaToJdbcOptions(ConversionOptions, PostgresOptions):
    table: Annotated[str, AfterValidator(_pattern)] = option(
        "table.name.format",
        _SOURCE,
        expected="a table, or schema.table; {topic} stands for the source topic's name",
    )
    mode: Annotated[Literal["append", "upsert"], BeforeValidator(_mode)] = option(
        "insert.mode",
        "append",
        expected="append (each row is added) or upsert (it takes the place of the row with its key)",
    )
    key: Names = option(
        "pk.fields", (), expected="the key's columns, with commas, for upsert (default: the primary key)"
    )
    auto_create: bool = option(
        "auto.create", False, expected="true (a missing table is created) or false (the task fails)"
    )
    marker_table: Annotated[str, AfterValidator(_pattern)] = option(
        "marker.table",
        "cooperator_batches",
        expected="the table that tells which batches are in; it is created where it is missing",
        fixed=True,
    )
    transaction_timeout_ms: int = option(
        "transaction.timeout.ms",
        10_000,
        expected="milliseconds that the locks of a member that froze are kept, 1000 to 900000",
        ge=1_000,
        le=900_000,
    )
    max_offsets: int = option(
        "max.offsets.per.trigger",
        10_000,
        expected="the number of records that make a batch (it has to fit into memory)",
        ge=1,
    )

    @model_validator(mode="after")
    def _key_is_used(self) -> Self:
        if self.key and self.mode == "append":
            raise refuse("is not used with insert.mode = append", "set that to upsert", "pk.fields")
        return self


class KafkaToJdbc(SparkConnector[KafkaToJdbcOptions]):
    options: ClassVar[type[Options]] = KafkaToJdbcOptions

    def delivery(self, options: KafkaToJdbcOptions) -> Delivered:
        return Delivered(
            Delivery.EXACTLY_ONCE, f"The table {options.marker_table} tells which batches are in: keep it."
        )

    def offsets(self) -> SourceOffsets[KafkaToJdbcOptions]:
        # The marker is in the database, which is not asked: a batch in flight keeps its number to itself.
        return KafkaOffsets(Sink())

    def lag(self, options: KafkaToJdbcOptions, ends: Mapping[str, str]) -> int:
        return partition_lag(options, ends)

    def units(self, options: KafkaToJdbcOptions, say: Callable[[str], None]) -> Sequence[str]:
        found = partition_units(source_partitions(options, say))
        ensure_letters(options)
        return found

    def reader(self, spark: "SparkSession", options: KafkaToJdbcOptions, context: UnitContext) -> "DataFrame":
        return _conversion(options, context).stream(spark)

    def writer(
        self, stream: "DataFrame", options: KafkaToJdbcOptions, context: UnitContext
    ) -> "DataStreamWriter":
        name = f"{context.task.connector}/{context.unit}"
        database = Database(options, name, context.cancelled, context.say, options.transaction_timeout_ms)
        context.closing.callback(database.close)
        conversion = _conversion(options, context)

        @cache
        def target(types: tuple[tuple[str, str], ...]) -> Target:
            return _target(database, types, options, context)

        types = conversion.types(stream)
        if types is not None:
            target(types)  # what does not fit is told now
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
            chunks = [Chunk(target(part.types), _rows(part)) for part in parts]
            letter_box.put(query, batch_id, left_out)
            written = table_writer.write(query, batch_id, chunks)
            context.counts.rows_out = (context.counts.rows_out or 0) + written

        return stream.writeStream.foreachBatch(write)


def _conversion(options: KafkaToJdbcOptions, context: UnitContext) -> Conversion:
    return Conversion(options, context, lambda rows: rows if options.select else fields_of_value(rows))


def _rows(part: Part) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in part.rows.columns), strict=True))


def _target(
    database: Database,
    columns: Sequence[tuple[str, str]],
    options: KafkaToJdbcOptions,
    context: UnitContext,
) -> Target:
    """Where the unit's rows go; OptionError when they do not fit there."""
    name = options.table.replace(_SOURCE, context.unit.rpartition("-")[0])
    if not is_table_name(name):
        remedy = "write a name without {topic}, or with schema. before it"
        raise _refused("table.name.format", options.table, f"gives {name}, which is no table's name", remedy)
    table = database.run(lambda connection: describe_table(connection, name))
    if table is None:
        statement = _statement(name, columns, options.key)
        if not options.auto_create:
            remedy = f"create it, or set auto.create to true. For example: {statement}"
            raise _refused("table.name.format", options.table, f"there is no table {name}", remedy)
        database.run(lambda connection: connection.execute(statement.encode()))
        table = database.run(lambda connection: describe_table(connection, name))
        assert table is not None, "it was created"
    names = tuple(column for column, _ in columns)
    _check_columns(table, names, options)
    return Target(name, names, _key(table, names, options))


def _check_columns(table: Table, names: Sequence[str], options: KafkaToJdbcOptions) -> None:
    given = options.transform_sql or None
    if len(set(names)) < len(names):
        raise _refused("transform.sql", given, "names a column twice", "name each once")
    if DELETED in names and options.mode == "append":
        remedy = "set insert.mode to upsert, or leave it out"
        raise _refused("transform.sql", given, f"has {DELETED}, and rows are only added", remedy)
    if unknown := [name for name in names if name not in table.columns and name != DELETED]:
        problem = f"gives {', '.join(unknown)}: not in table {table.name}"
        remedy = f"write a SELECT with columns of {', '.join(table.columns)}"
        raise _refused("transform.sql", given, problem, remedy)


def _key(table: Table, names: Iterable[str], options: KafkaToJdbcOptions) -> tuple[str, ...]:
    if options.mode == "append":
        return ()
    written = ",".join(options.key) or None
    key = options.key or (table.unique[0] if table.unique else ())
    if set(key) not in [set(columns) for columns in table.unique] or not key:
        problem = f"table {table.name} has no unique index over {', '.join(key) or 'any column'}"
        raise _refused(
            "pk.fields", written, problem, "add a primary key to it, or name columns that have one"
        )
    if missing := set(key) - set(names):
        problem = f"the key of table {table.name} has {', '.join(sorted(missing))}, which rows do not have"
        raise _refused("pk.fields", written, problem, "let transform.sql give it")
    return tuple(key)


def _statement(name: str, columns: Sequence[tuple[str, str]], key: Sequence[str]) -> str:
    """The table as it could be created."""
    from psycopg import sql

    def type_of(spark_type: str) -> str:
        if spark_type.startswith("decimal"):
            return spark_type.replace("decimal", "numeric")
        if spark_type.startswith("array<") and spark_type[6:-1] in _TYPES:
            return f"{_TYPES[spark_type[6:-1]]}[]"
        return _TYPES.get(spark_type, "jsonb")

    parts = [
        f"{sql.Identifier(column).as_string(None)} {type_of(spark_type)}"
        for column, spark_type in columns
        if column != DELETED
    ]
    if key:
        names = ", ".join(sql.Identifier(column).as_string(None) for column in key)
        parts.append(f"PRIMARY KEY ({names})")
    return f"CREATE TABLE IF NOT EXISTS {identifier(name).as_string(None)} ({', '.join(parts)})"


def _refused(name: str, value: str | None, problem: str, remedy: str) -> OptionError:
    return OptionError([Problem(name, value, problem, remedy)])
