"""The tables of a task as its loop sees them: no rows, but what exists, who writes, and where batches end."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.postgres import Database, identifier
from cooperator.connectors.postgres_source import PostgresSourceOptions, SourceTable, described
from cooperator.connectors.tablelogs.arrivals import Observed
from cooperator.connectors.tablelogs.table_log import Bound

if TYPE_CHECKING:
    import psycopg


_AT_ONCE: Final = 500
"""Tables in a query: a row has 1,664 columns at most."""


class PostgresTables:
    """``Tables`` of PostgreSQL, by one connection for all of them.

    ``described`` has the tables. Raises ``OptionError`` when a table lacks something that the options name.
    """

    def __init__(
        self, database: Database, options: PostgresSourceOptions, names: Mapping[Partition, str]
    ) -> None:
        self._database = database
        self.described: dict[Partition, SourceTable] = {
            partition: database.run(lambda connection, name=name: described(connection, options, name))  # type: ignore[misc]
            for partition, name in names.items()
        }

    def observe(self, tables: Collection[Partition]) -> Mapping[Partition, Observed]:
        # In this order: what takes a number later than all ceilings is not behind one.
        ceilings = self._database.run(lambda connection: self._ceilings(connection, tables))
        writers = self.writers(tables)
        return {table: Observed(ceilings[table], writers[table]) for table in tables}

    def writers(self, tables: Collection[Partition]) -> Mapping[Partition, frozenset[str]]:
        """For a view, they have written into any table."""
        return self._database.run(lambda connection: self._writers(connection, list(tables)))

    def end(self, table: Partition, start: str, ceiling: str, limit: int) -> Bound | None:
        query = self.described[table].end(start, ceiling, limit)
        found = self._database.run(lambda connection: connection.execute(query).fetchone())
        return None if found is None else Bound(str(found[0]), int(found[1]))

    def last(self, table: Partition, ceiling: str) -> str:
        """Returns the position of the last row up to the ceiling; empty: there is none."""
        query = self.described[table].last(ceiling)
        found = self._database.run(lambda connection: connection.execute(query).fetchone())
        return "" if found is None else str(found[0])

    def interrupt(self) -> None:
        self._database.interrupt()

    def _ceilings(
        self, connection: "psycopg.Connection[Any]", tables: Collection[Partition]
    ) -> dict[Partition, str]:
        from psycopg import sql

        ceilings: dict[Partition, str] = {}
        ordered = list(tables)
        for begin in range(0, len(ordered), _AT_ONCE):
            some = ordered[begin : begin + _AT_ONCE]
            columns = sql.SQL(", ").join(self.described[table].ceiling() for table in some)
            [found] = connection.execute(sql.SQL("SELECT {}").format(columns))
            ceilings |= {table: ceiling or "" for table, ceiling in zip(some, found, strict=True)}
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
            {"tables": [identifier(self.described[table].name).as_string(None) for table in tables]},
        ).fetchall()
        found: dict[Partition, set[str]] = {table: set() for table in tables}
        for number, transaction in rows:
            found[tables[number - 1]].add(transaction)
        return {table: frozenset(writers) for table, writers in found.items()}
