"""Tasks that may still be running after the memory missed rounds. docs/spec found these histories."""

import pytest

from cooperator.leader import events as ev
from cooperator.model import Member, Policy, TaskId
from tests.harness.fake_group import FakeGroup, FakeMember
from tests.harness.validated_leader import ValidatedLeader

LEASE_MS = 40_000
LEASE_AND_MARGIN_MS = LEASE_MS + 5_000


@pytest.fixture
def group() -> FakeGroup:
    """lake-0 and lake-1 run four tasks; a hold is over at once, so that only leases keep tasks back."""
    return two_members(Policy(scheduled_rebalance_max_delay_ms=0, lease_ms=LEASE_MS, lease_margin_ms=5_000))


def two_members(policy: Policy) -> FakeGroup:
    group = FakeGroup(policy)
    group.desire(a=4)
    for number in range(2):
        group.join(f"lake-{number}")
    group.round()
    assert group.post("a", "u0", "u1", "u2", "u3") == 204
    group.settle()
    return group


def cut_off(group: FakeGroup, member: FakeMember) -> set[TaskId]:
    """The broker drops ``member``, which runs on."""
    del group.members[member.member_id]
    return set(member.running)


def round_that_fails(group: FakeGroup, *, planned: bool) -> None:
    """Joins are answered, which renews leases; then the leader cannot save its plan, or never hears of it."""
    if planned:
        group.save_fails = True
        group.round(deliver=False)
        group.save_fails = False
    else:
        group.generation += 1


class TestALeaseRenewedInARoundThatFailed:
    @pytest.mark.parametrize("planned", [True, False], ids=["not saved", "not heard of"])
    def test_counts_from_the_next_absence(self, group: FakeGroup, planned: bool) -> None:
        member = group.of("lake-1")
        runs = cut_off(group, member)
        group.round()
        group.settle()

        group.advance(30_000)
        group.members[member.member_id] = member
        round_that_fails(group, planned=planned)
        cut_off(group, member)
        group.advance(LEASE_AND_MARGIN_MS - 30_000)
        # 15 s after its last contact it runs on; since it was first missed, lease and margin are over.
        group.round()
        assert not runs & group.runs("lake-0")

        group.advance(LEASE_AND_MARGIN_MS)
        group.settle()
        assert runs < group.runs("lake-0")

    def test_counts_anew_for_the_next_leader(self, group: FakeGroup) -> None:
        member = group.of("lake-1")
        runs = cut_off(group, member)
        group.round()
        group.settle()

        group.advance(30_000)
        group.members[member.member_id] = member
        round_that_fails(group, planned=False)
        group.machine.handle(ev.LeadLost("crash"), group.now_ms)
        cut_off(group, member)
        group.advance(LEASE_AND_MARGIN_MS - 30_000)
        group.take_lead()
        group.round()
        assert not runs & group.runs("lake-0")

    def test_does_not_grow_in_rounds_that_succeed(self, group: FakeGroup) -> None:
        runs = cut_off(group, group.of("lake-1"))
        group.round()
        for _ in range(4):
            group.advance(LEASE_AND_MARGIN_MS // 4)
            group.round()
        group.advance(10)
        group.settle()
        assert runs < group.runs("lake-0")


class TestTwoIncarnationsOfOneIdentityThatAreEvicted:
    @pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["older first", "newer first"])
    def test_neither_is_taken_for_the_other(self, group: FakeGroup, order: tuple[int, int]) -> None:
        older = group.of("lake-1")
        newer = group.join("lake-1")
        group.round()
        older.stopping.clear()
        group.round()
        runs = set(newer.running)
        assert runs
        assert not older.running
        reports: list[Member] = [older.report(), newer.report()]

        group.machine.handle(ev.LeadLost("crash"), group.now_ms)
        group.take_lead(*(reports[number] for number in order))
        cut_off(group, newer)
        group.round()
        group.round()
        assert not older.running, "tasks of its newer incarnation were started by the older one"


class TestANewLeader:
    def test_a_leader_with_a_fast_clock_waits_for_a_lease_by_its_own_clock(self, group: FakeGroup) -> None:
        runs = cut_off(group, group.of("lake-1"))
        group.round()
        group.machine = ValidatedLeader(group.machine.settings, group.machine.state.policy)
        group.now_ms += 3_600_000
        group.take_lead()
        group.desire(a=4)
        group.round()
        assert runs
        assert not runs & group.runs("lake-0")

        group.advance(LEASE_AND_MARGIN_MS)
        group.settle()
        assert runs <= group.runs("lake-0")

    @pytest.mark.parametrize("delay_ms", [0, 60_000])
    def test_with_a_slow_clock_holds_for_no_longer_than_others(self, delay_ms: int) -> None:
        group = two_members(Policy(scheduled_rebalance_max_delay_ms=delay_ms, lease_ms=LEASE_MS))
        runs = cut_off(group, group.of("lake-1"))
        group.round()
        group.machine = ValidatedLeader(group.machine.settings, group.machine.state.policy)
        group.now_ms -= 900_000
        group.take_lead()
        group.round()
        assert not runs & group.runs("lake-0")

        group.advance(max(delay_ms, group.machine.state.policy.fence_ms))
        group.settle()
        assert runs <= group.runs("lake-0")

    def test_that_had_the_lead_before_and_lost_it_for_a_moment_goes_on_counting(
        self, group: FakeGroup
    ) -> None:
        runs = cut_off(group, group.of("lake-1"))
        group.round()
        group.advance(LEASE_AND_MARGIN_MS - 1_000)
        group.machine.handle(ev.LeadLost("for a moment"), group.now_ms)
        group.take_lead()
        group.round()
        assert not runs & group.runs("lake-0")

        group.advance(1_000)
        group.settle()
        assert runs <= group.runs("lake-0")
