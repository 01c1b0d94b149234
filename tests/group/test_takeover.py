"""Steps of the take-over: which observation leads to which step."""

import pytest

from cooperator.group import takeover as to
from cooperator.group.listener import DescribedGroup, DescribedMember, GroupState

US = "op-1"


def worker(name: str) -> DescribedMember:
    return DescribedMember(name, None, name, "/host")


def ours(member_id: str) -> DescribedMember:
    return DescribedMember(member_id, US, "operator", "/host")


def group(state: GroupState, *members: DescribedMember, kind: str = "connect") -> DescribedGroup:
    return DescribedGroup(state, kind, "sessioned", members)


def talk(state: to.TakeOver, *events: to.Event) -> tuple[to.TakeOver, list[to.Step]]:
    """The steps that follow each event."""
    steps = []
    for event in events:
        state, step = to.advance(state, event)
        steps.append(step)
    return state, steps


def start() -> to.TakeOver:
    state, step = to.begin(US, patience_ms=1_000)
    assert step == to.Describe()
    return state


A, B = worker("a"), worker("b")


class TestAGroupThatAMemberLeads:
    def test_the_others_are_evicted_under_the_pending_member_while_our_join_is_parked(self) -> None:
        before = group(GroupState.STABLE, A, B)
        inside = group(GroupState.PREPARING, A, B, ours("us"))
        alone = group(GroupState.PREPARING, ours("us"))
        _state, steps = talk(
            start(),
            to.Described(before),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(inside),
            to.Done(to.Evict((A, B))),
            to.Described(alone),
            to.Done(to.Release("pending")),
            to.Answered(to.Answer.LEADS, "us"),
        )
        assert steps == [
            to.Ask((A, B)),
            to.AddPendingMember(),
            to.Join(),
            to.Describe(),
            to.Evict((A, B)),
            to.Describe(),
            to.Release("pending"),
            to.AwaitAnswer(),
            to.BeginLeading(None),
        ]

    def test_nobody_is_evicted_before_our_join_has_arrived(self) -> None:
        before = group(GroupState.STABLE, A)
        state, _ = talk(
            start(), to.Described(before), to.Verdict(None), to.PendingMemberAdded("x"), to.Sent()
        )
        for _ in range(20):
            state, (step,) = talk(state, to.Described(before))
            assert isinstance(step, to.Describe)
            assert 0 < step.after_ms <= 200

    def test_a_member_present_after_the_eviction_is_evicted_too_since_it_may_lead(self) -> None:
        _state, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
            to.Done(to.Evict((A,))),
            to.Described(group(GroupState.PREPARING, B, ours("us"))),
            to.Verdict(None),
        )
        assert steps[-2:] == [to.Ask((B,)), to.Evict((B,))]

    def test_members_that_come_back_at_once_are_not_evicted_forever(self) -> None:
        state, _ = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
        )
        evictions = 0
        for turn in range(100):
            state, step = to.advance(
                state, to.Described(group(GroupState.PREPARING, worker(f"a{turn}"), ours("us")))
            )
            if isinstance(step, to.Ask):
                state, step = to.advance(state, to.Verdict(None))
            if not isinstance(step, to.Evict):
                break
            evictions += 1
            state, step = to.advance(state, to.Done(step))
        assert step == to.Release("pending")
        assert evictions == to.MAX_EVICTIONS

    def test_a_lost_race_is_abandoned_and_retried_later(self) -> None:
        _state, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
            to.Answered(to.Answer.FOLLOWS, "us"),
            to.Done(to.Withdraw("us", "pending")),
        )
        assert steps[-2] == to.Withdraw("us", "pending")
        assert isinstance(steps[-1], to.TakeoverEnded)
        assert not steps[-1].refused


