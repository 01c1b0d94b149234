"""The tables of a task as its loop sees them: no rows, but what exists, who writes, and where batches end."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.options import OptionError
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_shape import digests
from cooperator.connectors.postgres_source import (
    PostgresSourceOptions,
    SourceTable,
    described,
    quoted,
)
from cooperator.connectors.tablelogs.arrivals import Observed
from cooperator.connectors.tablelogs.continuity import check_position
from cooperator.connectors.tablelogs.table_log import Bound

if TYPE_CHECKING:
    import psycopg


T = TypeVar("T")

_AT_ONCE: Final = 500
"""Tables in a query: a row has 1,664 columns at most, and a table two."""


class PostgresTables:
    """``Tables`` of PostgreSQL, by one connection for all of them.

    ``described`` has the tables; one that has changed is described anew by the next look. A table that lacks
    something that the options name, or cannot be followed safely, is left out: ``problems`` says why, and the
    next look describes it again. Methods raise ``OptionError`` when that is so of all tables.
    """

    def __init__(
        self, database: Database, options: PostgresSourceOptions, names: Mapping[Partition, str]
    ) -> None:
        self._database = database
        self._options = options
        self._names = {partition: quoted(name) for partition, name in names.items()}
        self._tables = dict(names)
        self.described: dict[Partition, SourceTable] = {}
        self.problems: Mapping[Partition, OptionError] = {}
        for partition in names:
            self._describe(partition)

    def observe(self, positions: Mapping[Partition, str]) -> Mapping[Partition, Observed]:
        self._describe_changed()
        # In this order: what takes a number later than all ceilings is not behind one.
        found = self._asked(lambda connection: self._ceilings(connection, self._readable(positions)))
        writers = self.writers(found)
        observed = {}
        for table, (ceiling, drawn) in found.items():
            greatest = json.loads(ceiling).get("incrementing") if ceiling else None
            try:
                doubt = check_position(
                    self.described[table], positions[table], greatest, drawn, self._options.tables_option
                )
            except OptionError as error:
                self._leave_out(table, error)
            else:
                observed[table] = Observed(ceiling, writers.get(table, frozenset()), doubt)
        return observed

    def writers(self, tables: Collection[Partition]) -> Mapping[Partition, frozenset[str]]:
        """For a view, they have written into any table."""
        return self._asked(lambda connection: self._writers(connection, self._readable(tables)))

    def end(self, table: Partition, start: str, ceiling: str, limit: int) -> Bound | None:
        found = self._asked(
            lambda connection: (
                connection.execute(self.described[table].end(start, ceiling, limit)).fetchone()
                if table not in self.problems
                else None
            )
        )
        return None if found is None else Bound(str(found[0]), int(found[1]))

    def last(self, table: Partition, ceiling: str) -> str:
        """Returns the position of the last row up to the ceiling; empty: there is none."""
        found = self._asked(
            lambda connection: connection.execute(self.described[table].last(ceiling)).fetchone()
        )
        return "" if found is None else str(found[0])

    def interrupt(self) -> None:
        self._database.interrupt()

    def renew(self) -> None:
        """Begins another session: in the present one a name may mean another table than in later ones."""
        self._database.close()

    def _readable(self, tables: Collection[Partition]) -> list[Partition]:
        return [table for table in tables if table not in self.problems]

    def _leave_out(self, partition: Partition, error: OptionError) -> None:
        """Raises the error if it is the last table."""
        self.problems = {**self.problems, partition: error}
        if len(self.problems) == len(self._names):
            raise error

    def _describe(self, partition: Partition) -> None:
        try:
            self.described[partition] = self._database.run(
                lambda connection: described(connection, self._options, self._tables[partition])
            )
        except OptionError as error:
            self._leave_out(partition, error)
        else:
            self.problems = {table: each for table, each in self.problems.items() if table != partition}

    def _describe_changed(self) -> None:
        found = self._database.run(lambda connection: digests(connection, self._names.values()))
        for partition, name in self._names.items():
            table = self.described.get(partition)
            if partition in self.problems or table is None or found.get(name) != table.digest:
                self._describe(partition)

    def _asked(self, work: "Callable[[psycopg.Connection[Any]], T]") -> T:
        """Runs ``work``; once more if tables have changed since they were described."""
        from psycopg import ProgrammingError

        try:
            return self._database.run(work)
        except ProgrammingError:
            self._describe_changed()
            return self._database.run(work)

    def _ceilings(
        self, connection: "psycopg.Connection[Any]", tables: Collection[Partition]
    ) -> dict[Partition, tuple[str, int | None]]:
        """Returns the ceiling of each table, and the last number that its sequences gave."""
        from psycopg import sql

        ceilings: dict[Partition, tuple[str, int | None]] = {}
        ordered = list(tables)
        for begin in range(0, len(ordered), _AT_ONCE):
            some = ordered[begin : begin + _AT_ONCE]
            parts = [
                part
                for table in some
                for part in (self.described[table].ceiling(), self.described[table].drawn())
            ]
            [found] = connection.execute(sql.SQL("SELECT {}").format(sql.SQL(", ").join(parts)))
            for table, ceiling, drawn in zip(some, found[::2], found[1::2], strict=True):
                ceilings[table] = ceiling or "", drawn
        return ceilings

    def _writers(
        self, connection: "psycopg.Connection[Any]", tables: list[Partition]
    ) -> Mapping[Partition, frozenset[str]]:
        rows = connection.execute(
            "WITH writers AS MATERIALIZED (SELECT relation, virtualtransaction FROM pg_locks "
            "WHERE locktype = 'relation' AND granted AND mode = 'RowExclusiveLock' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) "
            "SELECT number, virtualtransaction FROM writers, "
            "unnest(%(tables)s::text[]) WITH ORDINALITY AS wanted (name, number) "
            "WHERE relation = name::regclass "
            "OR relation IN (SELECT relid FROM pg_partition_tree(name::regclass)) "
            "OR (SELECT relkind NOT IN ('r', 'p') FROM pg_class WHERE oid = name::regclass)",
            {"tables": [self._names[table] for table in tables]},
        ).fetchall()
        found: dict[Partition, set[str]] = {table: set() for table in tables}
        for number, transaction in rows:
            found[tables[number - 1]].add(transaction)
        return {table: frozenset(writers) for table, writers in found.items()}
