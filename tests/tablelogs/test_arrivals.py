"""Looks at a task's tables: their number, and the report while a transaction holds one up."""

from collections.abc import Collection, Mapping

from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.tablelogs.arrivals import NewRows, Observed
from cooperator.connectors.tablelogs.table_log import Bound, TableLogs

ORDERS, SALES = Partition("orders", 0), Partition("sales", 0)


class CountingTables:
    """Tables with numbers from 1 to an end, which notes what it is asked."""

    def __init__(self, ends: Mapping[Partition, int]) -> None:
        self.ends = dict(ends)
        self.writing: dict[Partition, frozenset[str]] = {}
        self.asked: list[str] = []

    problems: Mapping[Partition, Exception] = {}

    def observe(self, tables: Mapping[Partition, str]) -> Mapping[Partition, Observed]:
        self.asked.append("observe")
        return {
            table: Observed(
                str(self.ends[table]) if self.ends[table] else "", self.writing.get(table, frozenset())
            )
            for table in tables
        }

    def writers(self, tables: Collection[Partition]) -> Mapping[Partition, frozenset[str]]:
        self.asked.append("writers")
        return {table: self.writing.get(table, frozenset()) for table in tables}

    def end(self, table: Partition, start: str, ceiling: str, limit: int) -> Bound | None:
        self.asked.append("end")
        first = int(start or "0")
        rows = min(limit, int(ceiling) - first)
        return Bound(str(first + rows), rows) if rows > 0 else None

    def renew(self) -> None: ...

    def interrupt(self) -> None: ...


class Clocked(NewRows):
    """Pauses take no time, and end ``wait`` after ``until_s``."""

    def __init__(self, tables: CountingTables, until_s: float, max_rows: int = 10) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.logs = TableLogs({ORDERS: "public.orders", SALES: "public.sales"})
        super().__init__(self.logs, tables, 5_000, max_rows, self.said.append, lambda: self.now_s)
        self._until_s = until_s

    def pause(self, wait_s: float) -> None:
        self.now_s += max(wait_s, 0.001)
        if self.now_s >= self._until_s:
            self.close()


def test_idle_tables_cost_one_look_in_an_interval() -> None:
    tables = CountingTables({ORDERS: 0, SALES: 7})
    rows = Clocked(tables, until_s=52)
    rows.logs[SALES].begin(7, "7")
    assert rows.wait({ORDERS: 0, SALES: 7}) == {}
    assert tables.asked == ["observe"] * 11


def test_a_backlog_is_read_on_without_another_look() -> None:
    tables = CountingTables({ORDERS: 35, SALES: 0})
    rows = Clocked(tables, until_s=4)
    position, sizes = 0, []
    while ends := rows.wait({ORDERS: position, SALES: 0}):
        sizes.append(ends[ORDERS] - position)
        position = ends[ORDERS]
    assert sizes == [10, 10, 10, 5]
    assert tables.asked == ["observe", *["end"] * 5]


def test_a_smaller_batch_ends_with_a_row_and_the_rest_is_planned_anew() -> None:
    tables = CountingTables({ORDERS: 35, SALES: 0})
    rows = Clocked(tables, until_s=4)
    assert rows.wait({ORDERS: 0, SALES: 0})[ORDERS] == 10
    assert rows.cut([OffsetRange(ORDERS, 0, 10)]) == (OffsetRange(ORDERS, 0, 10),)
    assert rows.cut([OffsetRange(ORDERS, 0, 4)]) == (OffsetRange(ORDERS, 0, 4),)
    assert rows.logs[ORDERS].at(4) == "4"
    assert rows.wait({ORDERS: 4, SALES: 0})[ORDERS] == 14


def test_transactions_that_stay_open_are_told_and_hold_up_their_table_alone() -> None:
    tables = CountingTables({ORDERS: 3, SALES: 2})
    tables.writing[ORDERS] = frozenset({"3/7"})
    rows = Clocked(tables, until_s=11)
    assert rows.wait({ORDERS: 0, SALES: 0}) == {ORDERS: 0, SALES: 2}
    assert rows.wait({ORDERS: 0, SALES: 2}) == {}
    assert rows.said == ["public.orders: waiting for the end of transactions that write to it"]
    after = Clocked(tables, until_s=30)
    after._said = rows.said[0]
    tables.writing[ORDERS] = frozenset({"4/1"})
    assert after.wait({ORDERS: 0, SALES: 0})[SALES] == 2
    tables.writing[ORDERS] = frozenset({"9/9"})
    assert after.wait({ORDERS: 0, SALES: 2})[ORDERS] == 3, "later transactions are not waited for"
    assert after.said[-1] == ""