class TestTheListenersVerdict:
    def test_the_question_waits_for_a_stable_group_so_that_metadata_is_visible(self) -> None:
        unsettled = group(GroupState.PREPARING, A)
        state, steps = talk(start(), to.Described(unsettled), to.Described(unsettled))
        assert all(isinstance(step, to.Describe) and step.after_ms > 0 for step in steps)
        _, (step,) = talk(state, to.Described(group(GroupState.STABLE, A)))
        assert step == to.Ask((A,))

    def test_the_question_does_not_wait_forever(self) -> None:
        state = start()
        for _ in range(100):
            state, step = to.advance(state, to.Described(group(GroupState.COMPLETING, A)))
            if step == to.Ask((A,)):
                return
        pytest.fail("a group that never settles is never taken")

    def test_the_question_concerns_an_empty_group_too(self) -> None:
        _, steps = talk(start(), to.Described(group(GroupState.DEAD, kind="")), to.Verdict(None))
        assert steps == [to.Ask(()), to.Join()]

    def test_a_refusal_leaves_the_group_untouched(self) -> None:
        _, steps = talk(start(), to.Described(group(GroupState.STABLE, A)), to.Verdict("it is theirs"))
        assert steps[-1] == to.TakeoverEnded("it is theirs", refused=True)

    def test_a_refusal_because_of_a_late_member_leaves_no_member_behind(self) -> None:
        theirs = DescribedMember("b", "another-operator", "b", "/host")
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, theirs, ours("us"))),
            to.Verdict("it is theirs"),
            to.Done(to.Withdraw("us", "pending")),
        )
        assert steps[-3:] == [
            to.Ask((A, theirs)),
            to.Withdraw("us", "pending"),
            to.TakeoverEnded("it is theirs", refused=True),
        ]

    def test_a_refused_lead_is_not_kept_when_the_answer_comes_meanwhile(self) -> None:
        state, _ = talk(
            start(),
            to.Described(group(GroupState.EMPTY, kind="")),
            to.Verdict(None),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
            to.Verdict("it is theirs"),
        )
        _, (step,) = talk(state, to.Answered(to.Answer.LEADS, "us"))
        assert step == to.Withdraw("us", None)

    def test_a_group_of_other_clients_is_not_touched(self) -> None:
        _, (step,) = talk(start(), to.Described(group(GroupState.STABLE, A, kind="consumer")))
        assert isinstance(step, to.TakeoverEnded)
        assert "'consumer'" in step.reason


class TestAnEmptyGroup:
    def test_the_first_member_leads(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.EMPTY, kind="")),
            to.Verdict(None),
            to.Sent(),
            to.Answered(to.Answer.LEADS, "us"),
        )
        assert steps == [to.Ask(()), to.Join(), to.Describe(), to.BeginLeading(None)]

    def test_a_member_that_slipped_in_before_us_is_evicted(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.EMPTY, kind="")),
            to.Verdict(None),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
        )
        assert steps[-4:] == [to.Ask((A,)), to.AddPendingMember(), to.Describe(), to.Evict((A,))]


