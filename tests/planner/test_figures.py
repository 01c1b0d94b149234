"""The three figures of the article on incremental cooperative rebalancing, played by the policy Default."""

from dataclasses import replace

from cooperator.model import INSTANCE, Epoch, HoldReason, Member, Memory, TaskId
from cooperator.planner import Facts, Plan, View, Why, plan

MINUTE_MS = 60_000
A, B = TaskId("a", INSTANCE), TaskId("b", INSTANCE)
A0, A1, B0 = TaskId("a", 0), TaskId("a", 1), TaskId("b", 0)


class Group:
    """A group whose members do at once what they are told, and report it in the next round."""

    def __init__(self, **tasks: int) -> None:
        self.tasks = tasks
        self.members: dict[str, Member] = {}
        self.memory = Memory()
        self.now_ms = 0
        self.incarnations = 0
        self.ended: set[tuple[str, str]] = set()

    def join(self, *identities: str) -> None:
        for identity in identities:
            self.incarnations += 1
            incarnation = f"{identity}#{self.incarnations}"
            self.members[identity] = Member(incarnation, identity, incarnation, applied=Epoch(1, 0))

    def leave(self, identity: str, proven: bool = True) -> None:
        member = self.members.pop(identity)
        if proven:
            self.ended.add((identity, member.incarnation))

    def round(self, at_ms: int = -1, **facts: frozenset[str]) -> Plan:
        self.now_ms = max(self.now_ms, at_ms)
        view = View(
            now_ms=self.now_ms,
            generation=self.memory.generation + 1,
            members=tuple(self.members.values()),
            tasks=self.tasks,
            facts=Facts(ended=frozenset(self.ended), **facts),
        )
        decided, self.memory = plan(view, self.memory)
        for identity, member in self.members.items():
            assignment = decided.assignments[member.member_id]
            owned = (
                tuple(task for task in member.owned if task not in assignment.revoked) + assignment.assigned
            )
            self.members[identity] = replace(member, owned=owned)
        return decided

    def owned(self) -> dict[str, set[TaskId]]:
        return {identity: set(member.owned) for identity, member in self.members.items()}


def test_figure_1_a_new_worker_takes_one_task_in_two_rounds_and_nobody_else_is_touched() -> None:
    group = Group(a=2, b=1)
    group.join("w0", "w1")
    group.round()
    before = group.owned()
    assert set.union(*before.values()) == {A, B, A0, A1, B0}

    group.join("w2")
    revoking = group.round(MINUTE_MS)
    assert revoking.revoking
    assert not revoking.assigned_why
    assert [why.why for why in revoking.revoked_why.values()] == [Why.BALANCE]

    moved = set(revoking.revoked_why)
    assigning = group.round()
    assert set(assigning.assigned_why) == moved == group.owned()["w2"]
    assert group.owned()["w0"] | group.owned()["w1"] == set.union(*before.values()) - moved


def test_figure_2_a_bounced_worker_gets_exactly_its_own_back_when_it_returns() -> None:
    group = Group(a=2, b=1)
    group.join("w0", "w1", "w2")
    group.round()
    before = group.owned()

    group.leave("w1")
    held = group.round(MINUTE_MS)
    assert set(held.held) == before["w1"]
    assert held.rejoin_at_ms == 6 * MINUTE_MS
    assert all(assignment.is_empty for assignment in held.assignments.values())

    group.join("w1")
    returned = group.round(2 * MINUTE_MS)
    assert group.owned() == before
    assert {why.why for why in returned.assigned_why.values()} == {Why.RETURNED}
    assert returned.rejoin_at_ms is None


def test_figure_3_what_a_worker_left_behind_for_good_moves_at_the_end_of_its_own_hold() -> None:
    group = Group(a=2, b=1)
    group.join("w0", "w1", "w2")
    group.round()
    before = group.owned()

    group.leave("w1")
    group.round(MINUTE_MS)
    waiting = group.round(6 * MINUTE_MS - 1)
    assert {held.reason for held in waiting.held.values()} == {HoldReason.DEPARTED}
    moving = group.round(6 * MINUTE_MS)
    assert {why.why for why in moving.assigned_why.values()} == {Why.HOLD_ENDED}
    assert set(moving.assigned_why) == before["w1"]
    assert all(before[identity] <= tasks for identity, tasks in group.owned().items())
