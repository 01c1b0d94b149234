"""The time in which tasks do not run."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader.observability.unassigned import Interruptions, UnassignedTime
from cooperator.model import INSTANCE


def shown(*states: str, known: bool = True) -> dict[str, Any]:
    tasks = [
        {"name": f"a-{number}", "task": number, "state": state}
        for number, state in enumerate(states)
        if state != "GONE"
    ]
    return {"known": known, "tasks": [{"name": "a", "task": INSTANCE, "state": "UNASSIGNED"}, *tasks]}


def test_held_and_unassigned_tasks_count_while_they_last() -> None:
    time = UnassignedTime()
    time.note(shown("RUNNING", "HELD", "UNASSIGNED", "FAILED"), 10.0)
    time.note(shown("RUNNING", "RUNNING", "UNASSIGNED", "FAILED"), 12.5)
    time.note(shown("RUNNING", "RUNNING", "RUNNING", "PAUSED"), 13.5)
    time.note(shown("RUNNING", "RUNNING", "RUNNING", "RUNNING"), 100.0)
    assert time.total_s == 2 * 2.5 + 1


def test_time_led_by_another_leader_is_not_counted() -> None:
    time = UnassignedTime()
    time.note(shown("HELD"), 0.0)
    time.note(shown("HELD", known=False), 1.0)
    time.note(shown("HELD"), 50.0)
    time.note(shown("RUNNING"), 51.0)
    assert time.total_s == 2


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 5), st.booleans()), max_size=20))
def test_it_never_shrinks(looks: list[tuple[float, int, bool]]) -> None:
    time, before = UnassignedTime(), 0.0
    for now_s, count, leading in looks:
        time.note(shown(*["HELD"] * count, known=leading), now_s)
        assert time.total_s >= before
        before = time.total_s


def interrupted(*looks: tuple[float, dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Number and sum of the holds and of the hand-overs that these projections have shown."""
    found = Interruptions()
    for now_s, look in looks:
        found.note(look, now_s)
    holds, hand_overs = found.holds.shown(), found.hand_overs.shown()
    return [holds["counts"][-1], holds["sum_s"]], [hand_overs["counts"][-1], hand_overs["sum_s"]]


def test_a_hold_lasts_until_the_task_is_assigned_again() -> None:
    looks = (
        (0.0, shown("RUNNING", "RUNNING")),
        (1.0, shown("HELD", "RUNNING")),
        (61.0, shown("UNASSIGNED", "RUNNING")),
        (63.0, shown("RUNNING", "RUNNING")),
    )
    assert interrupted(*looks) == ([1, 60.0], [0, 0.0])


def test_a_hand_over_lasts_until_the_task_runs_elsewhere() -> None:
    looks = (
        (0.0, shown("RUNNING", "UNASSIGNED")),
        (1.0, shown("UNASSIGNED", "UNASSIGNED")),
        (1.5, shown("STARTING", "STARTING")),
        (3.0, shown("RUNNING", "RUNNING")),
    )
    assert interrupted(*looks) == ([0, 0.0], [1, 2.0]), "the other one started for the first time"


def test_an_interval_that_ends_by_deletion_or_by_another_leader_is_not_counted() -> None:
    looks = (
        (0.0, shown("RUNNING", "RUNNING", "RUNNING")),
        (1.0, shown("HELD", "UNASSIGNED", "HELD")),
        (2.0, shown("HELD", "UNASSIGNED", "GONE")),
        (3.0, shown("HELD", "UNASSIGNED", "GONE", known=False)),
        (9.0, shown("RUNNING", "RUNNING", "RUNNING")),
    )
    assert interrupted(*looks) == ([0, 0.0], [0, 0.0])
