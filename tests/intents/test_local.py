"""Files of a local directory appear once, whole, and under names that tell where their rows are from."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.csv
import pyarrow.dataset
import pytest

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.intents.batches import FileBatches
from cooperator.connectors.intents.machine import KEPT
from cooperator.connectors.intents.stores import LocalStore
from cooperator.connectors.intents.values import Intent, Session, UnreadableIntent
from cooperator.connectors.microbatch.batches import FailureKind, OpenFailed, Outcome, Stand
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.model import Epoch
from tests.intents.lines import A, B, Writer, offsets, visible


def test_a_batch_becomes_one_file_of_each_unit_that_plain_readers_find(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 7)
    assert writer.begin() == {}
    assert writer.run(OffsetRange(A, 40, 40), OffsetRange(B, 0, 0)).failures == []
    assert writer.run(OffsetRange(A, 40, 43), OffsetRange(B, 0, 1)).rows == 4
    [first, second] = visible(tmp_path)
    assert first.startswith("orders+0+00000000000000000040.1-7-1-")
    assert second.startswith("orders+1+00000000000000000000.1-7-1-")
    assert offsets(tmp_path, A) == [40, 41, 42]
    columns = pyarrow.csv.ReadOptions(column_names=["unit", "n"])
    plain = pyarrow.dataset.CsvFileFormat(read_options=columns)
    assert pyarrow.dataset.dataset(tmp_path, format=plain).to_table().num_rows == 4
    again = Writer(tmp_path, 8)
    assert again.begin() == {A: 43, B: 1}
    assert again.owned.positions[A] == Stand(43, "id")


def test_a_unit_keeps_a_few_intents(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1)
    writer.begin()
    for n in range(10):
        assert writer.run(OffsetRange(A, n, n + 1)).failures == []
    assert len(writer.store.numbers(str(A))) == KEPT
    assert Writer(tmp_path, 2).begin() == {A: 10}
    assert offsets(tmp_path, A) == list(range(10))


def test_an_older_attempt_is_refused_and_its_files_do_not_appear(tmp_path: Path) -> None:
    older, newer = Writer(tmp_path, 1), Writer(tmp_path, 2)
    older.begin()
    assert older.run(OffsetRange(A, 0, 5)).rows == 5
    assert newer.begin() == {A: 5}
    refused = older.run(OffsetRange(A, 5, 9), OffsetRange(B, 0, 2))
    assert "owned by attempt 1-2-1-m-0" in refused.failures[0].error
    with pytest.raises(Replaced, match="newer than this one"):
        older.units.recover()
    assert newer.run(OffsetRange(A, 5, 7)).rows == 2
    assert offsets(tmp_path, A) == list(range(7))
    assert offsets(tmp_path, B) == []
    with pytest.raises(Replaced):
        Writer(tmp_path, 1).begin()


class Dies(Exception):
    """The process ends."""


def dying(store: LocalStore, method: str, calls: int = 1, *, after: bool = False) -> None:
    """The process ends at a call of the store: before it, or after it."""
    real: Callable[..., object] = getattr(store, method)
    left = [calls]

    def call(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise Dies
        answer = real(*arguments)
        if left[0] == 0:
            raise Dies
        return answer

    setattr(store, method, call)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["create", "newest_number", "publish", "remove", "stage", "drop_batch"])
def test_a_successor_finishes_what_a_dead_attempt_has_begun(tmp_path: Path, step: str, after: bool) -> None:
    dead = Writer(tmp_path, 1, [A])
    dead.begin()
    dead.run(OffsetRange(A, 0, 3))
    dying(dead.store, step, after=after)
    try:
        dead.run(OffsetRange(A, 3, 8))
    except Dies:
        assert step in ("stage", "drop_batch")
    successor = Writer(tmp_path, 2, [A])
    at = successor.begin()[A]
    is_committed = step in ("newest_number", "publish", "remove") or (step == "create" and after)
    assert at == (8 if is_committed else 3)
    assert offsets(tmp_path, A) == list(range(at))
    successor.run(OffsetRange(A, at, 10))
    assert offsets(tmp_path, A) == list(range(10))
    assert not list(tmp_path.rglob("*.staged")), "staged files of the dead attempt are gone"


def test_a_woken_attempt_does_not_publish_a_file_that_a_user_has_compacted(tmp_path: Path) -> None:
    zombie = Writer(tmp_path, 1, [A])
    zombie.begin()
    frozen, woken = threading.Event(), threading.Event()
    publish = zombie.store.publish

    def wait(*arguments: object) -> None:
        frozen.set()
        assert woken.wait(30)
        publish(*arguments)

    zombie.store.publish = wait
    thread = threading.Thread(target=zombie.run, args=[OffsetRange(A, 0, 4)])
    thread.start()
    assert frozen.wait(30)
    assert visible(tmp_path) == {}
    successor = Writer(tmp_path, 2, [A])
    assert successor.begin() == {A: 4}
    [name] = visible(tmp_path)
    (tmp_path / name).rename(tmp_path / "compacted.csv")
    woken.set()
    thread.join(30)
    assert list(visible(tmp_path)) == ["compacted.csv"]
    assert successor.run(OffsetRange(A, 4, 6)).rows == 2
    assert offsets(tmp_path, A) == list(range(6))


def test_a_number_that_became_free_is_void(tmp_path: Path) -> None:
    zombie = Writer(tmp_path, 1, [A])
    zombie.begin()
    frozen, woken = threading.Event(), threading.Event()
    create = zombie.store.create

    def wait(*arguments: object) -> bool:
        frozen.set()
        assert woken.wait(30)
        return create(*arguments)

    zombie.store.create = wait
    found: list[Outcome] = []
    thread = threading.Thread(target=lambda: found.append(zombie.run(OffsetRange(A, 0, 4))))
    thread.start()
    assert frozen.wait(30)
    successor = Writer(tmp_path, 2, [A])
    successor.begin()
    for n in range(KEPT + 2):
        successor.run(OffsetRange(A, n, n + 1))
    assert min(successor.store.numbers(str(A))) > 2, "the number that it wants is free"
    woken.set()
    thread.join(30)
    assert "newer than this one" in found[0].failures[0].error
    assert offsets(tmp_path, A) == list(range(KEPT + 2))


def test_a_reader_that_was_frozen_does_not_take_a_void_intent_for_the_newest(tmp_path: Path) -> None:
    """While it is frozen, the number that it has found is removed, and taken by a woken attempt."""
    writer = Writer(tmp_path, 2, [A])
    writer.begin()
    writer.run(OffsetRange(A, 0, 1))
    void = Intent(Session(Claim(Epoch(1, 1), 1, "m-0"), 1), 0, 9)

    class Frozen(LocalStore):
        slept = False

        def read(self, unit: str, number: int) -> Intent | None:
            if not self.slept:
                self.slept = True
                for n in range(1, KEPT + 2):
                    writer.run(OffsetRange(A, n, n + 1))
                assert writer.store.create(unit, number, void)
            return super().read(unit, number)

    number, intent = Frozen(tmp_path).newest(str(A))
    assert (number, intent.next) == (writer.store.newest_number(str(A)), KEPT + 2)


def test_rows_of_one_cut_may_be_in_several_directories(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1, [A])
    writer.stager.days = ("day=1", "day=2")
    writer.begin()
    assert writer.run(OffsetRange(A, 0, 4)).rows == 4
    assert [name.partition("/")[0] for name in visible(tmp_path)] == ["day=1", "day=2"]
    (tmp_path / "day=1").rename(tmp_path / "moved")
    assert writer.run(OffsetRange(A, 4, 8)).rows == 4
    assert offsets(tmp_path, A) == list(range(8))


@pytest.mark.parametrize("kind", [FailureKind.DATA_LOSS, FailureKind.RETRIABLE])
def test_a_batch_that_cannot_be_staged_is_told_and_leaves_nothing(tmp_path: Path, kind: FailureKind) -> None:
    writer = Writer(tmp_path, 1)
    writer.begin()
    writer.stager.kind = kind
    [failure] = writer.run(OffsetRange(A, 0, 4)).failures
    assert (failure.kind, failure.error) == (kind, "no space")
    assert not list(tmp_path.rglob("*.staged"))
    writer.stager.kind = None
    writer.owned = writer.units.recover()
    assert writer.run(OffsetRange(A, 0, 4)).rows == 4
    assert offsets(tmp_path, A) == list(range(4))


def test_a_batch_of_a_session_that_is_over_writes_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1)
    writer.begin()
    before = writer.owned
    writer.units.recover()
    writer.owned = before
    assert "is over" in writer.run(OffsetRange(A, 0, 4)).failures[0].error
    assert visible(tmp_path) == {}


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OpenFailed, match=r"the directory cannot be used.*out") as told:
        Writer(tmp_path / "out", 1).begin()
    assert told.value.kind is FailureKind.FAILED


def test_a_task_that_is_stopped_begins_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1)
    writer.stopped.set()
    with pytest.raises(Cancelled):
        writer.begin()
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_is_stopped_in_mid_cut_makes_it_visible(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 1, [A])
    writer.begin()
    create = writer.store.create

    def stop(*arguments: object) -> bool:
        writer.stopped.set()
        return create(*arguments)

    writer.store.create = stop
    writer.run(OffsetRange(A, 0, 4))
    assert offsets(tmp_path, A) == list(range(4))
    assert "Cancelled" in writer.run(OffsetRange(A, 4, 6)).failures[0].error
    assert offsets(tmp_path, A) == list(range(4))


def test_bytes_of_cuts_are_told_for_the_rotation(tmp_path: Path) -> None:
    told: list[tuple[Partition, int, int]] = []
    writer = Writer(tmp_path, 1)
    writer.batches = FileBatches(writer.units, writer.stager, lambda *cut: told.append(cut))
    writer.begin()
    writer.run(OffsetRange(A, 0, 4), OffsetRange(B, 5, 6))
    assert told == [(A, 4, 4 * len("orders-0,0\n")), (B, 1, len("orders-1,5\n"))]


def test_an_intent_of_a_later_release_is_refused_with_the_remedy() -> None:
    intent = Intent(Session(Claim(Epoch(1, 2), 3, "m"), 1), None, 4)
    assert Intent.decode(intent.encode(), "x") == intent
    later: Mapping[bytes, str] = {b'{"version":9}': "version 9.*later one", b"{": "no intent.*reset or alter"}
    for content, message in later.items():
        with pytest.raises(UnreadableIntent, match=message):
            Intent.decode(content, "x")
