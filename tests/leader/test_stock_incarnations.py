"""Several incarnations of one stock worker are evicted: none is given what another one may still run.

A pod that was replaced without an end that anybody has seen (its node's object was deleted, say) runs on,
under the client id of its successor. Only its address, or its number, tells that it is not back yet.
"""

from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cooperator.leader import events as ev
from cooperator.leader.absences import may_be_stock, not_back
from cooperator.model import Fencing, Hold, Member, Memory, Policy, PolicyName, Unstopped
from cooperator.planner.view import Facts
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup, FakeMember, tasks

TASKS = 3
ALL_TASKS = sorted(tasks("a", *range(-1, TASKS)))
AWAITED_MS = 35_000
IDENTITIES = ("lake-0", "lake-1")


def group_of(
    incarnations: int, owners: tuple[int, ...], policy: Policy, *, has_addresses: bool, is_agent: bool = False
) -> tuple[FakeGroup, list[FakeMember]]:
    """``incarnations`` of lake-1 beside one lake-0; of all tasks, by number, the one that runs it."""
    group = FakeGroup(policy)
    group.facts(Facts(expected=frozenset(IDENTITIES)))
    members = []
    for identity in (IDENTITIES[0], *[IDENTITIES[1]] * incarnations):
        url = f"http://10.0.0.{len(members)}:8083/" if has_addresses else ""
        members.append(group.join(identity, is_agent=is_agent, url=url))
        group.round()
    group.desire(a=TASKS)
    group.settle()
    assert group.post("a", *(f"u{n}" for n in range(TASKS))) == 204
    group.settle()
    for task, owner in zip(ALL_TASKS, owners, strict=True):
        group.stranger_gives(task, members[owner])
    return group, members


def check_once(group: FakeGroup, members: list[FakeMember]) -> None:
    """Measured at the processes, members of the group or not."""
    running = [task for member in members for task in member.running | member.stopping]
    assert len(running) == len(set(running)), "a task runs twice"
    assert set(group.all_running()) <= set(running)


