"""Two members or identities claim one task: exactly one owns it, both for planners and for members."""

from cooperator.model import Member, Memory, Policy, TaskId
from cooperator.planner import View, plan
from cooperator.planner.view import Facts

TASK = TaskId("a", 0)


def test_a_task_that_two_are_owed_is_given_to_one() -> None:
    """The reports of evicted members are older than the memory."""
    members = tuple(Member(f"m{n}", f"lake-{n}", f"incarnation-{n}") for n in range(2))
    given = {"lake-0": frozenset({TASK}), "lake-1": frozenset({TASK, TaskId("a", -1)})}
    memory = Memory(1, 4, given, {"lake-0": "incarnation-0", "lake-1": "incarnation-1"})
    view = View(now_ms=1_000, generation=5, members=members, tasks={"a": 1}, policy=Policy())
    decided, after = plan(view, memory)
    assigned = [task for assignment in decided.assignments.values() for task in assignment.assigned]
    assert sorted(assigned) == [TaskId("a", -1), TASK]
    assert sum(TASK in tasks for tasks in after.given.values()) == 1


def test_a_copy_that_another_member_keeps_is_not_held_for_one_that_drains() -> None:
    drains = Member("m0", "lake-0", "incarnation-0", owned=(TASK,), draining=True)
    keeps = Member("m1", "lake-1", "incarnation-1", owned=(TASK,))
    facts = Facts(gone=frozenset({"lake-1"}))
    view = View(
        now_ms=1_000, generation=5, members=(drains, keeps), tasks={"a": 1}, policy=Policy(), facts=facts
    )
    decided, after = plan(view, Memory(1, 4, {"lake-0": frozenset({TASK})}))
    assert decided.assignments["m0"].revoked == (TASK,)
    assert decided.assignments["m1"].revoked == ()
    assert TASK not in decided.held
    assert [i for i, tasks in after.given.items() if TASK in tasks] == ["lake-1"]


def test_copies_of_superseded_members_are_reserved_for_one_newest_incarnation() -> None:
    older = tuple(Member(f"old{n}", f"lake-{n}", "incarnation-1", owned=(TASK,)) for n in range(2))
    newest = tuple(Member(f"new{n}", f"lake-{n}", "incarnation-2") for n in range(2))
    memory = Memory(1, 4, {}, {}, former={f"lake-{n}": ("incarnation-1",) for n in range(2)})
    view = View(now_ms=1_000, generation=5, members=older + newest, tasks={"a": 1}, policy=Policy())
    decided, after = plan(view, memory)
    assert [decided.assignments[f"old{n}"].revoked for n in range(2)] == [(TASK,), (TASK,)]
    assert sum(TASK in tasks for tasks in after.given.values()) == 1
