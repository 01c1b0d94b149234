"""The take-over in a model of the broker's group, whose members act at the worst of times."""

from dataclasses import dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st

from cooperator.group import takeover as to
from cooperator.group.listener import GroupState
from tests.group.classic_group import ClassicGroup, Seat
from tests.harness.examples import examples

US = "operator"


@dataclass
class Worker:
    """A dynamic member that takes its next step whenever it is scheduled."""

    group: ClassicGroup
    entries_left: int
    pending: str | None = None
    seat: Seat | None = None

    def act(self) -> None:
        group = self.group
        if self.seat is None or self.seat.removed:
            self._enter()
        elif self.seat.parked:
            return
        elif group.state is GroupState.PREPARING:
            group.rejoin(self.seat)
        elif group.state is GroupState.COMPLETING and group.leader == self.seat.member_id:
            group.sync()

    def _enter(self) -> None:
        self.seat = None
        if self.pending is not None:
            self.seat = self.group.join_pending(self.pending)
            self.pending = None
        elif self.entries_left > 0:
            self.entries_left -= 1
            self.pending = self.group.ask_member_id()


@dataclass
class Operator:
    """Carries out steps on the model as ``LeadTaker`` does on a broker."""

    group: ClassicGroup
    state: to.TakeOver
    step: to.Step
    seat: Seat | None = None
    joins: int = 0
    evicted: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def turn(self, refusal: str | None, broken: bool) -> None:
        happened = (
            to.Failed("broken", joining=self._parked) if broken else self._carry_out(self.step, refusal)
        )
        if happened is not None:
            self.state, self.step = to.advance(self.state, happened)
        if self.seat is not None and self.seat.answer is not None:
            answer, self.seat.answer = self.seat.answer, None
            self.state, self.step = to.advance(self.state, to.Answered(answer, self.seat.member_id))
        elif self.seat is not None and self.seat.removed and self._parked:
            self.seat = None
            self.state, self.step = to.advance(self.state, to.Failed("removed", joining=False))

    @property
    def over(self) -> bool:
        return isinstance(self.step, to.BeginLeading | to.TakeoverEnded)

    @property
    def _parked(self) -> bool:
        return self.seat is not None and self.seat.parked

    def _carry_out(self, step: to.Step, refusal: str | None) -> to.Event | None:
        group = self.group
        match step:
            case to.Describe():
                return to.Described(group.describe())
            case to.Ask(members):
                self.asked |= {member.member_id for member in members}
                return to.Verdict(refusal)
            case to.AddPendingMember():
                return to.PendingMemberAdded(group.ask_member_id())
            case to.Join():
                self.joins += 1
                known = self.state.confirming and self.seat is not None and not self.seat.removed
                if known and self.seat is not None:
                    group.rejoin(self.seat)
                else:
                    self.seat = group.join_static(US)
                return to.Sent()
            case to.Evict(members):
                self.evicted += [member.member_id for member in members]
                group.leave(member.member_id for member in members)
                return to.Done(step)
            case to.Release(pending_member):
                group.leave([pending_member])
                return to.Done(step)
            case to.Withdraw(member_id, pending_member):
                group.leave([m for m in (member_id, pending_member) if m is not None])
                if self.seat is not None and self.seat.removed:
                    self.seat = None
                return to.Done(step)
            case to.AwaitAnswer():
                return None
            case _:
                raise AssertionError(step)


@st.composite
def groups(draw: st.DrawFn) -> tuple[ClassicGroup, list[Worker]]:
    """A group in any state, with up to three workers that have just joined and up to two that will join."""
    group = ClassicGroup(elect=lambda ids: draw(st.sampled_from(ids), label="elected"))
    entries = draw(st.integers(0, to.MAX_EVICTIONS - 2), label="entries of workers to come")
    workers = [Worker(group, entries_left=1) for _ in range(draw(st.integers(0, 3), label="workers"))]
    for worker in workers:
        worker.act()
        worker.act()
    group.end_initial_delay()
    for _ in range(draw(st.integers(0, 8), label="turns before us")):
        if workers:
            draw(st.sampled_from(workers)).act()
    for worker in workers:
        worker.entries_left = 0
    for _ in range(entries):
        if workers and draw(st.booleans(), label="an old one comes back"):
            draw(st.sampled_from(workers)).entries_left += 1
        else:
            workers.append(Worker(group, entries_left=1))
    return group, workers


def take_the_lead(data: st.DataObject, group: ClassicGroup, workers: list[Worker]) -> Operator:
    operator = Operator(group, *to.begin(US, patience_ms=1_000))
    turns = 0
    while not operator.over:
        for worker in data.draw(st.lists(st.sampled_from(workers), max_size=3) if workers else st.just([])):
            worker.act()
        if turns > 10 or data.draw(st.booleans(), label="initial delay ends"):
            group.end_initial_delay()
        if turns > 60:
            for worker in workers:
                worker.act()
        before = operator.step
        if isinstance(before, to.Evict):
            assert {m.member_id for m in before.members} <= operator.asked
            assert all(m.group_instance_id != US for m in before.members)
        operator.turn(refusal=None, broken=False)
        turns += 1
        assert turns < 500, "the take-over does not terminate"
    return operator