@settings(max_examples=examples(25, long=80))
@given(
    incarnations=st.integers(1, 3),
    owners=st.tuples(*[st.integers(0, 3)] * len(ALL_TASKS)),
    order=st.permutations(range(4)),
    at_once=st.integers(1, 4),
    reported=st.booleans(),
    remembers=st.booleans(),
    has_addresses=st.booleans(),
    newcomer=st.booleans(),
    fencing=st.sampled_from(Fencing),
    policy_name=st.sampled_from([PolicyName.DEFAULT, PolicyName.DEFAULT, PolicyName.KIP415]),
    again_after=st.integers(0, 3),
)
@example(  # Seed 801376 of the simulation: the idle one is back first.
    incarnations=2,
    owners=(1, 0, 0, 1),
    order=[0, 2, 1, 3],
    at_once=1,
    reported=False,
    remembers=True,
    has_addresses=False,
    newcomer=False,
    fencing=Fencing.STRICT,
    policy_name=PolicyName.DEFAULT,
    again_after=0,
)
@example(  # The idle one is back, and is evicted again by the next leader.
    incarnations=2,
    owners=(1, 0, 0, 1),
    order=[0, 2, 1, 3],
    at_once=2,
    reported=True,
    remembers=True,
    has_addresses=True,
    newcomer=False,
    fencing=Fencing.STRICT,
    policy_name=PolicyName.DEFAULT,
    again_after=2,
)
@example(  # The successor of the only one is there before it.
    incarnations=1,
    owners=(1, 0, 0, 1),
    order=[0, 1, 2, 3],
    at_once=1,
    reported=False,
    remembers=True,
    has_addresses=True,
    newcomer=True,
    fencing=Fencing.STRICT,
    policy_name=PolicyName.DEFAULT,
    again_after=0,
)
def test_no_task_runs_twice_and_all_run_in_the_end_in_every_order_of_returns(
    incarnations: int,
    owners: tuple[int, ...],
    order: list[int],
    at_once: int,
    reported: bool,
    remembers: bool,
    has_addresses: bool,
    newcomer: bool,
    fencing: Fencing,
    policy_name: PolicyName,
    again_after: int,
) -> None:
    policy = Policy(name=policy_name, scheduled_rebalance_max_delay_ms=0, fencing=fencing)
    owners = tuple(min(owner, incarnations) for owner in owners)
    group, members = group_of(incarnations, owners, policy, has_addresses=has_addresses)
    processes = list(members)
    group.members.clear()
    if not remembers:
        group.saved = Memory()
    reports = [member.report() for member in members]
    if reported:
        group.take_lead(*reports)
    else:
        group.take_lead(unread=[member.unread() for member in members])
    # In mid-round no more is known than the address of the one that memory was given by.
    if newcomer and has_addresses and (reported or (remembers and incarnations == 1)):
        # One more, which nobody has evicted, is there before the others: only addresses tell.
        processes.append(group.join(IDENTITIES[1], is_agent=False, url="http://10.0.0.9:8083/"))
    returning = [members[number] for number in order if number < len(members)]
    for number, member in enumerate(returning):
        comes_back(group, member)
        if (number + 1) % at_once == 0:
            group.round()
            check_once(group, processes)
        # Only from a round with another incarnation, and not under Kafka's own policy, does the next leader
        # know that one is missing.
        knows = any(
            member.identity == IDENTITIES[1] for member in returning[: (number + 1) // at_once * at_once]
        )
        if number + 1 == again_after and knows and policy_name is PolicyName.DEFAULT:
            evicted_again(group, reported)
            check_once(group, processes)
    for _ in range(3):
        group.round()
        check_once(group, processes)
        group.settle()
        group.advance(AWAITED_MS)
    assert group.all_running() == ALL_TASKS
    check_once(group, processes)


def evicted_again(group: FakeGroup, reported: bool) -> None:
    """Another leader evicts those that are back, while others are still away; they are back in its round."""
    group.machine.handle(ev.LeadLost("crash"), group.now_ms)
    present = list(group.members.values())
    if reported:
        group.take_lead(*(member.report() for member in present))
    else:
        group.take_lead(unread=[member.unread() for member in present])
    group.members.clear()
    for member in present:
        comes_back(group, member)
    group.round()


def comes_back(group: FakeGroup, member: FakeMember) -> None:
    """A member that was evicted joins under a new member id, and runs on."""
    group.incarnations += 1
    member.incarnation = group.incarnations
    group.members[member.member_id] = member


@pytest.mark.parametrize("reported", [True, False], ids=["reported", "in mid-round"])
def test_tasks_of_another_incarnation_wait_only_while_evicted_members_are_awaited(
    reported: bool,
) -> None:
    group, (other, runs, idle) = group_of(2, (1, 1, 1, 1), Policy(), has_addresses=False)
    group.members.clear()
    members = (other, runs, idle)
    if reported:
        group.take_lead(*(member.report() for member in members))
    else:
        group.take_lead(unread=[member.unread() for member in members])
    for member in (other, idle):
        comes_back(group, member)
    group.round()
    group.advance(AWAITED_MS - 10_000)
    group.settle()
    assert group.all_running() == []
    group.advance(10_000)
    group.settle()
    assert group.all_running() == ALL_TASKS, "one that is in touch with the broker would be back by now"


def test_one_that_was_started_anew_in_its_pod_has_its_own_at_once() -> None:
    group, members = group_of(1, (0, 0, 1, 1), Policy(), has_addresses=True)
    group.members.clear()
    group.take_lead(*(member.report() for member in members))
    members[1].running.clear()
    for member in members:
        comes_back(group, member)
    group.round()
    assert group.all_running() == ALL_TASKS


def stock(incarnation: str, url: str = "") -> Member:
    return Member(incarnation, "w", incarnation, is_agent=False, url=url)


class TestWhoIsBack:
    @pytest.mark.parametrize("order", list(permutations(["1", "2", "3"])))
    def test_addresses_tell_and_then_numbers(self, order: tuple[str, ...]) -> None:
        urls = {"1": "http://x/", "2": "http://y/", "3": ""}
        evicted = [stock(name, urls[name]) for name in order]

        def away(*present: Member) -> set[str]:
            return {m.incarnation for m in not_back(evicted, present, frozenset(), True)}

        assert away() == {"1", "2", "3"}
        assert away(stock("7", "http://y/")) == {"1", "3"}
        assert away(stock("7", "http://y/"), stock("8", "http://z/")) == {"1"}
        assert away(stock("7", "http://x/"), stock("8", "http://x/"), stock("9", "http://y/")) == set()

    def test_an_end_that_is_proven_is_not_waited_for(self) -> None:
        assert not_back([stock("1")], [], {("w", "1")}, True) == ()

    @pytest.mark.parametrize("any_incarnation", [True, False])
    def test_an_agent_is_told_by_its_incarnation_where_nothing_else_is_known(
        self, any_incarnation: bool
    ) -> None:
        evicted = Member("m1", "w", "1")
        assert not_back([evicted], [Member("m2", "w", "1")], frozenset(), any_incarnation) == ()
        assert bool(not_back([evicted], [Member("m2", "w", "2")], frozenset(), any_incarnation)) is (
            not any_incarnation
        )


def test_a_round_without_workers_does_not_forget_that_a_stock_worker_may_come_back_and_lead() -> None:
    stock, agent = (Member(name, name, "1", is_agent=name == "agent") for name in ("stock", "agent"))
    mixed = Memory(stock=True)
    held = Hold(tasks("a", 0), 0, 10_000, 0)
    missing = (Unstopped("stock", "1", tasks("a", 0), leased=False),)
    assert may_be_stock([agent, stock], Memory(), Memory())
    assert may_be_stock([], mixed, Memory(holds={"stock": held}))
    assert may_be_stock([agent], mixed, Memory(unstopped=missing))
    assert not may_be_stock([agent], mixed, Memory()), "nobody is missing"
    assert not may_be_stock([agent], Memory(), Memory(holds={"agent": held}))
