"""The eager policy: everything dealt anew, and what stock workers do not stop as a group turns eager."""

from dataclasses import replace

from cooperator.model import Member, Memory, Policy, PolicyName, TaskId
from cooperator.planner import plan
from cooperator.planner.view import Facts, View

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


AGENTS = tuple(Member(f"{name}-id", name, f"{name}-id") for name in ("w-1", "w-2"))
RAN = replace(BEFORE, incarnations={"w-1": "w-1-id"})


def test_members_that_have_stopped_are_dealt_everything_as_kafka_deals_it() -> None:
    decided, _ = plan(replace(VIEW, members=AGENTS), RAN)
    kafka, _ = plan(VIEW, BEFORE)
    assert decided.assignments == kafka.assignments


def test_tasks_that_a_member_still_reports_are_revoked_and_nothing_is_dealt() -> None:
    running = AGENTS[0].having(tuple(sorted(ALL)), frozenset(), None)
    decided, memory = plan(replace(VIEW, members=(running, AGENTS[1])), RAN)
    assert set(decided.assignments["w-1-id"].revoked) == ALL
    assert not any(each.assigned for each in decided.assignments.values())
    later, _ = plan(replace(VIEW, members=AGENTS), memory)
    assert {task for each in later.assignments.values() for task in each.assigned} == ALL


def test_a_task_of_a_member_that_vanished_starts_after_the_end_of_its_lease() -> None:
    alone = replace(VIEW, members=AGENTS[1:])
    decided, memory = plan(alone, RAN)
    assert decided.held.keys() == ALL
    assert decided.is_empty
    assert decided.rejoin_at_ms == VIEW.policy.fence_ms
    early, _ = plan(replace(alone, now_ms=VIEW.policy.fence_ms - 1), memory)
    assert early.is_empty
    later, _ = plan(replace(alone, now_ms=VIEW.policy.fence_ms), memory)
    assert set(later.assignments["w-2-id"].assigned) == ALL


def test_a_proven_end_is_not_waited_for() -> None:
    ended = Facts(ended=frozenset({("w-1", "w-1-id")}))
    decided, _ = plan(replace(VIEW, members=AGENTS[1:], facts=ended), RAN)
    assert set(decided.assignments["w-2-id"].assigned) == ALL
