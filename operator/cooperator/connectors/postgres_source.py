"""Reads tables of PostgreSQL as they grow and change: which rows make a batch.

A position is the value of a column that only grows (``incrementing``), of one with the time of a row's last
change (``timestamp``), or of both. A batch is the rows after one position, up to and including another. The
second one is committed with the rows, so that the next batch begins there. A row that changes before it is
read has a newer timestamp then, and belongs to a later batch.

Rows become visible when they are committed, not when their numbers and times are assigned. So a batch never
ends after what existed once all transactions that were writing into the table have ended; otherwise their
rows would be skipped. A writer is recognised by its lock on the table, which it takes before it takes a
number, and keeps until it ends. Numbers and times that are assigned before the lock can still be later:
``timestamp.delay.interval.ms`` is for those.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, ValidationInfo, model_validator

from cooperator.connectors.options import Names, OptionError, Problem, is_running, option, refuse
from cooperator.connectors.patterns import check_pattern, compiled
from cooperator.connectors.postgres import (
    Database,
    PostgresOptions,
    identifier,
    is_table_name,
)
from cooperator.connectors.postgres_columns import Column
from cooperator.connectors.postgres_shape import Numbers, TableShape, digest_query, shapes
from cooperator.connectors.units import is_unit_id
from cooperator.model.text import choice

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

ORIGIN: Final = "origin"
"""The member of a position's JSON that users neither see nor set."""
_EARLIEST_LOCAL: Final = (
    "(SELECT least(at AT TIME ZONE {zone}, (SELECT min((to_timestamp(((floor(extract(epoch FROM at) / 900) "
    "+ quarter) * 900)::double precision) AT TIME ZONE {zone}) - interval '1 microsecond') "
    "FROM generate_series(1, 12) AS quarter)) FROM (SELECT {at} AS at) AS now)"
)
"""The time before which no row is written any more, for columns without a zone. Clocks go
back at a quarter of an hour, by three hours at most; before that it stays below the time that they go back
to, which comes again."""
_MOST_SHOWN: Final = 5
"""The tables that a message names."""
_SYSTEM = ("pg_catalog", "information_schema", "pg_toast")


