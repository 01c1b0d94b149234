"""A memory can name two identities for one task, where what evicted members reported was older than it."""

from cooperator.model import Member, Memory, Policy, TaskId
from cooperator.planner import View, plan

TASK = TaskId("a", 0)


def test_a_task_that_two_are_owed_is_given_to_one() -> None:
    members = tuple(Member(f"m{n}", f"lake-{n}", f"life-{n}") for n in range(2))
    given = {"lake-0": frozenset({TASK}), "lake-1": frozenset({TASK, TaskId("a", -1)})}
    memory = Memory(1, 4, given, {"lake-0": "life-0", "lake-1": "life-1"})
    view = View(now_ms=1_000, generation=5, members=members, tasks={"a": 1}, policy=Policy())
    decided, after = plan(view, memory)
    assigned = [task for assignment in decided.assignments.values() for task in assignment.assigned]
    assert sorted(assigned) == [TaskId("a", -1), TASK]
    assert sum(TASK in tasks for tasks in after.given.values()) == 1
