"""Exactly-once delivery of a unit's batches into a table of PostgreSQL.

A batch and its marker are one transaction. The marker is a row of ``cooperator_batches`` for each unit: which
attempt claimed it (owner and epoch), and which batch of which query is committed. An attempt claims the
marker once, when it starts, unless a newer epoch has it; each batch locks the row, and is written only while
the claim is still this attempt's and the batch is not covered. So a frozen process that wakes up commits
nothing, and a replayed batch is not written again, whether its rows are added or replace others.

Rows go into a temporary table first, so that the row is locked only during statements that run on the server:
a client that freezes holds no lock for longer than ``transaction.timeout.ms``.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.base import UnitContext
from cooperator.connectors.exactly_once import Marker, Replaced
from cooperator.connectors.offsets.unit_log import query_of, reached
from cooperator.connectors.postgres import Database, create_table, describe_table, identifier
from cooperator.model import Epoch

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

log = logging.getLogger(__name__)

DELETED = "__deleted"
"""A column that the table does not have: where it is true, the row with that key is deleted."""
_NUMBER = "__number"
_STAGING = "cooperator_staging"

_CREATE = """
CREATE TABLE IF NOT EXISTS {marker} (
    worker text, connector text, unit text,
    owner text NOT NULL, term bigint, generation bigint, query text NOT NULL, batch bigint NOT NULL,
    content text NOT NULL DEFAULT '',
    PRIMARY KEY (worker, connector, unit)
)"""

_ADD = "ALTER TABLE {marker} ADD COLUMN IF NOT EXISTS content text NOT NULL DEFAULT ''"
"""Upgrades a marker table that was created without the column ``content``."""


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that rows go to.

    ``columns`` are those of each row, in order. ``key`` holds the columns that identify a row; if it is
    empty, rows are added.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()


class Chunk(NamedTuple):
    """Rows for one target, in order."""

    target: TargetTable
    rows: Sequence[Sequence[Any]]


class TableWriter:
    """Writes the batches of one unit. ``marker_table`` is created if it is missing."""

    def __init__(self, database: Database, context: UnitContext, marker_table: str) -> None:
        self._database = database
        self._marker_table = marker_table
        self._unit = (context.group_id, context.task.connector, context.unit)
        self._owner = context.owner
        self._epoch = context.epoch
        self._checkpoint = context.checkpoint

    def claim(self) -> None:
        """Claims the unit for this attempt, so that earlier attempts no longer hold it.

        Raises ``Replaced`` when a newer epoch has claimed it, and ``CheckpointBehind``.
        """
        self._database.run(self._create)
        self._database.run(self._claim)

    def write(self, query: str, batch: int, chunks: Sequence[Chunk], content: str) -> int:
        """Commits a batch unless it is committed already; returns the number of rows written now.

        ``content`` identifies what the batch covers. Raises ``CheckpointBehind``.
        """
        return self._database.run(lambda connection: self._write(connection, query, batch, chunks, content))

    def _create(self, connection: "psycopg.Connection[Any]") -> None:
        create_table(connection, self._marker_table, self._sql(_CREATE))
        table = describe_table(connection, self._marker_table)
        if table is not None and "content" not in table.columns:
            connection.execute(self._sql(_ADD))

    def _claim(self, connection: "psycopg.Connection[Any]") -> None:
        connection.execute(
            self._sql(
                "INSERT INTO {marker} (worker, connector, unit, owner, query, batch) "
                "VALUES (%s, %s, %s, '', '', -1) ON CONFLICT DO NOTHING"
            ),
            self._unit,
        )
        marker, epoch = self._locked(connection)
        if epoch is not None and self._epoch is not None and self._epoch < epoch:
            where = " AND ".join(
                f"{name} = '{value}'"
                for name, value in zip(("worker", "connector", "unit"), self._unit, strict=True)
            )
            raise Replaced(
                f"unit {self._unit[-1]} was claimed under epoch {epoch}; this attempt has {self._epoch} and "
                "must stop. If the group's logs were recreated, so that its epochs restarted: DELETE FROM "
                f"{self._marker_table} WHERE {where}"
            )
        marker.refuse_behind(query_of(self._checkpoint), reached(self._checkpoint)[1])
        term, generation = self._epoch or (None, None)
        self._update(connection, "owner = %s, term = %s, generation = %s", self._owner, term, generation)

    def _write(
        self,
        connection: "psycopg.Connection[Any]",
        query: str,
        batch: int,
        chunks: Sequence[Chunk],
        content: str,
    ) -> int:
        chunks = [chunk for chunk in chunks if chunk.rows]
        for number, chunk in enumerate(chunks):
            _stage(connection, chunk, f"{_STAGING}_{number}")
        marker, _ = self._locked(connection)
        if marker.owner != self._owner:
            raise Replaced(
                f"{marker.owner or 'another attempt'} writes this unit now; {self._owner} must stop"
            )
        if marker.covers(query, batch, content):
            log.info("batch %d of %s is already committed", batch, query)
            return 0
        for number, chunk in enumerate(chunks):
            _move(connection, chunk.target, f"{_STAGING}_{number}")
        self._update(connection, "query = %s, batch = %s, content = %s", query, batch, content)
        return sum(len(chunk.rows) for chunk in chunks)

    def _locked(self, connection: "psycopg.Connection[Any]") -> tuple[Marker, Epoch | None]:
        """Returns the unit's marker, locked until this transaction ends."""
        found = connection.execute(
            self._sql(
                "SELECT owner, query, batch, content, term, generation FROM {marker} "
                "WHERE worker = %s AND connector = %s AND unit = %s FOR UPDATE"
            ),
            self._unit,
        ).fetchone()
        if found is None:
            raise Replaced(f"the marker of unit {self._unit[-1]} is missing from {self._marker_table}")
        owner, query, batch, content, term, generation = found
        return Marker(owner, query, batch, content=content), None if term is None else Epoch(term, generation)

    def _update(self, connection: "psycopg.Connection[Any]", what: str, *values: Any) -> None:
        connection.execute(
            self._sql(f"UPDATE {{marker}} SET {what} WHERE worker = %s AND connector = %s AND unit = %s"),
            [*values, *self._unit],
        )

    def _sql(self, text: Any) -> "sql.Composed":
        from psycopg import sql

        return sql.SQL(text).format(marker=identifier(self._marker_table))


def _stage(connection: "psycopg.Connection[Any]", chunk: Chunk, staging: str) -> None:
    """Copies the rows, numbered, into a temporary table of this transaction."""
    from psycopg import sql

    target, rows = chunk
    table_columns = [name for name in target.columns if name != DELETED]
    deleted = [sql.SQL("false AS {}").format(sql.Identifier(DELETED))] if DELETED in target.columns else []
    connection.execute(
        sql.SQL(
            "CREATE TEMPORARY TABLE {staging} ON COMMIT DROP AS SELECT {columns} FROM {table} LIMIT 0"
        ).format(
            staging=identifier(staging),
            columns=sql.SQL(", ").join(
                [
                    sql.SQL("0 AS {}").format(sql.Identifier(_NUMBER)),
                    *(sql.Identifier(name) for name in table_columns),
                    *deleted,
                ]
            ),
            table=identifier(target.table),
        )
    )
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in (_NUMBER, *target.columns))
    with connection.cursor().copy(
        sql.SQL("COPY {} ({}) FROM STDIN").format(identifier(staging), columns)
    ) as copy:
        for number, row in enumerate(rows):
            copy.write_row((number, *row))


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
        connection.execute(
            sql.SQL(
                "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} ORDER BY {number}"
            ).format(**parts)
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
