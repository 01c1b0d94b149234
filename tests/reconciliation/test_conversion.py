"""A group leaves rounds: every task that a process may run is occupied, and nothing stops."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from cooperator.model import Hold, HoldReason, Member, Memory, TaskId, Unstopped
from cooperator.planner import plan
from cooperator.reconciliation import MemberState, from_round, handle_report, obstacle
from cooperator.reconciliation.reports import Answer, Report
from tests.planner.test_histories import Histories
from tests.planner.unreliable_group import UnreliableGroup

T, U = TaskId("c", 0), TaskId("c", 1)
TIMEOUT_MS = 60_000


class Conversions(Histories):
    """At any time of any history in which rounds may end."""

    @precondition(lambda self: len(self.group.members()) < len(self.group.processes))
    @rule(data=st.data())
    def a_dropped_member_rejoins(self, data: st.DataObject) -> None:
        """A rejoin is a round: without it, the memory would not know that the member was back."""
        super().a_dropped_member_rejoins(data)
        self.group.round()

    @invariant()
    def what_may_run_is_occupied(self) -> None:
        group: UnreliableGroup | None = getattr(self, "group", None)
        if group is None:
            return
        view = group.view()
        _, memory = plan(view, group.memory, group.workspace)
        members = tuple(m for m in view.members if (m.identity, m.incarnation) not in group.proven)
        fence_ms = view.policy.fence_ms
        if obstacle(memory, members, view.awaited, view.now_ms, fence_ms):
            return
        converted = from_round(memory, members, view.awaited, view.now_ms, fence_ms, TIMEOUT_MS)
        converted.validate()
        for process in group.processes:
            for task in process.owned:
                assert converted.occupants.get(task) == (process.identity, process.incarnation)
        for process in group.members():
            occupied = converted.members[process.identity].current.occupied
            assert occupied == process.owned
            assert process.stopping <= converted.members[process.identity].current.pending_revocation.keys()


TestConversions = Conversions.TestCase
TestConversions.settings = settings(
    max_examples=40, stateful_step_count=25, suppress_health_check=list(HealthCheck)
)


def member(identity: str, *owned: TaskId, stopping: frozenset[TaskId] = frozenset()) -> Member:
    return Member(f"{identity}-1", identity, f"{identity}#1", owned, stopping)


def test_tasks_that_run_go_on_and_those_that_stop_are_awaited() -> None:
    members = (member("a", T, U, stopping=frozenset({U})), member("b"))
    group = from_round(Memory(term=3), members, (), 0, 17_000, TIMEOUT_MS)

    a = group.members["a"]
    assert (a.current.state, a.revoke_by_ms) == (MemberState.UNREVOKED_TASKS, TIMEOUT_MS)
    report = Report("a", "a#1", 3, 1, a.current.member_epoch, frozenset({T}))
    group, answer = handle_report(group, report, 1_000, TIMEOUT_MS)
    assert isinstance(answer, Answer)
    assert (answer.state, set(answer.assigned)) == (MemberState.STABLE, {T})
    assert set(group.occupants) == {T}


def test_a_task_at_two_members_keeps_the_group_in_rounds() -> None:
    members = (member("a", T), member("b", T))
    assert obstacle(Memory(), members, (), 0, 17_000) == "c-0 may run at a and at b"
    with pytest.raises(ValueError, match="the group stays in rounds: c-0 may run"):
        from_round(Memory(), members, (), 0, 17_000, TIMEOUT_MS)


def test_a_stock_worker_keeps_the_group_in_rounds() -> None:
    stock = Member("s-1", "s", "s-1", is_agent=False)
    assert obstacle(Memory(), (member("a", T), stock), (), 0, 17_000).startswith("s is a stock worker")


def test_tasks_of_a_departed_stock_worker_keep_the_group_in_rounds() -> None:
    hold = Hold(frozenset({T}), 0, 0, incarnation="s-1", reason=HoldReason.UNFENCED)
    held = Memory(holds={"s": hold}, leaseless=("s",))
    assert obstacle(held, (member("b"),), (), 0, 17_000).startswith("s departed, and keeps no lease")
    revoked = Memory(unstopped=(Unstopped("s", "s-1", frozenset({T}), 0, leased=False),))
    assert obstacle(revoked, (member("b"),), (), 99_000, 17_000).startswith("s keeps no lease")


def test_an_evicted_member_that_is_not_back_keeps_the_group_in_rounds() -> None:
    assert obstacle(Memory(), (member("a", T),), ("b",), 0, 17_000) == "b was evicted and is not back"


def test_tasks_that_were_revoked_and_are_owned_must_be_released() -> None:
    memory = Memory(unstopped=(Unstopped("a", "a#1", frozenset({U})),))
    group = from_round(memory, (member("a", T, U),), (), 0, 17_000, TIMEOUT_MS)

    current = group.members["a"].current
    assert (set(current.assigned), set(current.pending_revocation)) == ({T}, {U})


def test_a_fence_lasts_as_long_as_anything_says() -> None:
    hold = Hold(frozenset({T}), 0, 60_000, not_before_ms=9_000, incarnation="a#1", reason=HoldReason.UNPROVEN)
    for gone_since_ms, until_ms in ((1_000, 18_000), (None, 22_000)):
        unstopped = Unstopped("a", "a#1", frozenset({U}), gone_since_ms)
        memory = Memory(holds={"a": hold}, unstopped=(unstopped,))
        group = from_round(memory, (member("b"),), (), 5_000, 17_000, TIMEOUT_MS)
        [fence] = group.fences.values()
        assert (fence.tasks, fence.until_ms) == ({T, U}, until_ms)

    later = replace(hold, not_before_ms=30_000)
    unstopped = Unstopped("a", "a#1", frozenset({U}), 1_000)
    memory = Memory(holds={"a": later}, unstopped=(unstopped,))
    [fence] = from_round(memory, (member("b"),), (), 5_000, 17_000, TIMEOUT_MS).fences.values()
    assert fence.until_ms == 30_000


def test_a_group_in_which_it_is_not_known_what_runs_stays_in_rounds() -> None:
    hold = Hold(frozenset(), 0, 0, not_before_ms=9_000, reason=HoldReason.UNPROVEN, blanket=True)
    memory = Memory(holds={"a": hold})
    assert obstacle(memory, (member("b"),), (), 5_000, 17_000) == "it is not known what a runs"
    assert obstacle(memory, (member("b"),), (), 9_000, 17_000) == ""
