"""Rows of one transaction, written into tables of PostgreSQL.

Rows go into a temporary table first, so that rows of the target, and of the table of positions, are locked
only during statements that run on the server: a client that freezes holds no lock for longer than
``transaction.timeout.ms``, which does not count while the server waits for a COPY. Where no row can wait for
another one (a table without keys and triggers), they go directly into the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.postgres import identifier

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

DELETED = "__deleted"
"""A column that the table does not have: where it is true, the row with that key is deleted."""
_NUMBER = "__number"
_STAGING = "cooperator_staging"


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that rows go to.

    ``columns`` are those of each row, in order. ``key`` holds the columns that identify a row; if it is
    empty, rows are added. ``direct``: they need no temporary table.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    direct: bool = False


class Chunk(NamedTuple):
    """Rows for one target, in order: each as its values."""

    target: TargetTable
    rows: Sequence[Sequence[Any]]

    @property
    def size(self) -> int:
        return len(self.rows)


class Statements(NamedTuple):
    """The statements that write rows in one transaction: before the copy, the copy, and after it."""

    before: "Sequence[sql.Composed]"
    copy: "sql.Composed"
    after: "Sequence[sql.Composed]"


def stage(connection: "psycopg.Connection[Any]", chunks: Sequence[Chunk]) -> int:
    """Copies rows into temporary tables of this transaction, or directly; returns how many.

    If the transaction is not to write them after all, it must be rolled back.
    """
    for number, chunk in enumerate(chunks):
        statements = statements_of(chunk.target, number)
        for each in statements.before:
            connection.execute(each)
        with connection.cursor().copy(statements.copy) as copy:
            for row in chunk.rows:
                copy.write_row(row)
    return sum(chunk.size for chunk in chunks)


def move(connection: "psycopg.Connection[Any]", chunks: Sequence[Chunk]) -> None:
    """Moves what was staged into the real tables."""
    for number, chunk in enumerate(chunks):
        for each in statements_of(chunk.target, number).after:
            connection.execute(each)


def statements_of(target: TargetTable, number: int = 0) -> Statements:
    """Returns the statements that write rows into a table. ``number`` counts the copies of a transaction."""
    from psycopg import sql

    staging = f"{_STAGING}_{number}"
    selected = [sql.Identifier(name) for name in target.columns if name != DELETED]
    deleted = [sql.SQL("false AS {}").format(sql.Identifier(DELETED))] if DELETED in target.columns else []
    named = {
        "staging": identifier(staging),
        "selected": sql.SQL(", ").join([*selected, *deleted]),
        "table": identifier(target.table),
        "columns": sql.SQL(", ").join(map(sql.Identifier, target.columns)),
        "number": sql.Identifier(_NUMBER),
    }
    if target.direct:
        return Statements([], sql.SQL("COPY {table} ({columns}) FROM STDIN").format(**named), [])
    create = "CREATE TEMPORARY TABLE {staging} ON COMMIT DROP AS SELECT {selected} FROM {table} LIMIT 0"
    before = [sql.SQL(create).format(**named)]
    if target.key:
        add = "ALTER TABLE {staging} ADD COLUMN {number} bigint GENERATED ALWAYS AS IDENTITY"
        before.append(sql.SQL(add).format(**named))
    copy = sql.SQL("COPY {staging} ({columns}) FROM STDIN").format(**named)
    return Statements(before, copy, _moving(target, staging))


def _moving(target: TargetTable, staging: str) -> "list[sql.Composed]":
    """Returns what moves rows from the temporary table into the real one.

    The last of several rows with the same key wins. Keys are taken in order, so that units with common keys
    do not deadlock.
    """
    from psycopg import sql

    columns = [name for name in target.columns if name != DELETED]
    parts = {
        "table": identifier(target.table),
        "staging": identifier(staging),
        "number": sql.Identifier(_NUMBER),
        "deleted": sql.Identifier(DELETED),
        "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
        "key": sql.SQL(", ").join(map(sql.Identifier, target.key)),
    }
    if not target.key:
        # A temporary table is read from its first row to its last one, so the order is that of the copy.
        return [sql.SQL("INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging}").format(**parts)]
    others = [sql.Identifier(name) for name in columns if name not in target.key]
    sets = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in others)
    parts["then"] = sql.SQL("DO UPDATE SET {}").format(sets) if others else sql.SQL("DO NOTHING")
    parts["kept"] = (
        sql.SQL("WHERE NOT {deleted}").format(**parts) if DELETED in target.columns else sql.SQL("")
    )
    newest = "(SELECT DISTINCT ON ({key}) * FROM {staging} ORDER BY {key}, {number} DESC) AS newest"
    statements = []
    if DELETED in target.columns:
        gone = f"(SELECT {{key}} FROM {newest} WHERE {{deleted}})"
        statements.append(sql.SQL(f"DELETE FROM {{table}} WHERE ({{key}}) IN {gone}").format(**parts))
    kept = f"SELECT {{columns}} FROM {newest} {{kept}} ORDER BY {{key}}"
    insert = f"INSERT INTO {{table}} ({{columns}}) {kept} ON CONFLICT ({{key}}) {{then}}"
    return [*statements, sql.SQL(insert).format(**parts)]
