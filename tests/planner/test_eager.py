"""The eager policy: everything dealt anew, and what stock workers do not stop as a group turns eager."""

from dataclasses import replace

from cooperator.model import Member, Memory, Policy, PolicyName, TaskId
from cooperator.planner import plan
from cooperator.planner.view import View

MEMBERS = tuple(Member(f"{name}-id", name, f"{name}-id", is_agent=False) for name in ("w-1", "w-2"))
VIEW = View(0, 2, MEMBERS, {"a": 2}, Policy(PolicyName.EAGER))
ALL = {TaskId("a", number) for number in (-1, 0, 1)}
BEFORE = Memory(term=1, generation=1, given={"w-1": frozenset(ALL)})


def test_all_is_dealt_among_all() -> None:
    decided, memory = plan(VIEW, BEFORE)
    assignments = {identity: set(tasks) for identity, tasks in memory.given.items()}
    assert set.union(*assignments.values()) == ALL
    assert sorted(map(len, assignments.values())) == [1, 2]
    assert all(not assignment.revoked for assignment in decided.assignments.values())


def test_as_the_group_turns_eager_each_is_given_what_it_has_not_stopped() -> None:
    decided, memory = plan(replace(VIEW, turns_eager=True), BEFORE)
    assert set(decided.assignments["w-1-id"].assigned) == ALL
    assert decided.assignments["w-2-id"].assigned == ()
    later, _ = plan(VIEW, memory)
    assert all(assignment.assigned for assignment in later.assignments.values())


def test_deleted_items_are_not_assigned_again() -> None:
    decided, _ = plan(replace(VIEW, turns_eager=True, tasks={"a": 1}), BEFORE)
    assert set(decided.assignments["w-1-id"].assigned) == ALL - {TaskId("a", 1)}
