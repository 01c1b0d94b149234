"""A unit whose position is with its sink loses and doubles nothing, whatever happens to checkpoints."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors import source_log
from cooperator.connectors.exactly_once import CheckpointBehind, Marker, Replaced, UnitWriter
from cooperator.connectors.files_source import BucketOptions
from cooperator.connectors.microbatch.earlier import ClosedClaim
from cooperator.connectors.offsets import OffsetsError
from cooperator.connectors.options import OptionError, parse
from cooperator.connectors.tablelogs.earlier import told
from cooperator.connectors.unit_position import (
    Begun,
    CheckpointUse,
    check_fixed,
    decide,
    fixed_options,
    move,
    told_position,
)
from tests.harness.fake_unit_log import FakeLogs, Fate, Impatient
from tests.runtime.position_histories import MACHINES, REFUSALS, Files, History, Source, Table

SOURCES: dict[str, Callable[[FakeLogs], Source]] = {"table": lambda logs: Table(), "files": Files}
MACHINE = st.sampled_from(MACHINES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("more"), st.integers(1, 5)),
        st.tuples(st.just("run"), MACHINE, st.integers(1, 6)),
        st.tuples(st.just("die"), MACHINE, st.integers(1, 14)),
        st.tuples(st.sampled_from(["lose", "copy", "restore", "freeze"]), MACHINE),
        st.tuples(st.just("alter"), MACHINE, st.integers(0, 8)),
        st.tuples(st.sampled_from(["wake"])),
    ),
    max_size=25,
)
FATES = st.lists(st.sampled_from([*Fate, Fate.COMMITTED]), max_size=20)


@pytest.fixture(params=SOURCES)
def make(request: pytest.FixtureRequest) -> Callable[[FakeLogs], Source]:
    return SOURCES[request.param]


@pytest.fixture
def history(tmp_path: Path, make: Callable[[FakeLogs], Source]) -> History:
    return History(tmp_path, make)


def carried_out(history: History, steps: list[tuple[object, ...]]) -> Iterator[str]:
    """Yields what was refused, and by whom."""
    for what, *arguments in steps:
        do = {"die": history.run}.get(str(what)) or getattr(history, str(what))
        if what == "alter":
            arguments[1] = min(int(str(arguments[1])), history.source.available)
        if what == "run":
            arguments = [arguments[0], None, arguments[1]]
        try:
            do(*arguments)
        except REFUSALS as error:
            yield f"{what}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("source", SOURCES)
@given(steps=STEPS, fates=FATES, shared=st.booleans())
def test_no_history_of_checkpoints_loses_or_doubles_anything(
    source: str, steps: list[tuple[object, ...]], fates: list[Fate], shared: bool
) -> None:
    """On two machines with checkpoints of their own, or with shared ones."""
    with TemporaryDirectory() as root:
        history = History(Path(root), SOURCES[source], FakeLogs(fates=fates), shared=shared)
        for refused in carried_out(history, steps):
            # One that wakes was replaced, and a claim or a change may fail if the log does.
            assert any(each in refused for each in ("wake", "LogLost", "TransactionAborted")), refused
        history.logs.fates.clear()
        history.ends()


def test_a_lost_checkpoint_is_rebuilt_and_the_unit_goes_on(history: History) -> None:
    history.more(7)
    history.run("a", batches=2)
    history.lose("a")
    history.run("a", batches=1)
    assert len(history.read) == 6, "it begins where the sink ends"
    history.ends()


def test_an_older_copy_is_replaced_and_the_unit_goes_on(history: History) -> None:
    history.more(2)
    history.run("a")
    history.copy("a")
    history.more(6)
    history.run("a", batches=2)
    history.restore("a")
    history.run("a")
    assert len(history.read) == 8
    history.ends()


def test_a_unit_that_moves_between_machines_and_back_needs_no_shared_checkpoint(history: History) -> None:
    history.more(20)
    for machine in ("a", "b", "a", "b", "a"):
        history.run(machine, dies_at=9, batches=5)
    history.ends()


def test_a_reset_begins_anew_also_where_no_checkpoint_is_left(history: History) -> None:
    history.more(5)
    history.run("a", batches=3)
    assert len(history.read) == 5
    history.lose("a")
    history.alter("b", 0)
    history.run("a", batches=1)
    assert history.read == {0, 1}
    history.ends()


def test_a_change_counts_although_the_checkpoint_has_a_batch_in_flight(history: History) -> None:
    history.more(9)
    history.run("a", batches=2)
    history.freeze("a")
    history.alter("a", 7)
    with pytest.raises(REFUSALS):
        history.wake()
    history.run("a", batches=1)
    assert history.read == set(range(9))


def test_a_change_of_a_position_that_has_moved_meanwhile_is_refused(history: History) -> None:
    history.more(6)
    history.run("a")
    seen = history.logs.marker() or Marker("")
    history.run("a")
    offsets = UnitWriter(history.logs, "offsets", Impatient())
    with pytest.raises(Replaced, match="has written batch 1 of the unit meanwhile"):
        move(offsets, seen, history.checkpoint("a"), history.source.stated(1))
    history.ends()


def test_the_checkpoint_of_an_earlier_release_is_taken_over(history: History) -> None:
    history.more(6)
    history.run_as_before("a")
    history.run_as_before("a", finishes=False)
    history.run("a", batches=1)
    history.lose("a")
    history.ends()


def test_a_change_by_an_earlier_release_is_taken_over(history: History) -> None:
    history.more(9)
    history.run("a", batches=2)
    history.source.alter_as_before(history.checkpoint("a"), 7)
    history.read |= set(range(7))
    history.run("a", batches=1)
    assert history.read == set(range(9))
    history.lose("a")
    history.ends()


def test_a_checkpoint_of_an_earlier_release_that_is_lost_is_refused_until_offsets_are_set(
    history: History,
) -> None:
    """Markers of then do not tell whether it was lost or reset, nor which files were read."""
    history.more(5)
    history.run_as_before("a")
    history.lose("a")
    for _ in range(2):
        with pytest.raises(CheckpointBehind, match=r"was lost, or restored.*reset its offsets, alter them"):
            history.run("a")
    history.alter("a", 2)
    history.ends()


def test_positions_of_an_earlier_release_whose_checkpoint_is_lost_are_not_taken_for_none(
    tmp_path: Path,
) -> None:
    with pytest.raises(OffsetsError, match=r"unit orders: the sink has batch 3 .* has no batch"):
        told("orders", Marker("a", "q", 3), tmp_path)
    at_7 = '{"incrementing": 7}'
    assert told("orders", Marker("a", "q", 3, position=at_7), tmp_path) == at_7


def take_over(history: History, machine: str) -> str:
    """Closes the unit for all attempts, as a start of the class without checkpoints does; returns its
    position."""
    writer = UnitWriter(history.logs, "nobody", Impatient(), ClosedClaim())
    found = writer.claim()
    return told_position(writer, found, history.checkpoint(machine), history.source.kept)


@pytest.mark.parametrize("source", SOURCES)
@given(steps=STEPS, fates=FATES, shared=st.booleans(), machine=MACHINE)
def test_positions_that_are_taken_over_are_those_of_the_sink_and_no_attempt_writes_after_it(
    source: str, steps: list[tuple[object, ...]], fates: list[Fate], shared: bool, machine: str
) -> None:
    with TemporaryDirectory() as root:
        history = History(Path(root), SOURCES[source], FakeLogs(fates=fates), shared=shared)
        list(carried_out(history, steps))
        history.logs.fates.clear()
        history.freeze(machine)
        until = history.source.read_until
        assert until(take_over(history, machine)) == history.read
        assert until(take_over(history, "b")) == history.read, "it may be repeated"
        written = len(history.logs.rows)
        for attempt in (history.wake, lambda: history.run("a"), lambda: history.run("b")):
            with suppress(*REFUSALS):
                attempt()
        assert len(history.logs.rows) == written


@pytest.mark.parametrize("finishes", [True, False])
def test_the_checkpoint_of_an_earlier_release_is_taken_over_once(history: History, finishes: bool) -> None:
    history.more(6)
    history.run_as_before("a")
    history.run_as_before("a", finishes=finishes)
    until = history.source.read_until
    assert until(take_over(history, "a")) == history.read
    history.lose("a")
    assert until(take_over(history, "a")) == history.read
    with pytest.raises(REFUSALS):
        history.run("a")


def test_an_earlier_release_goes_on_with_a_rebuilt_checkpoint_and_back(history: History) -> None:
    history.more(12)
    history.run("a", batches=2)
    history.lose("a")
    history.run("a")
    history.run_as_before("a")
    history.run("a")
    history.lose("a")
    history.ends()


def test_a_checkpoint_that_is_lost_in_part_is_rebuilt(tmp_path: Path) -> None:
    history = History(tmp_path, Files)
    for _ in range(3):
        history.more(4)
        history.run("a", batches=2)
        newest = max(
            (history.checkpoint("a") / "sources" / "0").iterdir(), key=lambda each: each.stat().st_mtime
        )
        newest.unlink()
    history.ends()


def test_names_that_are_missing_in_the_sink_are_noticed(tmp_path: Path) -> None:
    history = History(tmp_path, Files)
    history.more(6)
    history.run("a", batches=3)
    history.lose("a")
    history.logs.rows[:] = [row for row in history.logs.rows if b"/1." not in (row[0] or b"")]
    with pytest.raises(OffsetsError, match=r"has the names of 4 of the 6 files .*reset or alter"):
        history.run("a")


def test_files_of_some_batches_are_found_in_the_log_that_has_all(tmp_path: Path) -> None:
    def entry(*batches: int) -> str:
        lines = [json.dumps({"path": f"file:///{n}", "timestamp": n, "batchId": n}) for n in batches]
        return "\n".join(["v1", *lines])

    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    (log / "9.compact").write_text(entry(*range(10)))
    (log / "10").write_text(entry(10))
    (log / "11").write_text(entry(11))
    for after, last in ((-1, 11), (3, 3), (3, 5), (0, 1), (8, 10), (10, 11)):
        found = source_log.files_between(tmp_path, after, last)
        assert [file.modified_ms for file in found] == list(range(after + 1, last + 1))
    assert [source_log.is_whole(tmp_path, last) for last in (8, 11, 12)] == [True, True, False]
    (log / "10").unlink()
    assert not source_log.is_whole(tmp_path, 8)
    with pytest.raises(OffsetsError, match="10 is missing"):
        source_log.files_between(tmp_path, 9, 11)


def reading(**changed: str) -> BucketOptions:
    config = {"connector.class": "files", "path": "/in", "bootstrap.servers": "b:1", **changed}
    return parse(BucketOptions, config, running=True)


def test_a_fixed_option_cannot_change_while_the_sink_has_a_position() -> None:
    marker = Marker("a", "q", 1, position="", fixed=fixed_options(reading()))
    assert "/in" not in marker.fixed
    check_fixed(marker, reading(**{"message.max.bytes": "2000"}))
    with pytest.raises(OptionError, match=r"'path' = '/other': is fixed.*reset its offsets"):
        check_fixed(marker, reading(path="/other"))
    check_fixed(replace(marker, fixed=""), reading(path="/other"))
    check_fixed(replace(marker, position=None), reading(path="/other"))


AT_7 = Marker("a", "q", 7, "1", "0 end", "end")


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (Begun("q", 7, 7, "0 end"), CheckpointUse.KEEP),
        (Begun("q", 6, 7, "0 end"), CheckpointUse.KEEP),
        (Begun("q", 7, 8, "0 end"), CheckpointUse.KEEP),
        (Begun("q", 7, 7, "0 other"), CheckpointUse.TAKE_OVER),
        (Begun("q", 6, 7, "0 other"), CheckpointUse.REBUILD),
        (Begun("q", 6, 6), CheckpointUse.REBUILD),
        (Begun("q", 8, 8, "0 end"), CheckpointUse.REBUILD),
        (Begun("q", 6, 8, "0 end"), CheckpointUse.REBUILD),
        (Begun("q", 7, 9, "0 end"), CheckpointUse.REBUILD),
        (Begun("other", 7, 7, "0 end"), CheckpointUse.REBUILD),
        (Begun("q", 7, 7, "0 end", is_whole=False), CheckpointUse.REBUILD),
        (Begun(), CheckpointUse.REBUILD),
    ],
)
def test_the_checkpoint_is_kept_if_it_says_what_the_sink_says(found: Begun, step: CheckpointUse) -> None:
    assert decide(AT_7, found) is step
