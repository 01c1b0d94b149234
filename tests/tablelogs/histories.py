"""Random histories of the loop of a task over tables: transactions that overlap in any way, and attempts that
end and fail at any step, over a sink in memory that commits rows and positions together."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from cooperator.connectors.microbatch import loop as loop_module
from cooperator.connectors.microbatch.batches import (
    FailureKind,
    Outcome,
    Owned,
    PositionRecord,
    SlotFailure,
    Stand,
)
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, OffsetRange, Partition
from cooperator.connectors.tablelogs.arrivals import NewRows, Observed
from cooperator.connectors.tablelogs.table_log import Bound, TableLogs
from cooperator.connectors.tablelogs.units import TableUnits

UNITS = {Partition(name, 0): name for name in ("a-1", "b", "c")}
SMALL = Limits(4, 7)
Fate = Callable[[], tuple[FailureKind | None, bool]]
"""Returns whether a slot fails, and whether it has committed all the same."""
Row = tuple[int, int]
"""A row's position, which some rows may share, and its own number."""


class Dies(BaseException):
    """The process ends."""


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
class Sink:
    """The committed rows and positions; ``earlier`` are positions that an earlier release has left."""

    stands: dict[Partition, Stand] = field(default_factory=dict)
    rows: dict[Partition, list[Row]] = field(default_factory=lambda: {each: [] for each in UNITS})
    earlier: Mapping[str, str] = field(default_factory=dict)
    session: int = 0

    def taken_over(self, missing: Sequence[str]) -> Mapping[str, str]:
        return {unit: self.earlier[unit] for unit in missing if unit in self.earlier}


class FakeTables:
    """The database, in which something happens before each query."""

    def __init__(self, database: Database, happens: Callable[[], None]) -> None:
        self._database, self._happens = database, happens

    def observe(self, tables: Collection[Partition]) -> Mapping[Partition, Observed]:
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

    def interrupt(self) -> None: ...


class FakeUnits:
    """Claims that nobody disputes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def claim(self) -> Owned:
        self._sink.session += 1
        return Owned(dict(self._sink.stands), str(self._sink.session))

    recover = claim

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return PositionRecord(stand.topic_id, str(stand.next))


class FakeBatches:
    """Reads and commits the ranges of slots, unless their fate forbids it."""

    reads_topics_apart = False

    def __init__(self, sink: Sink, tables: FakeTables, logs: TableLogs, fate: Fate) -> None:
        self._sink, self._tables, self._logs, self._fate = sink, tables, logs, fate

    def open(self, session: str) -> None: ...

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        assert session == str(self._sink.session)
        failures = []
        for number, slot in enumerate(slots):
            kind, commits = self._fate()
            for each in slot if commits else ():
                self._commit(each, records[each.partition])
            if kind is not None:
                failures.append(SlotFailure(number, kind, kind.value))
        return Outcome(0, failures)

    def _commit(self, each: OffsetRange, record: PositionRecord) -> None:
        unit, log = each.partition, self._logs[each.partition]
        before = self._sink.stands.get(unit) or Stand(0, self._sink.earlier.get(UNITS[unit], ""))
        assert before == (each.start, log.at(each.start)), "a batch begins at its unit's position"
        if each.size:
            self._sink.rows[unit] += self._tables.between(unit, log.at(each.start), log.at(each.end))
        self._sink.stands[unit] = Stand(int(record.value), record.key)

    def cancel(self) -> None: ...

    def close(self) -> None: ...


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
