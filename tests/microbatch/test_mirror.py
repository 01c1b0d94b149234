"""Positions are mirrored when they move, and refreshed before brokers forget them."""

from concurrent.futures import Future
from typing import Any

from cooperator.connectors.microbatch.mirror import Mirror
from cooperator.connectors.microbatch.ranges import Partition

A = Partition("a", 0)


class Writes:
    def __init__(self) -> None:
        self.answers: list[Future[Any]] = []
        self.positions: list[dict[Partition, int]] = []

    def __call__(self, positions: Any) -> Future[Any]:
        self.positions.append(dict(positions))
        self.answers.append(Future())
        return self.answers[-1]


def test_positions_are_written_at_most_every_ten_seconds_and_only_if_they_have_moved() -> None:
    writes = Writes()
    mirror = Mirror("group", writes)
    for now_s, position in enumerate([1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4]):
        mirror.offer({A: position}, float(now_s))
        if writes.answers and not writes.answers[-1].done():
            writes.answers[-1].set_result(None)
    assert writes.positions == [{A: 1}, {A: 4}]
    mirror.offer({A: 4}, 3_000.0)
    assert len(writes.positions) == 2
    mirror.offer({A: 4}, 3_700.0)
    assert writes.positions[2:] == [{A: 4}], "refreshed within an hour"


def test_a_broker_that_does_not_answer_is_asked_once() -> None:
    writes = Writes()
    mirror = Mirror("group", writes)
    for now_s in range(100):
        mirror.offer({A: now_s}, float(now_s))
    assert len(writes.positions) == 1
    writes.answers[0].set_exception(RuntimeError("the group has members"))
    mirror.offer({A: 100}, 100.0)
    assert writes.positions[1:] == [{A: 100}], "a refusal ends nothing"


def test_a_task_without_positions_writes_none() -> None:
    writes = Writes()
    Mirror("group", writes).offer({}, 0.0)
    assert writes.positions == []


def test_what_failed_is_written_again_although_nothing_has_moved_since() -> None:
    """A coordinator that moves loses one commit: tools would show its lag for as long as nothing comes."""
    writes = Writes()
    mirror = Mirror("group", writes)
    mirror.offer({A: 1}, 0.0)
    writes.answers[0].set_exception(RuntimeError("NOT_COORDINATOR"))
    for now_s in range(1, 21):
        mirror.offer({A: 1}, float(now_s))
        if len(writes.answers) == 2 and not writes.answers[1].done():
            writes.answers[1].set_result(None)
    assert writes.positions == [{A: 1}, {A: 1}]