def _tables(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(is_table_name(name) and "$" not in name for name in value):
        raise refuse(
            "contains an invalid table name",
            "write table or schema.table, several separated by commas; tables.regex reads other names, too",
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

    @property
    def tables_option(self) -> str:
        """The option that names the tables."""
        return "tables" if self.tables else "tables.regex"

    def why_unreadable(self, schema: str, table: str) -> str:
        """Returns why a table that exists cannot be read under its name, and the remedy; empty: it can."""
        if "." in schema:
            return "the name of its schema has a dot: rename the schema"
        if not is_unit_id(f"{schema}.{table}"):
            return (
                "its name has a comma, a slash, a blank at its end, or a character that is not printable: "
                "rename it, or read a view of it by the option tables"
            )
        return ""

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
        names = {name: quoted(name) for name in options.tables}
        found = database.once(lambda connection: shapes(connection, names.values()))
        missing = [name for name in names if names[name] not in found]
        say(f"waiting for the tables {', '.join(missing)}" if missing else "")
        return [name for name in options.tables if name not in missing]
    rows = database.once(
        lambda connection: connection.execute(
            "SELECT nspname, relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE relkind IN ('r', 'p') AND NOT relispartition AND nspname != ALL(%s) "
            "ORDER BY nspname || '.' || relname",
            [list(_SYSTEM)],
        ).fetchall()
    )
    wanted = compiled(options.tables_regex)
    matching = [(schema, name) for schema, name in rows if wanted(f"{schema}.{name}")]
    reasons = [(f"{each[0]}.{each[1]}", options.why_unreadable(*each)) for each in matching]
    readable = [name for name, why in reasons if not why]
    waits = [] if readable else [f"waiting for a table that matches {options.tables_regex}"]
    say("; ".join([*waits, *_not_read([each for each in reasons if each[1]])]))
    return readable


def _not_read(left_out: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Says which tables are left out, and why."""
    for name, why in left_out[:_MOST_SHOWN]:
        yield f"table {name!r} is not read: {why}"
    if len(left_out) > _MOST_SHOWN:
        yield f"nor are {len(left_out) - _MOST_SHOWN} more that match tables.regex"


def quoted(table: str) -> str:
    """Returns the name of a table as a text that statements and ``to_regclass`` read."""
    return identifier(table).as_string(None)


class _Part(NamedTuple):
    """One part of a position: its name, its expression, and the type to compare as."""

    name: str
    expression: "sql.Composable"
    type: "sql.SQL"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table to read, as the database describes it. ``key`` has the columns of its primary key.

    Positions are JSON texts of the parts, and of ``origin``: what its numbers began with. The empty one is
    before the first row. ``sequences`` give the incrementing column its numbers; ``digest`` is that of the
    table's shape. Statements are built here.
    """

    name: str
    columns: Sequence[Column]
    key: Sequence[str]
    parts: Sequence[_Part]
    delay_ms: int
    timezone: str
    origin: str = ""
    sequences: Sequence[Numbers] = ()
    digest: str = ""
    followed: Sequence[str] = ()
    """The columns of its positions."""

    @property
    def names_of_row(self) -> Sequence[str]:
        """The columns by which messages name a row."""
        return self.key or self.followed

    @property
    def digest_query(self) -> str:
        return digest_query(quoted(self.name))

    def drawn(self) -> "sql.Composed":
        """Returns the expression of the last number that its sequences gave; null: none, or not known."""
        from psycopg import sql

        last = [
            sql.SQL(
                "CASE WHEN has_sequence_privilege({0}::oid, 'SELECT, USAGE') "
                "THEN pg_sequence_last_value({0}::oid::regclass) END"
            ).format(sql.Literal(each.oid))
            for each in self.sequences
        ]
        return sql.SQL("least({})").format(sql.SQL(", ").join(last)) if last else sql.Composed([sql.NULL])

    def ceiling(self) -> "sql.Composed":
        """Returns the expression of the last possible position for now, as JSON text; null: there is none."""
        from psycopg import sql

        part = self.parts[0]
        if part.name == "incrementing":
            # With one aggregate the database looks at the end of an index only.
            return sql.SQL(
                "(SELECT CASE WHEN max({0}) IS NOT NULL THEN json_build_object({1}, max({0}){2})::text END "
                "FROM {3})"
            ).format(part.expression, sql.Literal(part.name), self._from, identifier(self.name))
        delayed = sql.SQL("clock_timestamp() - make_interval(secs => {})").format(
            sql.Literal(self.delay_ms / 1000)
        )
        if part.type.as_string(None) == "timestamp":
            delayed = sql.SQL(_EARLIEST_LOCAL).format(at=delayed, zone=sql.Literal(self.timezone))
        return sql.SQL("json_build_object({}, ({})::text)::text").format(sql.Literal(part.name), delayed)

    def end(self, start: str, ceiling: str, limit: int) -> "sql.Composed":
        """Returns the query for the last of the next ``limit`` rows up to the ceiling: its position and
        number."""
        from psycopg import sql

        return sql.SQL(
            "SELECT position, number FROM (SELECT {position} AS position, row_number() OVER (ORDER BY "
            "{order}) AS number FROM {table} WHERE {between} ORDER BY {order} LIMIT {limit}) AS batch "
            "ORDER BY number DESC LIMIT 1"
        ).format(
            position=self._position,
            order=self._order,
            table=identifier(self.name),
            between=self._between(start, ceiling),
            limit=sql.Literal(limit),
        )

    def last(self, ceiling: str) -> "sql.Composed":
        """Returns the query for the position of the last row up to the ceiling."""
        from psycopg import sql

        backwards = sql.SQL(", ").join(sql.SQL("{} DESC").format(part.expression) for part in self.parts)
        return sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT 1").format(
            self._position, identifier(self.name), self._between("", ceiling), backwards
        )

    def texts(self, start: str, end: str) -> str:
        """Returns the query for the rows after ``start`` up to and including ``end``, ordered by position.

        Its columns are texts, as the database writes the values.
        """
        from psycopg import sql

        names = sql.SQL(", ").join(
            sql.SQL(column.text_sql).format(sql.Identifier(column.name)) for column in self.columns
        )
        query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {}").format(
            names, identifier(self.name), self._between(start, end), self._order
        )
        return query.as_string(None)

    @property
    def _order(self) -> "sql.Composed":
        from psycopg import sql

        return sql.SQL(", ").join(part.expression for part in self.parts)

    @property
    def _position(self) -> "sql.Composed":
        """The expression of a position as JSON text."""
        from psycopg import sql

        pairs = [sql.SQL("{}, {}").format(sql.Literal(part.name), part.expression) for part in self.parts]
        return sql.SQL("json_build_object({}{})::text").format(sql.SQL(", ").join(pairs), self._from)

    @property
    def _from(self) -> "sql.Composable":
        """The origin as one more member of a position's JSON."""
        from psycopg import sql

        return sql.SQL(", {}, {}").format(sql.Literal(ORIGIN), sql.Literal(self.origin))

    def _between(self, start: str, end: str) -> "sql.Composed":
        """Returns the condition for positions after ``start`` (empty: from the first) up to ``end``.

        ``end`` may have fewer parts.
        """
        from psycopg import sql

        def compared(operator: str, position: str) -> sql.Composed:
            values = json.loads(position)
            parts = [part for part in self.parts if part.name in values]
            left = sql.SQL(", ").join(part.expression for part in parts)
            right = sql.SQL(", ").join(
                sql.SQL("{}::{}").format(sql.Literal(str(values[part.name])), part.type) for part in parts
            )
            return sql.SQL("({}) {} ({})").format(left, sql.SQL(operator), right)

        if not start:
            return compared("<=", end)
        return sql.SQL("{} AND {}").format(compared(">", start), compared("<=", end))


def offset_of(position: str) -> dict[str, Any]:
    """Returns the parts of a position that is not empty, as users see and set them."""
    return {name: value for name, value in json.loads(position).items() if name != ORIGIN}


def described(
    connection: "psycopg.Connection[Any]", options: PostgresSourceOptions, name: str
) -> SourceTable:
    """Returns a table to read.

    Raises ``OptionError`` when it lacks something that the options name, or cannot be followed safely.
    """
    from psycopg import sql

    shape = shapes(connection, [quoted(name)]).get(quoted(name))
    if shape is None:
        remedy = "create the table, or remove it from the option"
        if options.tables_regex:
            remedy = "create the table; or restart the connector, which then reads the tables that are there"
        raise _refused(options.tables_option, name, "no longer exists", remedy, passing=True)
    if shape.is_standby:
        problem = "leads to a standby, which does not show the transactions that write: rows would be skipped"
        raise _refused("connection.url", None, problem, "connect to the primary", passing=True)
    parts, counting, followed = [], None, list[str]()
    if "timestamp" in options.mode:
        _check_columns("timestamp.column.name", name, options.timestamps, shape.columns)
        followed += options.timestamps
        zoned = any("with time zone" in shape.columns[column] for column in options.timestamps)
        first = sql.SQL(", ").join(
            _moment(column, shape.columns[column], options.timezone if zoned else "")
            for column in options.timestamps
        )
        kind = sql.SQL("timestamptz" if zoned else "timestamp")
        parts.append(_Part("timestamp", sql.SQL("coalesce({})::{}").format(first, kind), kind))
        if options.validate_non_null and not set(shape.not_null) & set(options.timestamps):
            raise _nullable("timestamp.column.name", name, options.timestamps)
    if "incrementing" in options.mode:
        column = options.incrementing or _counting(name, shape)
        _check_columns("incrementing.column.name", name, [column], shape.columns)
        followed.append(column)
        if options.validate_non_null and column not in shape.not_null:
            raise _nullable("incrementing.column.name", name, [column])
        if not parts:
            shape.check_numbers(name, column)
            counting = column
        # In ORDER BY, a name without its table may be that of a result: the column's text.
        expression = sql.Identifier(*name.split(".", 1), column)
        parts.append(_Part("incrementing", expression, sql.SQL("bigint")))
    return SourceTable(
        name,
        tuple(Column(*column) for column in shape.columns.items()),
        shape.unique[0] if shape.unique and set(shape.unique[0]) <= set(shape.not_null) else (),
        tuple(parts),
        options.delay_ms,
        options.timezone,
        shape.origin(counting),
        shape.numbers_of(counting) if counting is not None else (),
        shape.digest,
        followed,
    )


def _moment(column: str, kind: str, zone: str) -> "sql.Composable":
    """Returns a time of a row's last change; one without a zone is in ``zone``, beside others that have one.

    A cast would take it for one in the zone of the session.
    """
    from psycopg import sql

    if not zone or "with time zone" in kind:
        return sql.Identifier(column)
    return sql.SQL("({}::timestamp AT TIME ZONE {})").format(sql.Identifier(column), sql.Literal(zone))


def _check_columns(option_name: str, table: str, wanted: Sequence[str], columns: Mapping[str, str]) -> None:
    for column in wanted:
        if column not in columns:
            remedy = choice(column, columns)
            raise _refused(option_name, column, f"is not a column of table {table}", remedy)


def _nullable(option_name: str, table: str, columns: Sequence[str]) -> OptionError:
    remedy = "declare it NOT NULL, or set validate.non.null to false (rows without it are never read)"
    return _refused(option_name, ",".join(columns), f"may be null in table {table}", remedy)


def _counting(table: str, shape: TableShape) -> str:
    found = list(dict.fromkeys(each.column for each in shape.sequences))
    if len(found) != 1:
        problem = f"is required: table {table} has {len(found)} identity or serial columns"
        raise _refused("incrementing.column.name", None, problem, "name the column whose values only grow")
    return found[0]


def _refused(
    name: str, value: str | None, problem: str, remedy: str, *, passing: bool = False
) -> OptionError:
    return OptionError([Problem(name, value, problem, remedy)], passing=passing)
