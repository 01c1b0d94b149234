"""Rows of one transaction, written into tables of PostgreSQL.

Rows go into a temporary table first, so that rows of the target, and of the table of positions, are locked
only during statements that run on the server: a client that freezes holds no lock for longer than
``transaction.timeout.ms``, which does not count while the server waits for a COPY. Where no row can wait for
another one (a table without keys and triggers), they go directly into the target.

``stage`` and ``move`` know the record of each row, and leave out the records that the database refuses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.postgres import identifier
from cooperator.connectors.postgres_refusals import Refuse, Row, accept, writing
from cooperator.connectors.postgres_table import digest_of

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

DELETED = "__deleted"
"""A column that the table does not have: where it is true, the row with that key is deleted."""
_NUMBER = "__number"
_RECORD = "__record"
_STAGING = "cooperator_staging"


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that rows go to.

    ``columns`` are those of each row, in order. ``key`` holds the columns that identify a row; if it is
    empty, rows are added. ``direct``: they need no temporary table. ``digest`` is that of the table for which
    all this was chosen (``postgres_table``); an empty one is not compared.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    direct: bool = False
    digest: str = ""


class Chunk(NamedTuple):
    """Rows for one target, in order: each as the number of its record, ascending, and its values."""

    target: TargetTable
    rows: Sequence[tuple[int, Row]]


class TargetChanged(Exception):
    """A table is not as it was described; rows for it are written once it is described anew."""

    def __init__(self, table: str) -> None:
        super().__init__(f"table {table} has changed since it was described")


class Statements(NamedTuple):
    """The statements that write rows in one transaction: before the copy, the copy, and after it.

    After the copy the table is locked, so that its digest can be compared.
    """

    before: "Sequence[sql.Composed]"
    copy: "sql.Composed"
    after: "Sequence[sql.Composed]"


def stage(connection: "psycopg.Connection[Any]", chunks: Sequence[Chunk], refuse: Refuse) -> None:
    """Copies rows into temporary tables of this transaction, whose columns have the types of the targets.

    Raises ``TargetChanged``, ``StatementRefused``, and what passes. If the transaction is not to write them
    after all, it must be rolled back.
    """
    for number, (target, rows) in enumerate(chunks):
        before, statement, _ = statements_of(target, number, by_record=True)
        with writing(target.table):
            for each in before:
                connection.execute(each)
        # From here on the table stays as it is until the transaction ends.
        if target.digest and digest_of(connection, target.table) != target.digest:
            raise TargetChanged(target.table)

        def copied(some: Sequence[tuple[int, list[Row]]], statement: "sql.Composed" = statement) -> None:
            with connection.cursor().copy(statement) as copy:
                for record, its_rows in some:
                    for row in its_rows:
                        copy.write_row([*row, record])

        accept(connection, target.table, target.columns, _records(rows), copied, refuse)


def move(connection: "psycopg.Connection[Any]", chunks: Sequence[Chunk], refuse: Refuse) -> None:
    """Moves what was staged into the real tables."""
    for number, (target, rows) in enumerate(chunks):

        def inserted(
            some: Sequence[tuple[int, list[Row]]], target: TargetTable = target, number: int = number
        ) -> None:
            between = (some[0][0], some[-1][0]) if some else (1, 0)
            for each in _moving(target, _staging(number), between):
                connection.execute(each)
            # A constraint that is deferred would refuse the commit, which tells no record.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

        def narrow(number: int = number) -> None:
            from psycopg import sql

            names = {"staging": identifier(_staging(number)), "record": sql.Identifier(_RECORD)}
            connection.execute(sql.SQL("CREATE INDEX ON {staging} ({record})").format(**names))

        accept(connection, target.table, target.columns, _records(rows), inserted, refuse, narrow)


def statements_of(target: TargetTable, number: int = 0, *, by_record: bool = False) -> Statements:
    """Returns the statements that write rows into a table. ``number`` counts the copies of a transaction.

    ``by_record``: rows are staged, each with the number of its record after its values.
    """
    from psycopg import sql

    staging = _staging(number)
    selected = [sql.Identifier(name) for name in target.columns if name != DELETED]
    added = [sql.SQL("false AS {}").format(sql.Identifier(DELETED))] if DELETED in target.columns else []
    columns = [*target.columns]
    if by_record:
        added.append(sql.SQL("0::bigint AS {}").format(sql.Identifier(_RECORD)))
        columns.append(_RECORD)
    named = {
        "staging": identifier(staging),
        "selected": sql.SQL(", ").join([*selected, *added]),
        "table": identifier(target.table),
        "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
        "number": sql.Identifier(_NUMBER),
    }
    if target.direct and not by_record:
        return Statements([], sql.SQL("COPY {table} ({columns}) FROM STDIN").format(**named), [])
    create = "CREATE TEMPORARY TABLE {staging} ON COMMIT DROP AS SELECT {selected} FROM {table} LIMIT 0"
    before = [sql.SQL(create).format(**named)]
    if target.key:
        add = "ALTER TABLE {staging} ADD COLUMN {number} bigint GENERATED ALWAYS AS IDENTITY"
        before.append(sql.SQL(add).format(**named))
    copy = sql.SQL("COPY {staging} ({columns}) FROM STDIN").format(**named)
    return Statements(before, copy, _moving(target, staging))


def _staging(number: int) -> str:
    return f"{_STAGING}_{number}"


def _records(rows: Sequence[tuple[int, Row]]) -> list[tuple[int, list[Row]]]:
    """Returns the rows of each record."""
    return [(record, [row for _, row in some]) for record, some in groupby(rows, key=itemgetter(0))]


def _moving(
    target: TargetTable, staging: str, records: tuple[int, int] | None = None
) -> "list[sql.Composed]":
    """Returns what moves rows from the temporary table into the real one: all, or those of some records.

    The last of several rows with the same key wins. Keys are taken in order, so that units with common keys
    do not deadlock.
    """
    from psycopg import sql

    columns = [name for name in target.columns if name != DELETED]
    some: sql.Composable = sql.SQL("")
    if records is not None:
        between = "WHERE {} BETWEEN {} AND {}"
        some = sql.SQL(between).format(sql.Identifier(_RECORD), *map(sql.Literal, records))
    parts = {
        "table": identifier(target.table),
        "staging": identifier(staging),
        "some": some,
        "number": sql.Identifier(_NUMBER),
        "deleted": sql.Identifier(DELETED),
        "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
        "key": sql.SQL(", ").join(map(sql.Identifier, target.key)),
    }
    if not target.key:
        # A temporary table is read from its first row to its last one, so the order is that of the copy.
        insert = "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} {some}"
        return [sql.SQL(insert).format(**parts)]
    others = [sql.Identifier(name) for name in columns if name not in target.key]
    sets = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in others)
    parts["then"] = sql.SQL("DO UPDATE SET {}").format(sets) if others else sql.SQL("DO NOTHING")
    parts["kept"] = (
        sql.SQL("WHERE {deleted} IS NOT TRUE").format(**parts) if DELETED in target.columns else sql.SQL("")
    )
    newest = "(SELECT DISTINCT ON ({key}) * FROM {staging} {some} ORDER BY {key}, {number} DESC) AS newest"
    statements = []
    if DELETED in target.columns:
        # Also of keys that have a row again: another batch might have begun between the two, so the new row
        # has no more of the old one than it would have then.
        where = "AND" if records is not None else "WHERE"
        gone = f"(SELECT {{key}} FROM {{staging}} {{some}} {where} {{deleted}})"
        statements.append(sql.SQL(f"DELETE FROM {{table}} WHERE ({{key}}) IN {gone}").format(**parts))
    kept = f"SELECT {{columns}} FROM {newest} {{kept}} ORDER BY {{key}}"
    insert = f"INSERT INTO {{table}} ({{columns}}) {kept} ON CONFLICT ({{key}}) {{then}}"
    return [*statements, sql.SQL(insert).format(**parts)]
