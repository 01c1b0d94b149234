"""Announced ends of nodes: what is a notice, and the events that report what it has cost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.controller.interruptions import Interruptions, Notice, notice_of, notices, observe

SPOT = "aws-node-termination-handler/spot-itn"
GIVEN = {"lake-0": ("m-1", Notice(SPOT, 120_000))}


def task(
    name: str, member: str | None, state: str = "RUNNING", at_ms: int = 0, **more: Any
) -> dict[str, Any]:
    return {"name": name, "member": member, "state": state, "at_ms": at_ms, **more}


def leader(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"leading": True, "known": True, "tasks": list(tasks)}


class RecordedEvents:
    """A conversation: what the leader shows at a time, and the events that follow."""

    def __init__(self) -> None:
        self.state: Interruptions = {}

    def __call__(self, now_ms: int, shown: dict[str, Any], given: Any = GIVEN) -> list[str]:
        self.state, told = observe(self.state, given, shown, now_ms)
        return [f"{each.reason}{'!' if each.warning else ''}: {each.note}" for each in told]


def test_tasks_that_are_handed_over_in_time_cost_one_hand_over_each() -> None:
    at = RecordedEvents()
    assert at(1_000, leader(task("a-0", "lake-0"), task("a-1", "lake-0"), task("b-0", "lake-1"))) == [
        f"InterruptionAnnounced: node m-1 will go ({SPOT}, 120 s or more after the notice): "
        "lake-0 hands over 2 tasks"
    ]
    assert at(1_500, leader(task("a-0", "lake-0", "STOPPING"), task("a-1", "lake-0"))) == []
    assert at(2_000, leader(task("a-0", None, "UNASSIGNED"), task("a-1", "lake-0", "STOPPING"))) == []
    assert at(3_000, leader(task("a-0", "lake-1", at_ms=2_700), task("a-1", "lake-1", "STARTING"))) == []
    assert at(4_000, leader(task("a-0", "lake-1", at_ms=2_700), task("a-1", "lake-1", at_ms=3_900))) == [
        f"Interrupted: lake-0 on node m-1 ({SPOT}), 3.0 s after the notice: "
        "2 tasks handed over, each unassigned for 2.4 s at most (4.1 task-seconds)"
    ]
    assert at(5_000, leader(task("a-0", "lake-1"), task("a-1", "lake-1"))) == []


def test_tasks_that_do_not_make_it_are_held_and_named() -> None:
    at = RecordedEvents()
    at(0, leader(task("a-0", "lake-0"), task("a-1", "lake-0")))
    moved = task("a-0", "lake-1", at_ms=900)
    assert at(1_000, leader(moved, task("a-1", "lake-0", "STOPPING"))) == []
    assert at(9_000, leader(moved, task("a-1", None, "HELD", held_for="lake-0"))) == [
        f"Interrupted!: lake-0 on node m-1 ({SPOT}), 9.0 s after the notice: "
        "1 task handed over, each unassigned for 0.9 s at most (0.9 task-seconds); 1 task held: a-1"
    ]


def test_a_notice_that_is_withdrawn_says_what_stayed() -> None:
    at = RecordedEvents()
    at(0, leader(task("a-0", "lake-0")))
    assert at(2_000, leader(task("a-0", "lake-0")), {}) == [
        f"Interrupted: lake-0 on node m-1 ({SPOT}), 2.0 s after the notice: 1 task not handed over: a-0"
    ]
    assert at.state == {}


def test_a_member_without_tasks_is_no_news() -> None:
    at = RecordedEvents()
    assert at(0, leader(task("a-0", "lake-1"))) == []
    assert at(1_000, leader(task("a-0", "lake-1"))) == []


def test_deleted_tasks_are_not_counted() -> None:
    at = RecordedEvents()
    at(0, leader(task("a-0", "lake-0")))
    assert at(1_000, leader()) == [
        f"Interrupted: lake-0 on node m-1 ({SPOT}), 1.0 s after the notice: its tasks were deleted"
    ]


@pytest.mark.parametrize("shown", [{}, {"stale": True, "tasks": []}, {"leading": False}])
def test_without_a_present_status_nothing_is_concluded(shown: dict[str, Any]) -> None:
    at = RecordedEvents()
    at(0, leader(task("a-0", "lake-0")))
    before = at.state
    assert at(1_000, shown) == []
    assert at.state == before


STATES = st.sampled_from(["RUNNING", "STOPPING", "STARTING", "UNASSIGNED", "FAILED", "HELD"])


@st.composite
def shown(draw: st.DrawFn) -> dict[str, Any]:
    tasks = []
    for number in range(3):
        member = draw(st.sampled_from([None, "lake-0", "lake-1", "lake-2"]))
        held = {"held_for": "lake-0"} if member is None and draw(st.booleans()) else {}
        if draw(st.integers(0, 9)):
            tasks.append(task(f"a-{number}", member, draw(STATES), draw(st.integers(0, 100)), **held))
    return leader(*tasks)


@given(st.lists(st.tuples(shown(), st.booleans()), max_size=12))
def test_each_notice_is_announced_and_concluded_once_and_each_task_counted_once(
    history: list[tuple[dict[str, Any], bool]],
) -> None:
    at, open_notices = RecordedEvents(), 0
    for number, (status, is_given) in enumerate(history):
        for each in at(number * 10, status, GIVEN if is_given else {}):
            open_notices += 1 if each.startswith("InterruptionAnnounced") else -1
            assert open_notices in (0, 1)
        for known in at.state.values():
            groups = [known.waiting, set(known.moved), known.held]
            assert sum(map(len, groups)) == len(set().union(*groups))
            assert all(gap_ms >= 0 for gap_ms in known.moved.values())
            assert known.told == (open_notices == 0)
    at(1_000, leader(), {})
    assert at.state == {}


def test_the_shortest_notice_counts() -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("karpenter.sh/disrupted", SPOT)]
    node = {"spec": {"taints": taints}}
    assert notice_of(node) == Notice(SPOT, 120_000)
    assert notice_of({"spec": {"taints": taints[:1]}}) == Notice("karpenter.sh/disrupted")
    assert notice_of({}) is None


def test_members_are_interrupted_by_their_own_node_only() -> None:
    nodes = {"m-1": {"spec": {"taints": [{"key": SPOT, "effect": "NoSchedule"}]}}, "m-2": {}}
    pods = {
        "lake-0": {"spec": {"nodeName": "m-1"}},
        "lake-1": {"spec": {"nodeName": "m-2"}},
        "lake-2": {"spec": {}},
        "lake-3": {"spec": {"nodeName": "unseen"}},
    }
    assert notices(nodes, pods) == GIVEN