@settings(max_examples=examples(60, long=200), deadline=None)
@given(data=st.data(), world=groups())
def test_no_round_completes_with_us_as_a_follower(
    data: st.DataObject, world: tuple[ClassicGroup, list[Worker]]
) -> None:
    group, workers = world
    # In an empty group the broker itself ends the first round after a delay, with or without a pending
    # member.
    pending_member_added = group.state is not GroupState.EMPTY
    rounds_before = len(group.completed)
    operator = take_the_lead(data, group, workers)
    event(f"{type(operator.step).__name__} after {operator.joins} joins, {len(operator.evicted)} evicted")
    if isinstance(operator.step, to.BeginLeading):
        assert operator.seat is not None
        assert group.leader == operator.seat.member_id
    with_us = [
        leader
        for leader, members in group.completed[rounds_before:]
        if any(member.startswith(US) for member in members)
    ]
    if pending_member_added:
        assert isinstance(operator.step, to.BeginLeading)
        assert all(leader.startswith(US) for leader in with_us)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(0, 4))
def test_a_restart_in_a_stable_group_that_we_lead_evicts_nobody(data: st.DataObject, count: int) -> None:
    group = ClassicGroup()
    earlier = group.join_static(US)
    workers = [Worker(group, entries_left=1) for _ in range(count)]
    group.end_initial_delay()
    for _ in range(3):
        for worker in workers:
            worker.act()
        if group.state is GroupState.PREPARING and not earlier.parked:
            group.rejoin(earlier)
        if group.state is GroupState.COMPLETING:
            group.sync()
    assert (group.state, group.leader) == (GroupState.STABLE, earlier.member_id)
    assert len(group.seats) == count + 1
    operator = take_the_lead(data, group, workers)
    assert isinstance(operator.step, to.BeginLeading)
    assert operator.evicted == []


@settings(max_examples=examples(50, long=150), deadline=None)
@given(data=st.data(), world=groups())
def test_a_restart_at_any_moment_ends_in_the_lead(
    data: st.DataObject, world: tuple[ClassicGroup, list[Worker]]
) -> None:
    group, workers = world
    group.join_static(US)
    for worker in data.draw(st.lists(st.sampled_from(workers), max_size=6) if workers else st.just([])):
        worker.act()
    rounds_before = len(group.completed)
    operator = take_the_lead(data, group, workers)
    event(f"{type(operator.step).__name__} after {operator.joins} joins, {len(operator.evicted)} evicted")
    if isinstance(operator.step, to.BeginLeading):
        assert operator.seat is not None
        assert group.leader == operator.seat.member_id
    else:
        # The broker itself ended the first round of an empty group.
        assert len(group.completed) > rounds_before


@settings(max_examples=examples(50, long=150), deadline=None)
@given(data=st.data(), world=groups())
def test_a_refusal_or_failure_leaves_neither_a_member_of_ours_nor_a_pending_member_in_an_open_round(
    data: st.DataObject, world: tuple[ClassicGroup, list[Worker]]
) -> None:
    group, workers = world
    breaks = data.draw(st.booleans(), label="breaks")
    refusals = st.none() if breaks else st.sampled_from([None, None, "theirs"])
    # Steps may fail, but not the withdrawal: the next attempt replaces whatever a dead connection leaves.
    withdrawing = False
    pending_members: set[str | None] = set()
    was_empty = group.state is GroupState.EMPTY
    operator = Operator(group, *to.begin(US, patience_ms=1_000))
    turns = 0
    while not operator.over:
        for worker in data.draw(st.lists(st.sampled_from(workers), max_size=3) if workers else st.just([])):
            worker.act()
        group.end_initial_delay()
        withdrawing = withdrawing or isinstance(operator.step, to.Withdraw)
        broken = breaks and not withdrawing and data.draw(st.integers(0, 5)) == 0
        operator.turn(data.draw(refusals), broken)
        pending_members |= {operator.state.pending_member} - {None}
        turns += 1
        if turns > 60:
            for worker in workers:
                worker.act()
        assert turns < 500
    event(repr(operator.step)[:40])
    in_the_group = any(seat.instance_id == US for seat in group.seats.values())
    if isinstance(operator.step, to.TakeoverEnded) and operator.step.refused:
        assert not in_the_group
        assert not group.pending & pending_members or not operator.joins
    if isinstance(operator.step, to.TakeoverEnded) and in_the_group:
        assert operator.state.own is None, "our member is known and was not withdrawn"
        # An empty group is joined without a pending member.
        assert group.pending & pending_members or was_empty
