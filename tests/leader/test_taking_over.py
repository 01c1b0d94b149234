"""The lead is taken from stock workers, or by a second operator: nothing runs twice, whatever has happened.

``test_machine_histories`` replaces its leader by one that evicts nobody and has its predecessor's memory, so
that memory and reports always agree. Here they need not: a stock worker may have led in between, which leaves
no memory; of members that were evicted in mid-round no report is told; some of them are late, or never back.
"""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.leader import events as ev
from cooperator.model import Fencing, Memory, Policy
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup, FakeMember, running_group, tasks

TASKS = 4
MEMBERS = 4
ALL_TASKS = sorted(tasks("a", *range(-1, TASKS)))
AWAITED_MS = 35_000


@dataclass(frozen=True)
class TakeOver:
    """``moves``: of tasks to members, by their numbers, by a stock worker that leads. ``reported``: whether
    the broker tells what evicted members reported. ``late``: members that are back after ``late_ms``.
    ``lost``: members that end before they are back, which is proven then. ``remembers``: whether there is a
    memory."""

    moves: tuple[tuple[int, int], ...]
    reported: bool
    late: frozenset[int]
    late_ms: int
    lost: frozenset[int]
    remembers: bool


numbers = st.integers(0, MEMBERS - 1)
take_overs = st.builds(
    TakeOver,
    moves=st.lists(st.tuples(st.integers(0, TASKS), numbers), max_size=4).map(tuple),
    reported=st.booleans(),
    late=st.frozensets(numbers, max_size=2),
    late_ms=st.integers(0, AWAITED_MS - 5_000),
    lost=st.frozensets(numbers, max_size=2),
    remembers=st.sampled_from([True, True, False]),
)


@settings(max_examples=examples(20, long=60))
@given(
    take_overs,
    st.lists(take_overs, max_size=1),
    st.booleans(),
    st.sampled_from([0, 60_000]),
    st.sampled_from(Fencing),
)
def test_nothing_runs_twice_and_all_runs_in_the_end(
    first: TakeOver, more: list[TakeOver], is_stock: bool, delay_ms: int, fencing: Fencing
) -> None:
    policy = Policy(scheduled_rebalance_max_delay_ms=delay_ms, fencing=fencing)
    group = running_group(policy, members=MEMBERS, task_count=TASKS, is_agent=not is_stock)
    for take_over in (first, *more):
        take(group, take_over, is_stock)
        for number in range(MEMBERS):
            if not any(member.identity == f"lake-{number}" for member in group.members.values()):
                group.join(f"lake-{number}", is_agent=not is_stock)
    group.round()
    for _ in range(4):
        group.settle()
        group.advance(60_000)
    assert group.all_running() == ALL_TASKS


def take(group: FakeGroup, how: TakeOver, is_stock: bool) -> None:
    group.machine.handle(ev.LeadLost("replaced"), group.now_ms)
    members = [group.of(f"lake-{number}") for number in range(MEMBERS)]
    for task, number in how.moves if is_stock else ():
        if not any(ALL_TASKS[task] in member.stopping for member in members):
            group.stranger_gives(ALL_TASKS[task], members[number])
    if not how.remembers:
        group.saved = Memory()
    away = [members[number] for number in sorted(how.late | how.lost)]
    for member in away:
        del group.members[member.member_id]
    if how.reported:
        group.take_lead(*(member.report() for member in members))
    else:
        group.take_lead(unread=[member.unread() for member in members])
    hold_a_round(group, away)
    group.advance(how.late_ms)
    hold_a_round(group, away)
    for number in sorted(how.lost):
        away.remove(members[number])
        group.members[members[number].member_id] = members[number]
        group.die(f"lake-{number}")
    hold_a_round(group, away)
    for member in away:
        group.members[member.member_id] = member
    for _ in range(3):
        hold_a_round(group, [])
        group.advance(AWAITED_MS)


def hold_a_round(group: FakeGroup, away: list[FakeMember]) -> None:
    """As ``FakeGroup.round``, which looks at those who are in it; what others run starts nowhere else."""
    group.round()
    running = set(group.all_running())
    for member in away:
        doubled = (member.running | member.stopping) & running
        assert not doubled, f"{doubled} still runs at the evicted {member.member_id}"
