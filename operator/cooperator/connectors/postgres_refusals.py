"""Finds the records of a batch that the database refuses, and says why.

A statement fails as a whole. So the records are written in runs, each in a savepoint: a run that is refused
is halved, and after one that is accepted the next is twice as long. A record that is refused alone is found.
Among n records, one costs some 2 log n runs, and one whose neighbours are refused as well a single run;
there are never more than 2 n + 2 log n.

Whether an error may be about values, its SQLSTATE tells (``postgres_states``). A statement that fails without
any record, too, refuses none; neither does what passes, such as a lock or a server that is away.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from cooperator.connectors.postgres import identifier
from cooperator.connectors.postgres_states import Meaning, meaning
from cooperator.model.visible import bounded, visible_line

if TYPE_CHECKING:
    import psycopg

_LIMITS: Final = "54"
"""The class of limits, of which the server may name no index: the longest value is the reason."""
_SHOWN: Final = 200
"""Characters of a value."""
_QUOTED: Final = 400
"""Characters of each text of the database."""
_REMEDIES: Final = {
    "23502": "select a value for it in transform.sql, or drop the constraint",
    "23503": "write the row that it refers to before, or drop the constraint",
    "23505": "set insert.mode to upsert if rows are to replace others, or drop the constraint",
    "23": "change the value in transform.sql, or alter the constraint",
    "22": "change the value in transform.sql, or alter the type of the column",
    "54": "shorten the value in transform.sql, or drop the index",
    "42501": "change the value in transform.sql, or alter the policy of the table",
    "44": "change the value in transform.sql, or alter the view",
    "": "change the value in transform.sql, or alter the trigger, rule or function of the table",
}
"""By SQLSTATE, or its class; the last one is that of what a function of the database refuses."""
_SCHEMA_REMEDIES: Final = {
    "42501": "grant the role the rights to insert and update there, and to create temporary tables",
    "42": "alter the table, its rule, trigger or function, or transform.sql",
}
_COLUMNS: Final = """
SELECT attname::text FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY(conkey)
WHERE conrelid = to_regclass(%(table)s) AND conname = %(name)s
UNION SELECT attname::text FROM pg_class AS indexes JOIN pg_index ON indexrelid = indexes.oid
JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey::int[])
WHERE indrelid = to_regclass(%(table)s) AND relname = %(name)s"""

Row = Sequence[Any]
Record = tuple[int, list[Row]]
"""The number of a record, and its rows."""


class StatementRefused(Exception):
    """The database refuses to write into a table, whatever the rows are; the message names the table and a
    remedy.
    """


class DatabaseRefusal(NamedTuple):
    """What the database says about a record: in one line, with the columns and values; and a remedy."""

    reason: str
    remedy: str


Refuse = Callable[[int, DatabaseRefusal], None]
"""Is told the number of each record that the database refuses. It may raise."""


def accept(
    connection: "psycopg.Connection[Any]",
    table: str,
    columns: Sequence[str],
    records: Sequence[Record],
    write: Callable[[Sequence[Record]], None],
    refuse: Refuse,
    narrow: Callable[[], None] = lambda: None,
) -> None:
    """Calls ``write`` for runs of all records that the database accepts, in order; if all together are
    refused, then for none.

    Raises ``StatementRefused``, and what passes. ``narrow`` is called once before runs that are shorter than
    all records. ``columns`` are those of rows.
    """
    import psycopg

    at, size, is_whole = 0, len(records), True
    while at < len(records):
        run = records[at : at + size]
        try:
            with connection.transaction():
                write(run)
        except psycopg.Error as error:
            if meaning(error) is not Meaning.ROW:
                _fail(table, error)
            if is_whole:
                is_whole = False
                with writing(table), connection.transaction(force_rollback=True):
                    write([])
                narrow()
            if len(run) > 1:
                size = len(run) // 2
                continue
            refuse(run[0][0], _refusal(connection, table, columns, run[0][1], error))
            size = 1
        else:
            size *= 2
        at += len(run)


@contextmanager
def writing(table: str) -> Iterator[None]:
    """Names the table and a remedy where a statement fails. What passes is raised as it is."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        _fail(table, error)


def _fail(table: str, error: "psycopg.Error") -> NoReturn:
    if meaning(error) is Meaning.PASSES:
        raise error
    state = error.sqlstate or ""
    remedy = _SCHEMA_REMEDIES.get(state) or _SCHEMA_REMEDIES.get(state[:2], _SCHEMA_REMEDIES["42"])
    text = visible_line(f"table {table} cannot be written: {_said(error)}; {remedy}")
    raise StatementRefused(text) from error


def _refusal(
    connection: "psycopg.Connection[Any]",
    table: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    error: "psycopg.Error",
) -> DatabaseRefusal:
    named = _named(connection, table, columns, rows, error)
    values = [f"column {name}, which is {_shown(columns.index(name), rows)}" for name in named]
    where = f"table {table} refuses {' and '.join(values)}" if values else f"table {table} refuses the row"
    state = error.sqlstate or ""
    # The client alone looks for U+0000, and reports no state.
    remedy = _REMEDIES.get(state or "22") or _REMEDIES.get(state[:2], _REMEDIES[""])
    return DatabaseRefusal(visible_line(f"{where}: {_said(error)}"), remedy)


def _said(error: "psycopg.Error") -> str:
    """Returns the database's text, which says last where in the rows it was; or that of its client, which
    alone looks for U+0000.
    """
    diag = error.diag
    texts = [diag.message_primary or str(error), diag.message_detail or "", _place(error)]
    state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    return "; ".join(visible_line(text, _QUOTED) for text in texts if text) + state


def _named(
    connection: "psycopg.Connection[Any]",
    table: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    error: "psycopg.Error",
) -> list[str]:
    """Returns the columns of the row that the database names. Its texts are in any language."""
    diag = error.diag
    if error.sqlstate is None:
        parts = [[row[index] for row in rows] for index in range(len(columns))]
        has_nul = [any(isinstance(part, str) and "\0" in part for part in values) for values in parts]
        return [name for name, found in zip(columns, has_nul, strict=True) if found]
    if diag.column_name:
        return [name for name in columns if name == diag.column_name]
    place = _place(error).partition(': "')[0]
    ending = [name for name in columns if place.endswith(f" {name}")]
    if ending:
        return [max(ending, key=len)]
    if diag.constraint_name:
        of_table = {"table": identifier(table).as_string(None), "name": diag.constraint_name}
        found = {name for (name,) in connection.execute(_COLUMNS, of_table)}
        return [name for name in columns if name in found]
    if len(columns) > 1 and error.sqlstate.startswith(_LIMITS):
        return [max(columns, key=lambda name: max(len(str(row[columns.index(name)])) for row in rows))]
    return [columns[0]] if len(columns) == 1 else []


def _place(error: "psycopg.Error") -> str:
    """Returns the line of the context that names the column of a COPY, if there is one."""
    lines = (error.diag.context or "").splitlines()
    return next((line for line in lines if line.startswith("COPY ")), "")


def _shown(index: int, rows: Sequence[Row]) -> str:
    """Returns the column's value, or those of several rows, as JSON."""
    values = [None if row[index] is None else bounded(str(row[index]), _QUOTED) for row in rows]
    return visible_line(json.dumps(values[0] if len(values) == 1 else values, ensure_ascii=False), _SHOWN)
