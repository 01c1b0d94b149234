"""Task-seconds that nobody ran anything in."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader.observability.unassigned import UnassignedTime
from cooperator.model import INSTANCE


def shown(*states: str, leading: bool = True) -> dict[str, Any]:
    tasks = [{"task": number, "state": state} for number, state in enumerate(states)]
    return {"leading": leading, "tasks": [{"task": INSTANCE, "state": "UNASSIGNED"}, *tasks]}


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
    time.note(shown("HELD", leading=False), 1.0)
    time.note(shown("HELD"), 50.0)
    time.note(shown("RUNNING"), 51.0)
    assert time.total_s == 2


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 5), st.booleans()), max_size=20))
def test_it_never_shrinks(looks: list[tuple[float, int, bool]]) -> None:
    time, before = UnassignedTime(), 0.0
    for now_s, count, leading in looks:
        time.note(shown(*["HELD"] * count, leading=leading), now_s)
        assert time.total_s >= before
        before = time.total_s
