"""Offsets of files are changed as attempts write: whoever ran before writes nothing more."""

import threading
from pathlib import Path

import pytest

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.intents.moves import move, positions
from cooperator.connectors.intents.stores import LocalStore
from cooperator.connectors.microbatch.batches import Stand
from cooperator.connectors.microbatch.ranges import OffsetRange
from tests.intents.lines import A, B, Writer, offsets


def moved(root: Path, **to: int | None) -> None:
    store = LocalStore(root)
    move(store, {f"orders-{name[-1]}": offset for name, offset in to.items()}, threading.Event())


def test_a_unit_goes_on_where_it_was_moved_and_forgets_nothing_that_is_written(tmp_path: Path) -> None:
    before = Writer(tmp_path, 5)
    before.begin()
    before.run(OffsetRange(A, 0, 8), OffsetRange(B, 0, 3))
    moved(tmp_path, u0=5, u1=None)
    assert positions(before.store, ["orders-0", "orders-1", "orders-2"]) == {"orders-0": Stand(5)}
    with pytest.raises(Replaced, match="altered or reset"):
        before.units.recover()
    again = Writer(tmp_path, 1)  # epochs have begun anew
    assert again.begin() == {A: 5}
    again.run(OffsetRange(A, 5, 8))
    assert offsets(tmp_path, A) == [0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7], "records read again appear again"
    assert offsets(tmp_path, B) == [0, 1, 2]


def test_an_attempt_that_runs_unseen_writes_nothing_after_a_move(tmp_path: Path) -> None:
    unseen = Writer(tmp_path, 5)
    unseen.begin()
    unseen.run(OffsetRange(A, 0, 8))
    moved(tmp_path, u0=2)
    [failure] = unseen.run(OffsetRange(A, 8, 12)).failures
    assert "its offsets were altered or reset" in failure.error
    assert offsets(tmp_path, A) == list(range(8))


def test_a_move_finishes_a_cut_that_was_begun(tmp_path: Path) -> None:
    dead = Writer(tmp_path, 5, [A])
    dead.begin()
    dead.store.publish = lambda file: None
    dead.run(OffsetRange(A, 0, 4))
    assert offsets(tmp_path, A) == []
    moved(tmp_path, u0=9)
    assert offsets(tmp_path, A) == [0, 1, 2, 3]
    assert Writer(tmp_path, 6, [A]).begin() == {A: 9}


def test_a_move_without_spark_leaves_the_cut_to_the_next_attempt(tmp_path: Path) -> None:
    dead = Writer(tmp_path, 5, [A])
    dead.begin()
    dead.store.publish = lambda file: None
    dead.run(OffsetRange(A, 0, 4))
    for _ in range(2):
        move(LocalStore(tmp_path), {str(A): 9}, threading.Event(), publishes=False)
    assert offsets(tmp_path, A) == []
    assert Writer(tmp_path, 6, [A]).begin() == {A: 9}
    assert offsets(tmp_path, A) == [0, 1, 2, 3]


def test_a_unit_is_on_another_line_where_its_position_has_jumped(tmp_path: Path) -> None:
    writer = Writer(tmp_path, 5, [A])
    writer.begin()
    lines = []
    for start, end in ((0, 0), (0, 4), (4, 6), (9, 9), (9, 12)):
        writer.run(OffsetRange(A, start, end))
        lines.append(writer.units.line(A))
    assert lines[0] == lines[1] == lines[2] != lines[3] == lines[4]
    again = Writer(tmp_path, 6, [A])
    again.begin()
    assert again.units.line(A) == lines[4], "an attempt goes on with its predecessor's"
    moved(tmp_path, u0=12)
    after = Writer(tmp_path, 7, [A])
    after.begin()
    assert after.units.line(A) not in ("", *lines)


def test_a_unit_that_was_never_read_can_be_given_an_offset(tmp_path: Path) -> None:
    moved(tmp_path, u0=7)
    moved(tmp_path, u0=7)
    assert Writer(tmp_path, 0, [A]).begin() == {A: 7}
