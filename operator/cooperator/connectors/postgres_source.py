"""Reads tables of PostgreSQL as they grow and change: which rows make a batch.

A position is the value of a column that only grows (``incrementing``), of one with the time of a row's last
change (``timestamp``), or of both. A batch is the rows after one position, up to and including another. Both
are known before it is read, so reading it again gives the same rows, except those that were changed or
deleted meanwhile; a changed row has a newer timestamp, and belongs to a later batch.

Rows become visible when they are committed, not when their numbers and times are assigned. So a batch never
ends after what existed once all transactions that were writing into the table have ended; otherwise their
rows would be skipped. A writer is recognised by its lock on the table, which it takes before it takes a
number, and keeps until it ends. Numbers and times that are assigned before the lock can still be later:
``timestamp.delay.interval.ms`` is for those.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, ValidationInfo, model_validator

from cooperator.connectors.options import Names, OptionError, Problem, is_running, option, refuse
from cooperator.connectors.patterns import check_pattern, compiled
from cooperator.connectors.postgres import (
    Database,
    PostgresOptions,
    describe_table,
    identifier,
    is_table_name,
)
from cooperator.connectors.postgres_columns import Column
from cooperator.model.text import choice

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_SETTLING_S = 0.2
_PATIENCE = 50
"""The number of unsuccessful checks after which the wait is reported."""
_SYSTEM = ("pg_catalog", "information_schema", "pg_toast")


def _tables(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(is_table_name(name) and "$" not in name for name in value):
        raise refuse(
            "contains an invalid table name", "write table or schema.table, several separated by commas"
        )
    return value


class PostgresSourceOptions(PostgresOptions):
    tables: Annotated[Names, AfterValidator(_tables)] = option(
        "tables", (), expected="tables to read, as table or schema.table, separated by commas"
    )
    tables_regex: str = option(
        "tables.regex",
        "",
        expected="an RE2 regular expression for complete names (schema.table), instead of tables",
    )
    mode: Literal["incrementing", "timestamp", "timestamp+incrementing"] = option(
        "mode",
        expected="incrementing (new rows), timestamp or timestamp+incrementing (changed rows, too)",
        fixed=True,
    )
    incrementing: str = option(
        "incrementing.column.name",
        "",
        expected="the column whose values only grow (default: the identity or serial column)",
        fixed=True,
    )
    timestamps: Names = option(
        "timestamp.column.name",
        (),
        expected="the column with the time of a row's last change; of several, the first that is not null",
        fixed=True,
    )
    delay_ms: int = option(
        "timestamp.delay.interval.ms",
        1_000,
        expected="milliseconds that a row waits after its timestamp for late rows, 0 or more",
        ge=0,
    )
    max_rows: int = option(
        "batch.max.rows", 10_000, expected="the maximum number of rows in a batch, 1 or more", ge=1
    )
    validate_non_null: bool = option(
        "validate.non.null",
        True,
        expected="true, or false (columns of the position may be null; such rows are never read)",
    )
    timezone: str = option(
        "db.timezone", "UTC", expected="the time zone of timestamp columns without one, such as Europe/Berlin"
    )
    trigger_interval_ms: int = option(
        "trigger.interval.ms", 5_000, expected="milliseconds between two queries of a table, 0 or more", ge=0
    )

    @model_validator(mode="after")
    def _one_way_to_name_tables(self, info: ValidationInfo) -> Self:
        if self.tables and self.tables_regex:
            raise refuse("cannot be combined with tables", "use one of them", "tables.regex")
        if not self.tables and not self.tables_regex:
            raise refuse("names no table", "set tables, separated by commas, or tables.regex", "tables")
        if not is_running(info):
            check_pattern("tables.regex", self.tables_regex, "public[.]order.*")
        return self

    @model_validator(mode="after")
    def _columns_of_the_mode(self) -> Self:
        if "timestamp" in self.mode and not self.timestamps:
            remedy = "name the column, or set mode to incrementing"
            raise refuse(f"is required by mode {self.mode}", remedy, "timestamp.column.name")
        if "timestamp" not in self.mode and self.timestamps:
            remedy = "set mode to timestamp+incrementing, or remove it"
            raise refuse(f"is not used by mode {self.mode}", remedy, "timestamp.column.name")
        if "incrementing" not in self.mode and self.incrementing:
            remedy = "set mode to timestamp+incrementing, or remove it"
            raise refuse(f"is not used by mode {self.mode}", remedy, "incrementing.column.name")
        return self


def source_tables(
    database: Database, options: PostgresSourceOptions, say: Callable[[str], None]
) -> Sequence[str]:
    """Returns the existing tables to read, in a stable order; reports missing ones by ``say``.

    Raises ``DatabaseUnavailable`` when the database does not answer.
    """
    if options.tables:
        missing = [
            name
            for name in options.tables
            if database.once(lambda connection, name=name: describe_table(connection, name)) is None  # type: ignore[misc]
        ]
        say(f"waiting for the tables {', '.join(missing)}" if missing else "")
        return [name for name in options.tables if name not in missing]
    rows = database.once(
        lambda connection: connection.execute(
            "SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname != ALL(%s) ORDER BY 1",
            [list(_SYSTEM)],
        ).fetchall()
    )
    wanted = compiled(options.tables_regex)
    found = [name for (name,) in rows if wanted(name) and is_table_name(name) and "$" not in name]
    say("" if found else f"waiting for a table that matches {options.tables_regex}")
    return found


class _Part(NamedTuple):
    """One part of a position: its name, its expression, and the type to compare as."""

    name: str
    expression: "sql.Composable"
    type: "sql.SQL"


class TableReader:
    """Reads one table, from position to position.

    Raises ``OptionError`` when the table lacks something that the options name.
    """

    def __init__(self, database: Database, options: PostgresSourceOptions, table: str) -> None:
        self._database = database
        self._options = options
        self._table = table
        self.columns, self.key, self._parts = database.run(self._describe)

    def next_end(
        self, position: str, wait: Callable[[float], bool], say: Callable[[str], None]
    ) -> str | None:
        """Returns where a batch after ``position`` ends.

        A batch has at most ``batch.max.rows`` rows (more if many share one timestamp). Returns None when
        there is no batch, or when ``wait``, which waits some seconds, returns True.
        """
        looks = 0
        ceiling, writers = self._database.run(self._observe)
        while ceiling and self._database.run(lambda connection: writers & self._writers(connection)):
            looks += 1
            if looks == _PATIENCE:
                say(f"{self._table}: waiting for the end of transactions that write to it")
            if wait(_SETTLING_S):
                return None
        if looks >= _PATIENCE:
            say("")
        if not ceiling:
            return None
        return self._database.run(lambda connection: self._end(connection, position, ceiling))

    def read(self, start: str, end: str) -> list[dict[str, Any]]:
        """Returns the rows after ``start`` up to and including ``end``, ordered by position, as dicts."""
        from psycopg import sql
        from psycopg.rows import dict_row

        names = sql.SQL(", ").join(column.selected for column in self.columns)
        query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {}").format(
            names, identifier(self._table), self._between(start, end), self._order
        )

        def run(connection: "psycopg.Connection[Any]") -> list[dict[str, Any]]:
            return connection.cursor(row_factory=dict_row).execute(query).fetchall()

        return self._database.run(run)

    def _describe(
        self, connection: "psycopg.Connection[Any]"
    ) -> tuple[tuple[Column, ...], tuple[str, ...], tuple[_Part, ...]]:
        from psycopg import sql

        options, table = self._options, describe_table(connection, self._table)
        if table is None:
            remedy = "create the table, or remove it from the option"
            raise _refused("tables", self._table, "no longer exists", remedy, passing=True)
        not_null = {
            name
            for (name,) in connection.execute(
                "SELECT attname FROM pg_attribute "
                "WHERE attrelid = %s::regclass AND attnum > 0 AND attnotnull",
                [identifier(self._table).as_string(None)],
            )
        }
        parts = []
        named: list[str] = []
        if "timestamp" in options.mode:
            named += self._known("timestamp.column.name", options.timestamps, table.columns)
            zoned = any("with time zone" in table.columns[name] for name in named)
            columns = sql.SQL(", ").join(map(sql.Identifier, named))
            kind = sql.SQL("timestamptz" if zoned else "timestamp")
            parts.append(_Part("timestamp", sql.SQL("coalesce({})::{}").format(columns, kind), kind))
            if options.validate_non_null and not not_null & set(named):
                self._refuse_null("timestamp.column.name", named)
        if "incrementing" in options.mode:
            name = options.incrementing or self._counting(connection)
            named += self._known("incrementing.column.name", [name], table.columns)
            parts.append(_Part("incrementing", sql.Identifier(name), sql.SQL("bigint")))
            if options.validate_non_null and name not in not_null:
                self._refuse_null("incrementing.column.name", [name])
        key = table.unique[0] if table.unique and set(table.unique[0]) <= not_null else ()
        return tuple(Column(*column) for column in table.columns.items()), key, tuple(parts)

    def _known(self, name: str, wanted: Sequence[str], columns: dict[str, str]) -> Sequence[str]:
        for column in wanted:
            if column not in columns:
                remedy = choice(column, columns)
                raise _refused(name, column, f"is not a column of table {self._table}", remedy)
        return wanted

    def _refuse_null(self, name: str, columns: Sequence[str]) -> None:
        remedy = "declare it NOT NULL, or set validate.non.null to false (rows without it are never read)"
        raise _refused(name, ",".join(columns), f"may be null in table {self._table}", remedy)

    def _counting(self, connection: "psycopg.Connection[Any]") -> str:
        found = connection.execute(
            "SELECT attname FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
            "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped "
            "AND (attidentity != '' OR pg_get_expr(adbin, adrelid) LIKE 'nextval(%%')",
            [identifier(self._table).as_string(None)],
        ).fetchall()
        if len(found) != 1:
            problem = f"is required: table {self._table} has {len(found)} identity or serial columns"
            raise _refused(
                "incrementing.column.name", None, problem, "name the column whose values only grow"
            )
        return str(found[0][0])

    @property
    def _order(self) -> "sql.Composed":
        from psycopg import sql

        return sql.SQL(", ").join(part.expression for part in self._parts)

    @property
    def _position(self) -> "sql.Composed":
        """The expression of a position as JSON text."""
        from psycopg import sql

        pairs = [sql.SQL("{}, {}").format(sql.Literal(part.name), part.expression) for part in self._parts]
        return sql.SQL("json_build_object({})::text").format(sql.SQL(", ").join(pairs))

    def _between(self, start: str, end: str) -> "sql.Composed":
        """Returns the condition for positions after ``start`` (empty: from the first) up to ``end``.

        ``end`` may have fewer parts.
        """
        from psycopg import sql

        def compared(operator: str, position: str) -> sql.Composed:
            values = json.loads(position)
            parts = [part for part in self._parts if part.name in values]
            left = sql.SQL(", ").join(part.expression for part in parts)
            right = sql.SQL(", ").join(
                sql.SQL("{}::{}").format(sql.Literal(str(values[part.name])), part.type) for part in parts
            )
            return sql.SQL("({}) {} ({})").format(left, sql.SQL(operator), right)

        if not start:
            return compared("<=", end)
        return sql.SQL("{} AND {}").format(compared(">", start), compared("<=", end))

    def _observe(self, connection: "psycopg.Connection[Any]") -> tuple[str, set[str]]:
        """Returns the last possible position for now, and then the transactions that write."""
        from psycopg import sql

        part = self._parts[0]
        if part.name == "incrementing":
            statement = sql.SQL("SELECT max({}) FROM {}").format(part.expression, identifier(self._table))
        else:
            delayed = sql.SQL("clock_timestamp() - make_interval(secs => {})").format(
                sql.Literal(self._options.delay_ms / 1000)
            )
            if part.type.as_string(None) == "timestamp":
                zone = sql.Literal(self._options.timezone)
                delayed = sql.SQL("(({}) AT TIME ZONE {})").format(delayed, zone)
            statement = sql.SQL("SELECT ({})::text").format(delayed)
        [(newest,)] = connection.execute(statement)
        return "" if newest is None else json.dumps({part.name: newest}), self._writers(connection)

    def _writers(self, connection: "psycopg.Connection[Any]") -> set[str]:
        """Returns the transactions that have written into the table or its partitions.

        For a view, they have written into any table.
        """
        table = identifier(self._table).as_string(None)
        rows = connection.execute(
            "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted "
            "AND mode = 'RowExclusiveLock' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND (relation = %(table)s::regclass "
            "OR relation IN (SELECT relid FROM pg_partition_tree(%(table)s::regclass)) "
            "OR (SELECT relkind NOT IN ('r', 'p') FROM pg_class WHERE oid = %(table)s::regclass))",
            {"table": table},
        )
        return {transaction for (transaction,) in rows}

    def _end(self, connection: "psycopg.Connection[Any]", start: str, ceiling: str) -> str | None:
        from psycopg import sql

        query = sql.SQL(
            "SELECT position FROM (SELECT {position} AS position, row_number() OVER (ORDER BY {order}) AS "
            "number FROM {table} WHERE {between} ORDER BY {order} LIMIT {limit}) AS batch "
            "ORDER BY number DESC LIMIT 1"
        ).format(
            position=self._position,
            order=self._order,
            table=identifier(self._table),
            between=self._between(start, ceiling),
            limit=sql.Literal(self._options.max_rows),
        )
        found = connection.execute(query).fetchone()
        return None if found is None else str(found[0])


def _refused(
    name: str, value: str | None, problem: str, remedy: str, *, passing: bool = False
) -> OptionError:
    return OptionError([Problem(name, value, problem, remedy)], passing=passing)