class TestARestart:
    def test_in_a_stable_group_the_answer_says_that_we_lead_and_nobody_is_evicted(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A, ours("earlier"))),
            to.Verdict(None),
            to.Sent(),
            to.Answered(to.Answer.REPLACED, "us"),
            to.Sent(),
            to.Answered(to.Answer.LEADS, "us"),
        )
        assert steps == [
            to.Ask((A,)),
            to.Join(),
            to.Describe(),
            to.Join(),
            to.AwaitAnswer(),
            to.BeginLeading(None),
        ]

    def test_on_an_old_broker_another_join_shows_who_leads(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A, ours("earlier"))),
            to.Verdict(None),
            to.Sent(),
            to.Answered(to.Answer.UNKNOWN, "us"),
            to.Sent(),
            to.Answered(to.Answer.FOLLOWS, "us"),
        )
        assert steps[-3:] == [to.Join(), to.AwaitAnswer(), to.Withdraw("us", None)]

    def test_in_mid_round_the_leader_is_unknown_so_the_others_are_evicted(self) -> None:
        _state, steps = talk(
            start(),
            to.Described(group(GroupState.PREPARING, A, ours("earlier"))),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("earlier"))),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
        )
        assert steps[:3] == [to.Ask((A,)), to.AddPendingMember(), to.Join()]
        assert isinstance(steps[-2], to.Describe)
        assert steps[-1] == to.Evict((A,))

    def test_if_another_member_leads_by_now_we_leave_and_join_as_a_new_one(self) -> None:
        stable = group(GroupState.STABLE, A, ours("earlier"))
        _, steps = talk(
            start(),
            to.Described(stable),
            to.Verdict(None),
            to.Sent(),
            to.Answered(to.Answer.FOLLOWS, "us"),
            to.Done(to.Withdraw("us", None)),
            to.Described(group(GroupState.PREPARING, A)),
        )
        assert steps[-3:] == [to.Withdraw("us", None), to.Describe(), to.AddPendingMember()]

    def test_a_failure_before_our_join_keeps_our_earlier_incarnation(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A, ours("earlier"))),
            to.Failed("no answer", joining=False),
        )
        assert steps[-1] == to.TakeoverEnded("no answer")


class TestALeadThatWasLost:
    def test_we_leave_the_round_before_anything_else(self) -> None:
        state, step = to.begin_as_follower(US, 1_000, "us")
        assert step == to.Withdraw("us", None)
        _, steps = talk(
            state,
            to.Done(to.Withdraw("us", None)),
            to.Described(group(GroupState.STABLE, A)),
        )
        assert steps == [to.Describe(), to.Ask((A,))]

    def test_a_failure_to_leave_is_repeated_later(self) -> None:
        state, _ = to.begin_as_follower(US, 1_000, "us")
        _, (step,) = talk(state, to.Failed("no answer", joining=False))
        assert step == to.TakeoverEnded("no answer")


class TestAFailure:
    def test_a_failure_while_our_join_is_parked_withdraws_it(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
            to.Failed("no answer", joining=True),
            to.Failed("still none", joining=True),
        )
        assert steps[-2:] == [to.Withdraw("us", "pending"), to.TakeoverEnded("no answer")]

    def test_a_failure_before_our_join_lets_the_pending_member_time_out_since_its_removal_makes_a_round(
        self,
    ) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Failed("cannot send", joining=False),
        )
        assert steps[-1] == to.TakeoverEnded("cannot send")

    def test_a_failure_after_our_join_releases_the_pending_member_and_removes_any_trace_of_us(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
            to.Described(group(GroupState.PREPARING, A, ours("us"))),
            to.Failed("disconnected", joining=False),
            to.Done(to.Withdraw("us", "pending")),
        )
        assert steps[-2:] == [to.Withdraw("us", "pending"), to.TakeoverEnded("disconnected")]

    def test_a_failure_while_our_membership_is_unknown_keeps_the_pending_member(self) -> None:
        state, _ = talk(
            start(),
            to.Described(group(GroupState.STABLE, A)),
            to.Verdict(None),
            to.PendingMemberAdded("pending"),
            to.Sent(),
        )
        step: to.Step = to.Describe()
        while not isinstance(step, to.TakeoverEnded):
            assert isinstance(step, to.Describe)
            state, step = to.advance(state, to.Failed("no answer", joining=True))
        assert step == to.TakeoverEnded("no answer")

    def test_a_failure_of_the_join_that_confirms_our_lead_keeps_our_member(self) -> None:
        _, steps = talk(
            start(),
            to.Described(group(GroupState.STABLE, A, ours("earlier"))),
            to.Verdict(None),
            to.Sent(),
            to.Answered(to.Answer.REPLACED, "us"),
            to.Sent(),
            to.Failed("disconnected", joining=False),
        )
        assert steps[-1] == to.TakeoverEnded("disconnected")
