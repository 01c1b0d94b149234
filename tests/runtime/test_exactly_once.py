"""Batches reach a transactional log exactly once, whichever writers try, and however often."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import (
    BatchTooSlow,
    CheckpointBehind,
    Log,
    LogLost,
    Marker,
    Replaced,
    Row,
    TransactionAborted,
    UnitWriter,
)
from cooperator.connectors.fence import Fenced, claim
from cooperator.model import Epoch
from tests.harness.fake_unit_log import FakeLogs, Fate, Impatient

QUERY = "query-1"


def rows(batch: int, query: str = QUERY) -> list[Row]:
    return [(b"%d" % number, f"{query}/{batch}/{number}".encode()) for number in range(3)]


def writer(logs: FakeLogs, owner: str) -> UnitWriter:
    return UnitWriter(logs, owner, Impatient())


def put(unit: UnitWriter, batch: int, query: str = QUERY) -> int:
    return unit.write(query, batch, lambda: rows(batch, query))


def test_a_new_writer_goes_on_where_the_one_before_ended() -> None:
    logs = FakeLogs()
    first = writer(logs, "a")
    assert first.claim() == Marker("a")
    assert [put(first, 0), put(first, 1)] == [3, 3]
    second = writer(logs, "b")
    assert second.claim() == Marker("b", QUERY, 1)
    assert [put(second, 1), put(second, 2)] == [0, 3]
    assert logs.rows == rows(0) + rows(1) + rows(2)


def test_a_new_checkpoint_counts_from_zero_and_nothing_is_skipped() -> None:
    logs = FakeLogs()
    first = writer(logs, "a")
    first.claim()
    put(first, 0)
    second = writer(logs, "b")
    second.claim()
    assert put(second, 0, "query-2") == 3
    assert logs.rows == rows(0) + rows(0, "query-2")


def test_a_replaced_writer_commits_nothing_more_and_does_not_disturb_its_successor() -> None:
    logs = FakeLogs()
    frozen, successor = writer(logs, "frozen"), writer(logs, "successor")
    frozen.claim()
    put(frozen, 0)
    successor.claim()
    epoch = logs.epoch
    with pytest.raises(Replaced, match="successor writes this unit now"):
        put(frozen, 1)
    assert logs.epoch == epoch, "the replaced writer fenced its successor"
    assert put(successor, 1) == 3


def test_a_writer_that_is_replaced_in_the_middle_of_a_batch_leaves_it_to_its_successor() -> None:
    logs = FakeLogs()
    first, second = writer(logs, "a"), writer(logs, "b")
    first.claim()

    def take_over() -> None:
        second.claim()
        put(second, 0)

    logs.before_commit = take_over
    with pytest.raises(Replaced):
        put(first, 0)
    assert logs.rows == rows(0)


def test_a_writer_that_is_replaced_while_it_claims_gives_up() -> None:
    logs = FakeLogs()
    first, second = writer(logs, "a"), writer(logs, "b")
    logs.before_commit = partial(second.claim)
    with pytest.raises(Replaced, match="b claimed the unit at the same time as a"):
        first.claim()
    assert put(second, 0) == 3


@pytest.mark.parametrize("fate", [Fate.TIMED_OUT, Fate.UNANSWERED, Fate.ABORTED])
def test_a_lost_transaction_is_retried_unless_it_was_committed(fate: Fate) -> None:
    logs = FakeLogs()
    unit = writer(logs, "a")
    unit.claim()
    logs.fates = [fate]
    put(unit, 0)
    put(unit, 1)
    assert logs.rows == rows(0) + rows(1)


def test_a_transaction_that_times_out_is_retried_with_twice_the_time() -> None:
    logs = FakeLogs()
    unit = writer(logs, "a")
    unit.claim()
    logs.fates = [Fate.TIMED_OUT] * 3
    put(unit, 0)
    assert logs.slowdowns == [0, 1, 2, 3]


def test_a_batch_that_never_fits_fails_with_a_reason() -> None:
    logs = FakeLogs()
    unit = writer(logs, "a")
    unit.claim()
    logs.fates = [Fate.TIMED_OUT] * 20
    with pytest.raises(BatchTooSlow, match="batch 0 did not fit"):
        put(unit, 0)


def test_a_wait_ends_when_the_unit_is_cancelled() -> None:
    cancelled = Impatient()
    logs = FakeLogs()
    unit = UnitWriter(logs, "a", cancelled)
    unit.claim()
    logs.fates = [Fate.ABORTED] * 1000
    logs.before_commit = cancelled.set
    with pytest.raises(Cancelled):
        put(unit, 0)
    assert logs.rows == []


def test_a_permanent_failure_is_raised_and_nothing_is_written() -> None:
    logs = FakeLogs()
    unit = writer(logs, "a")
    unit.claim()

    def broken() -> list[Row]:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        unit.write(QUERY, 0, broken)
    assert logs.rows == []


@dataclass
class WokenProcess:
    """The log as a process opens it that was frozen just before."""

    logs: FakeLogs
    meanwhile: Callable[[], object]

    def open(self, slowdown: int) -> Log:
        self.meanwhile()
        return self.logs.open(slowdown)

    def marker(self) -> Marker | None:
        return self.logs.marker()


def test_a_process_that_wakes_before_its_claim_does_not_replace_its_successor(tmp_path: Path) -> None:
    logs = FakeLogs()
    held = claim(tmp_path, Epoch(1, 3), 1, "frozen")
    successor = UnitWriter(logs, "successor", Impatient(), claim(tmp_path, Epoch(1, 4), 1, "successor"))
    with pytest.raises(Fenced, match=r"is held by .*successor"):
        UnitWriter(logs, "frozen", Impatient(), held).claim()

    (tmp_path / "other").mkdir()
    looked = claim(tmp_path / "other", Epoch(1, 3), 1, "frozen")
    with pytest.raises(Replaced, match="successor claimed the unit later than frozen"):
        UnitWriter(WokenProcess(logs, successor.claim), "frozen", Impatient(), looked).claim()
    assert put(successor, 0) == 3


def test_a_writer_whose_unit_is_claimed_by_another_commits_nothing_more(tmp_path: Path) -> None:
    logs = FakeLogs()
    first = UnitWriter(logs, "a", Impatient(), claim(tmp_path, Epoch(2, 1), 1, "a"))
    first.claim()
    put(first, 0)
    claim(tmp_path, Epoch(2, 2), 1, "b")
    with pytest.raises(Fenced):
        put(first, 1)
    assert logs.rows == rows(0)


def test_markers_of_releases_without_claims_and_contents_are_read() -> None:
    marker = Marker.decode(b'{"owner": "a", "query": "q", "batch": 3}')
    assert marker == Marker("a", "q", 3)
    assert marker.covers("q", 3, "1 {}"), "only its number is known"
    with pytest.raises(CheckpointBehind):
        marker.covers("q", 2, "1 {}")


@given(owner=st.text(), query=st.text(), batch=st.integers(-1, 1 << 62), claimed=st.text(), content=st.text())
def test_markers_round_trip(owner: str, query: str, batch: int, claimed: str, content: str) -> None:
    marker = Marker(owner, query, batch, claimed, content)
    assert Marker.decode(marker.encode()) == marker


class Checkpoint:
    """Plans batches of numbers as Spark does: an end for each batch, written before it runs.

    ``planned`` are (time, end) of each batch; the last of them may not be ``done``.
    """

    def __init__(self, planned: tuple[tuple[int, int], ...] = (), done: int = 0) -> None:
        self.planned, self.done = planned, done

    def copy(self) -> "Checkpoint":
        return Checkpoint(self.planned, self.done)

    def run(self, unit: UnitWriter, now: int, end: int, dies: bool) -> None:
        """The batch in flight, or the next one, up to ``end``."""
        if self.done == len(self.planned):
            self.planned += ((now, end),)
        number = len(self.planned) - 1
        start, (time, end) = self.planned[number - 1][1] if number else 0, self.planned[number]
        records = [(None, b"%d" % each) for each in range(start, end)]
        unit.write(QUERY, number, lambda: records, f"{time} {end}")
        if not dies:
            self.done = number + 1


RUNS = st.lists(
    st.tuples(st.sampled_from(["run", "run", "die", "copy", "restore"]), st.integers(0, 3)), max_size=30
)


@given(RUNS, st.booleans())
def test_a_checkpoint_that_is_restored_loses_and_doubles_nothing_in_silence(
    runs: list[tuple[str, int]], looks_at_start: bool
) -> None:
    """``looks_at_start``: as units do; without it the contents of batches alone have to tell."""
    logs = FakeLogs()
    checkpoint, saved, available = Checkpoint(), Checkpoint(), 0
    for now, (what, more) in enumerate(runs):
        available += more
        if what == "copy":
            saved = checkpoint.copy()
        elif what == "restore":
            checkpoint = saved.copy()
        else:
            unit = writer(logs, f"{now}")
            try:
                found = unit.claim()
                if looks_at_start:
                    found.refuse_behind(QUERY, len(checkpoint.planned) - 1)
                checkpoint.run(unit, now, available, what == "die")
            except CheckpointBehind:
                return
            written = [int(record[1] or b"") for record in logs.rows]
            assert written == list(range(checkpoint.planned[-1][1]))


STEP = st.tuples(st.integers(0, 3), st.booleans())
FATES = st.lists(st.sampled_from(list(Fate)), max_size=30)


@given(steps=st.lists(STEP, max_size=40), fates=FATES, meanwhile=st.lists(st.integers(0, 3), max_size=5))
def test_with_any_writers_and_failures_every_batch_is_there_once(
    steps: list[tuple[int, bool]], fates: list[Fate], meanwhile: list[int]
) -> None:
    """Up to four writers share one checkpoint (``done`` has the batches that Spark has recorded). Each starts
    at its first step, some restart, and others start during a transaction."""
    logs = FakeLogs(fates=fates)
    writers: dict[int, UnitWriter] = {}
    starts = Counter[int]()
    recorded = 0

    def start(number: int) -> None:
        starts[number] += 1
        writers[number] = writer(logs, f"{number}/{starts[number]}")
        try:
            writers[number].claim()
        except (Replaced, LogLost, TransactionAborted):
            del writers[number]

    for number, again in steps:
        if again or number not in writers:
            start(number)
        if number not in writers:
            continue
        if meanwhile:
            other = meanwhile.pop()
            logs.before_commit = partial(start, other) if other != number else None
        try:
            put(writers[number], recorded)
        except Replaced:
            writers.pop(number, None)
        except BatchTooSlow:
            continue
        else:
            recorded += 1
    counted = Counter(value for _, value in logs.rows)
    assert all(times == 1 for times in counted.values()), counted
    for batch in range(recorded):
        assert all(counted[value or b""] == 1 for _, value in rows(batch))
