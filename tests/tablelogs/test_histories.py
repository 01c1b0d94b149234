"""Every row of every table arrives once and in order, whatever happens to transactions and attempts."""

from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.microbatch.batches import FailureKind, Stand
from cooperator.connectors.microbatch.ranges import Limits, Partition
from tests.microbatch.log_fakes import fate_of, fates_of_slots
from tests.tablelogs.histories import UNITS, Database, Sink, attempt

FATES = fates_of_slots(20)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(sorted(UNITS))),
        st.tuples(st.just("insert"), st.integers(0, 5), st.integers(1, 6)),
        st.tuples(st.just("end"), st.integers(0, 5), st.booleans()),
        st.none(),
    ),
    max_size=40,
)
RUNS = st.lists(st.tuples(CHANGES, CHANGES, FATES, st.integers(1, 5), st.integers(1, 9)), max_size=5)


def carry_out(database: Database, change: object) -> None:
    match change:
        case "begin", Partition() as table:
            database.begin(table)
        case "insert", int(which), int(rows):
            database.insert(which, rows)
        case "end", int(which), bool(commits):
            database.end(which, commits)


def happening(database: Database, changes: Iterator[object]) -> Callable[[], None]:
    return lambda: carry_out(database, next(changes, None))


@given(RUNS)
def test_every_committed_row_arrives_once_and_in_order(
    runs: list[tuple[list[object], list[object], list[object], int, int]],
) -> None:
    sink, database = Sink(), Database()
    for before, meanwhile, fates, max_rows, per_task in runs:
        for change in before:
            carry_out(database, change)
        happens = happening(database, iter(meanwhile))
        attempt(sink, database, happens, fate_of(iter(fates)), max_rows, Limits(max_rows, per_task))
    while database.writing:
        database.end(0, commits=True)
    attempt(sink, database)
    for table, rows in database.visible.items():
        assert sink.rows[table] == sorted(rows)
    arrived = {table: list(rows) for table, rows in sink.rows.items()}
    attempt(sink, database)
    assert sink.rows == arrived, "nothing is read twice"


def filled(tables: int, rows: int) -> Database:
    database = Database()
    for table in list(UNITS)[:tables]:
        database.begin(table)
        for _ in range(rows):
            database.insert(0, 1)
        database.end(0, commits=True)
    return database


def test_positions_of_earlier_releases_are_gone_on_with() -> None:
    first, second, _ = UNITS
    database = filled(2, 10)
    sink = Sink(earlier={UNITS[first]: Stand(0, "4"), UNITS[second]: Stand(0, "20")})
    attempt(sink, database)
    assert [position for position, _ in sink.rows[first]] == [5, 6, 7, 8, 9, 10]
    assert sink.rows[second] == []
    attempt(sink, database)
    assert len(sink.rows[first]) == 6


def test_a_transaction_that_stays_open_holds_up_its_own_table_only() -> None:
    first, second, _ = UNITS
    database = filled(2, 3)
    database.begin(first)
    database.insert(0, 1)
    sink = Sink()
    attempt(sink, database)
    assert (len(sink.rows[first]), len(sink.rows[second])) == (0, 3)
    database.end(0, commits=True)
    attempt(sink, database)
    assert len(sink.rows[first]) == 4


def test_rows_that_leave_a_planned_batch_do_not_stop_the_loop() -> None:
    """A row that is changed gets another timestamp, and one that is deleted is gone."""
    first = next(iter(UNITS))
    database = filled(1, 9)

    def leave() -> tuple[FailureKind | None, bool]:
        database.visible[first] = [(20, number) for _, number in database.visible[first][:3]]
        return FailureKind.RETRIABLE, False

    fates = iter([lambda: (None, True), leave])
    sink = Sink()
    attempt(sink, database, fate=lambda: next(fates, lambda: (None, True))(), limits=Limits(4, 2))
    assert sink.rows[first] == database.visible[first]
    assert sink.stands[first] == Stand(sink.stands[first].next, "20")
