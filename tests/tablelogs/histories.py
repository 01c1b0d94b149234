"""Random histories of the loop of a task over tables: transactions that overlap in any way, and attempts that
end and fail at any step, over a sink in memory that commits rows and positions together."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from cooperator.connectors.microbatch import loop as loop_module
from cooperator.connectors.microbatch.batches import PositionRecord, Stand
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from cooperator.connectors.tablelogs.arrivals import NewRows, Observed
from cooperator.connectors.tablelogs.table_log import Bound, TableLogs
from cooperator.connectors.tablelogs.units import TableUnits
from tests.microbatch.log_fakes import Dies, FakeUnits, Fate, FatedBatches, LogSink, Slot

UNITS = {Partition(name, 0): name for name in ("a-1", "b", "c")}
SMALL = Limits(4, 7)
Row = tuple[int, int]
"""A row's position, which some rows may share, and its own number."""


@dataclass
class Transaction:
    """A transaction that writes: it holds its lock until its rows are visible."""

    table: Partition
    rows: list[Row] = field(default_factory=list)


@dataclass
class Database:
    """Tables whose positions come from sequences, as those of ``serial`` columns do."""

    visible: dict[Partition, list[Row]] = field(default_factory=lambda: {each: [] for each in UNITS})
    writing: dict[int, Transaction] = field(default_factory=dict)
    begun: int = 0
    position: int = 0
    number: int = 0

    def begin(self, table: Partition) -> None:
        self.begun += 1
        self.writing[self.begun] = Transaction(table)

    def insert(self, which: int, rows: int) -> None:
        if transaction := self._of(which):
            self.position += 1
            for _ in range(rows):
                self.number += 1
                transaction.rows.append((self.position, self.number))

    def end(self, which: int, commits: bool) -> None:
        if transaction := self._of(which):
            if commits:
                self.visible[transaction.table] += transaction.rows
            self.writing = {key: each for key, each in self.writing.items() if each is not transaction}

    def _of(self, which: int) -> Transaction | None:
        open_ones = list(self.writing.values())
        return open_ones[which % len(open_ones)] if open_ones else None


@dataclass
class Sink(LogSink):
    """The committed rows."""

    rows: dict[Partition, list[Row]] = field(default_factory=lambda: {each: [] for each in UNITS})


class FakeTables:
    """The database, in which something happens before each query."""

    def __init__(self, database: Database, happens: Callable[[], None]) -> None:
        self._database, self._happens = database, happens

    problems: Mapping[Partition, Exception] = {}

    def observe(self, tables: Mapping[Partition, str]) -> Mapping[Partition, Observed]:
        ceilings = {
            table: max((position for position, _ in self._database.visible[table]), default="")
            for table in tables
        }
        writers = self.writers(tables)
        return {table: Observed(str(ceilings[table]), writers[table]) for table in tables}

    def writers(self, tables: Collection[Partition]) -> Mapping[Partition, frozenset[str]]:
        self._happens()
        there = self._database.writing.items()
        return {table: frozenset(str(key) for key, each in there if each.table == table) for table in tables}

    def end(self, table: Partition, start: str, ceiling: str, limit: int) -> Bound | None:
        self._happens()
        found = self.between(table, start, ceiling)[:limit]
        return Bound(str(found[-1][0]), len(found)) if found else None

    def between(self, table: Partition, start: str, end: str) -> list[Row]:
        rows = self._database.visible[table]
        return sorted(row for row in rows if int(start or "0") < row[0] <= int(end))

    def renew(self) -> None: ...

    def interrupt(self) -> None: ...


class FakeBatches(FatedBatches):
    """Reads and commits the ranges of slots, unless their fate forbids it."""

    def __init__(self, sink: Sink, tables: FakeTables, logs: TableLogs, fate: Fate) -> None:
        super().__init__(sink, fate)
        self._sink, self._tables, self._logs = sink, tables, logs

    def commit(self, slot: Slot, records: Mapping[Partition, PositionRecord]) -> None:
        for each in slot:
            unit, log, record = each.partition, self._logs[each.partition], records[each.partition]
            before = self._sink.stands.get(unit) or self._sink.earlier.get(UNITS[unit], Stand(0))
            assert before == (each.start, log.at(each.start)), "a batch begins at its unit's position"
            if each.size:
                self._sink.rows[unit] += self._tables.between(unit, log.at(each.start), log.at(each.end))
            self._sink.stands[unit] = Stand(int(record.value), record.key)


class OneLook(NewRows):
    """Calls ``at_the_end`` when there is nothing to read now."""

    def __init__(
        self, logs: TableLogs, tables: FakeTables, max_rows: int, say: Callable[[str], None]
    ) -> None:
        super().__init__(logs, tables, 0, max_rows, say, self._now)
        self.at_the_end: Callable[[], None] = self.close
        self._waited_s = 0.0
        self._looks = 0

    def _now(self) -> float:
        return self._waited_s

    def pause(self, wait_s: float) -> None:
        self._waited_s += max(wait_s, 0.01)
        self._looks += 1
        if self._looks > 3:
            self.at_the_end()

    def restart(self) -> None:
        super().restart()
        self._looks -= 1
        assert self._looks > -60, "the loop does not come to an end"


def attempt(
    sink: Sink,
    database: Database,
    happens: Callable[[], None] = lambda: None,
    fate: Fate = lambda: (None, True),
    max_rows: int = 4,
    limits: Limits = SMALL,
) -> None:
    """Runs an attempt until it has read all that is there, or ``fate`` raises ``Dies``."""
    logs = TableLogs(UNITS)
    tables = FakeTables(database, happens)
    ends = OneLook(logs, tables, max_rows, lambda text: None)
    loop = TaskLoop(
        units=tuple(UNITS),
        ownership=TableUnits(FakeUnits(sink), logs, sink.taken_over),
        batches=FakeBatches(sink, tables, logs, fate),
        ends=ends,
        limits=limits,
        grouping=Grouping(2, 5),
        first_offsets=lambda missing: dict.fromkeys(missing, 0),
        say=lambda text: None,
        cut=ends.cut,
    )
    ends.at_the_end = loop.stop
    with patch.object(loop_module, "_BACKOFF_S", (0.0,)), suppress(Dies):
        loop.run()
