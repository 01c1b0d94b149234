"""New rows of a task's tables: what its loop waits for (compare ``microbatch.ends.Subscription``).

Rows become visible in another order than that of their positions. So a batch never ends after a *ceiling*: a
position that was observed earlier, and is used once all transactions that wrote into the table at that time
have ended (see ``postgres_source``).
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.microbatch.unit_logs import LogEnds
from cooperator.connectors.tablelogs.table_log import Bound, TableLogs
from cooperator.model.text import listed

SETTLING_S: Final = 0.2
"""The time between two looks for the end of transactions."""
_PATIENCE_S: Final = 10.0
"""The time after which such a wait is reported."""


class Observed(NamedTuple):
    """The last possible position of a table's rows for now (empty: it has none), and then its writers.

    ``doubt`` says for users what cannot be told of the rows behind its position; empty: nothing.
    """

    ceiling: str
    writers: frozenset[str]
    doubt: str = ""


class Tables(Protocol):
    """The database. Methods may wait for it, and raise ``Cancelled``; ``interrupt`` may be called by any.

    They leave out tables that have changed so that they cannot be read on, and raise ``OptionError`` when
    that is so of all.
    """

    @property
    def problems(self) -> Mapping[Partition, Exception]:
        """The tables that are left out since the last look, with the reason."""

    def observe(self, positions: Mapping[Partition, str]) -> Mapping[Partition, Observed]:
        """Observes tables that were read up to these positions: all ceilings first, and then the transactions
        that write."""

    def writers(self, tables: Collection[Partition]) -> Mapping[Partition, frozenset[str]]:
        """Returns the transactions that have written into tables and have not ended."""

    def end(self, table: Partition, start: str, ceiling: str, limit: int) -> Bound | None:
        """Returns the end of a batch of at most ``limit`` rows (more if they share one position)."""

    def renew(self) -> None:
        """Lets the next call see tables as a new session does."""

    def interrupt(self) -> None:
        """Ends a statement that runs."""


@dataclass(frozen=True, slots=True)
class _Settling:
    """A ceiling that waits for the end of transactions, since a time in seconds."""

    ceiling: str
    writers: frozenset[str]
    since_s: float


class NewRows(LogEnds):
    """``LogEnds`` of tables.

    All tables are looked at together, once in an interval; those with more rows than a batch are read on
    without another look. ``cut`` is for the thread of ``wait``.
    """

    def __init__(
        self,
        logs: TableLogs,
        tables: Tables,
        interval_ms: int,
        max_rows: int,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        settling_s: float = SETTLING_S,
    ) -> None:
        """``clock`` returns seconds. A batch of a table has ``max_rows`` at most."""
        super().__init__(logs, interval_ms, say, clock)
        self._logs = logs
        self._tables = tables
        self._max_rows = max_rows
        self._settling_s = settling_s
        self._settling: dict[Partition, _Settling] = {}
        self._ceilings: dict[Partition, str] = {}
        self._doubts: dict[Partition, str] = {}
        self._settled_s = 0.0

    def restart(self) -> None:
        """The next ``wait`` looks at all tables: a batch may have failed since one of them has changed."""
        super().restart()
        self._settling.clear()
        self._ceilings.clear()
        self._tables.renew()

    def cut(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
        """Returns ranges that begin in the same place and end with a row: those of planned batches stay."""
        return tuple(self._cut(each) for each in ranges)

    def _look(self, positions: Mapping[Partition, int]) -> float:
        self._observe()
        self._settle()
        self._plan()
        return min(self._due_s, self._settled_s) if self._settling else self._due_s

    def _interrupt(self) -> None:
        self._tables.interrupt()

    def _observe(self) -> None:
        now_s = self._clock()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._interval_s
        idle = [
            each for each in self._logs.units if each not in self._settling.keys() | self._ceilings.keys()
        ]
        if not idle:
            return
        observed = self._tables.observe({table: self._logs[table].position for table in idle})
        self.troubles = {table: str(error) for table, error in self._tables.problems.items()}
        for table, (ceiling, writers, doubt) in observed.items():
            self._doubts[table] = doubt
            if ceiling and ceiling != self._logs[table].position:
                self._settling[table] = _Settling(ceiling, writers, now_s)
                self._settled_s = 0.0

    def _settle(self) -> None:
        now_s = self._clock()
        if self._settling and now_s >= self._settled_s:
            waiting = [table for table, each in self._settling.items() if each.writers]
            there = self._tables.writers(waiting) if waiting else {}
            for table, each in list(self._settling.items()):
                if not each.writers & there.get(table, frozenset()):
                    self._ceilings[table] = each.ceiling
                    del self._settling[table]
            self._settled_s = now_s + self._settling_s
        late = [table for table, each in self._settling.items() if now_s - each.since_s >= _PATIENCE_S]
        self._tell_of(late)

    def _tell_of(self, late: Sequence[Partition]) -> None:
        names = listed([self._logs.units[table] for table in late], 3)
        said = [f"{names}: waiting for the end of transactions that write to it"] if late else []
        self._tell("; ".join([*said, *filter(None, self._doubts.values())]))

    def _plan(self) -> None:
        for table, ceiling in list(self._ceilings.items()):
            log = self._logs[table]
            if log.end == log.next:
                bound = self._tables.end(table, log.position, ceiling, self._max_rows)
                if bound is None:
                    del self._ceilings[table]
                else:
                    log.plan(bound)

    def _cut(self, each: OffsetRange) -> OffsetRange:
        log = self._logs[each.partition]
        if each.end >= log.end:
            return each
        bound = self._tables.end(each.partition, log.position, log.at(log.end), each.size)
        # None: all of its rows have left the range, which is as good as reading them.
        return each._replace(end=log.end if bound is None else min(log.end, log.plan(bound)))
