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
from cooperator.connectors.postgres_lines import payloads

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
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

    def copy(self, into: "psycopg.Copy") -> None:
        for row in self.rows:
            into.write_row(row)


class Lines(NamedTuple):
    """Rows for one target, in order, as lines (see ``postgres_lines``)."""

    target: TargetTable
    lines: "pa.Table"

    @property
    def size(self) -> int:
        return int(self.lines.num_rows)

    def copy(self, into: "psycopg.Copy") -> None:
        for payload in payloads(self.lines):
            into.write(payload)


def stage(connection: "psycopg.Connection[Any]", chunks: Sequence[Chunk | Lines]) -> int:
    """Copies rows into temporary tables of this transaction, or directly; returns how many.

    If the transaction is not to write them after all, it must be rolled back.
    """
    for number, chunk in enumerate(chunks):
        _stage(connection, chunk, f"{_STAGING}_{number}")
    return sum(chunk.size for chunk in chunks)


def move(connection: "psycopg.Connection[Any]", chunks: Sequence[Chunk | Lines]) -> None:
    """Moves what was staged into the real tables."""
    for number, chunk in enumerate(chunks):
        if not chunk.target.direct:
            _move(connection, chunk.target, f"{_STAGING}_{number}")


def _stage(connection: "psycopg.Connection[Any]", chunk: Chunk | Lines, staging: str) -> None:
    from psycopg import sql

    target = chunk.target
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
        _copy(connection, chunk, sql.SQL("COPY {table} ({columns}) FROM STDIN").format(**named))
        return
    connection.execute(
        sql.SQL(
            "CREATE TEMPORARY TABLE {staging} ON COMMIT DROP AS SELECT {selected} FROM {table} LIMIT 0"
        ).format(**named)
    )
    if target.key:
        connection.execute(
            sql.SQL("ALTER TABLE {staging} ADD COLUMN {number} bigint GENERATED ALWAYS AS IDENTITY").format(
                **named
            )
        )
    _copy(connection, chunk, sql.SQL("COPY {staging} ({columns}) FROM STDIN").format(**named))


def _copy(connection: "psycopg.Connection[Any]", chunk: Chunk | Lines, statement: "sql.Composed") -> None:
    with connection.cursor().copy(statement) as copy:
        chunk.copy(copy)


def _move(connection: "psycopg.Connection[Any]", target: TargetTable, staging: str) -> None:
    """Moves rows from the temporary table into the real one.

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
        connection.execute(
            sql.SQL("INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging}").format(**parts)
        )
        return
    others = [sql.Identifier(name) for name in columns if name not in target.key]
    sets = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in others)
    parts["then"] = sql.SQL("DO UPDATE SET {}").format(sets) if others else sql.SQL("DO NOTHING")
    parts["kept"] = (
        sql.SQL("WHERE NOT {deleted}").format(**parts) if DELETED in target.columns else sql.SQL("")
    )
    newest = "(SELECT DISTINCT ON ({key}) * FROM {staging} ORDER BY {key}, {number} DESC) AS newest"
    if DELETED in target.columns:
        connection.execute(
            sql.SQL(
                f"DELETE FROM {{table}} WHERE ({{key}}) IN (SELECT {{key}} FROM {newest} WHERE {{deleted}})"
            ).format(**parts)
        )
    connection.execute(
        sql.SQL(
            f"INSERT INTO {{table}} ({{columns}}) SELECT {{columns}} FROM {newest} {{kept}} "
            "ORDER BY {key} ON CONFLICT ({key}) {then}"
        ).format(**parts)
    )
