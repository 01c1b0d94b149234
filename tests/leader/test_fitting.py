"""Plans that are too large for the group's record at the broker are handed out in several rounds."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.leader import answers
from cooperator.leader import events as ev
from cooperator.leader.fitting import NEW_KEEP_FREE, fit
from cooperator.leader.group_record import OVERHEAD_BYTES, GroupRecord, record_of, usable_bytes
from cooperator.model import (
    INSTANCE,
    Assignment,
    ClusterConfig,
    Desired,
    DesiredConnector,
    Epoch,
    Hold,
    Member,
    Memory,
    Policy,
    PolicyName,
    TaskId,
)
from cooperator.planner import Facts, View, Why, plan
from cooperator.wire import AgentAssignment, Protocol
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup, running_group
from tests.harness.stored_group import metadata_bytes, record_bytes

HOLD_MS = 60_000
NOBODY: frozenset[str] = frozenset()
URL = "http://leader/"
POLICIES = [PolicyName.DEFAULT, PolicyName.KIP415, PolicyName.EAGER]


def owned_by(
    members: dict[str, set[TaskId]], stopping: set[TaskId], is_agent: bool, draining: frozenset[str] = NOBODY
) -> tuple[Member, ...]:
    return tuple(
        Member(
            f"{identity}-1",
            identity,
            f"{identity}.1",
            tuple(sorted(tasks)),
            frozenset(tasks & stopping) if is_agent else frozenset(),
            draining=identity in draining,
            applied=Epoch(1, 4) if is_agent else None,
            is_agent=is_agent,
        )
        for identity, tasks in members.items()
    )


def ready(members: tuple[Member, ...], protocol: Protocol) -> ev.RoundReady:
    size = metadata_bytes(members, protocol)
    return ev.RoundReady(6, protocol.value, "leader-1", members, ("leader-1",), 7, ClusterConfig(), size)


@st.composite
def groups(draw: st.DrawFn) -> tuple[View, Memory, Protocol]:
    """Any group in any state: some tasks are reported, some wait, some are new, some are deleted."""
    names = draw(st.lists(st.text("abé-", min_size=1, max_size=40), min_size=1, max_size=12, unique=True))
    counts = {name: draw(st.integers(0, 8)) for name in names}
    identities = [f"lake-{n}" for n in range(draw(st.integers(1, 6)))]
    owned: dict[str, set[TaskId]] = {identity: set() for identity in identities}
    given_before: dict[str, set[TaskId]] = {identity: set() for identity in identities}
    stopping: set[TaskId] = set()
    held: set[TaskId] = set()
    for task in [TaskId(name, number) for name in names for number in range(INSTANCE, counts[name])]:
        match draw(st.sampled_from(["new", "new", "owned", "owned", "stopping", "held", "owed"])):
            case "owned":
                owned[draw(st.sampled_from(identities))].add(task)
            case "stopping":
                owned[draw(st.sampled_from(identities))].add(task)
                stopping.add(task)
            case "held":
                held.add(task)
            case "owed":
                given_before[draw(st.sampled_from(identities))].add(task)
    for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
        del counts[name]
    is_agent = draw(st.booleans())
    protocol = Protocol.DEFAULT if not is_agent and draw(st.booleans()) else Protocol.SESSIONED
    if protocol is Protocol.DEFAULT:
        owned = {identity: set() for identity in identities}
    leaving = draw(st.sampled_from([NOBODY, frozenset(identities[:1])]))
    members = owned_by(owned, stopping, is_agent, leaving)
    policy = Policy(
        name=PolicyName.EAGER if protocol is Protocol.DEFAULT else draw(st.sampled_from(POLICIES)),
        scheduled_rebalance_max_delay_ms=draw(st.sampled_from([0, HOLD_MS])),
    )
    facts = Facts(
        expected=frozenset({*identities, "lake-8", "lake-9"} if draw(st.booleans()) else identities),
        leaving=leaving,
        returning=draw(st.sampled_from([NOBODY, leaving])),
        ended=frozenset({("lake-9", "lake-9.1")}),
    )
    memory = Memory(
        1,
        5,
        {m.identity: frozenset(owned[m.identity] | given_before[m.identity]) for m in members},
        {m.identity: m.incarnation for m in members} | {"lake-9": "lake-9.1"},
        holds={"lake-9": Hold(frozenset(held), 0, HOLD_MS, incarnation="lake-9.1")} if held else {},
    )
    now_ms = draw(st.sampled_from([1_000, HOLD_MS + 1]))
    view = View(now_ms, 6, members, counts, policy, facts, last_completed_generation=5)
    return view, memory, protocol


@given(group=groups(), share=st.floats(0.3, 1.5), events=st.sampled_from(["", "Pod/lake-1/4711"]))
@settings(max_examples=examples(60, long=200), deadline=None)
def test_every_round_fits_and_its_memory_is_that_of_what_is_sent(
    group: tuple[View, Memory, Protocol], share: float, events: str
) -> None:
    view, before, protocol = group
    event = ready(view.members, protocol)
    whole, whole_memory = plan(view, before)
    empty_bytes = answers.empty_bytes(
        event, URL, AgentAssignment(Epoch(0, event.generation), view.policy.lease_ms)
    )
    record = record_of(view.members, event.idle_ids, event.metadata_bytes, empty_bytes)
    agent = AgentAssignment(Epoch(1, 6), view.policy.lease_ms, events)
    everything = answers.of_plan(event, whole, URL, agent, record, 10**9)
    full_bytes = answers.record_bytes(record, everything)
    limit_bytes = record.least_bytes + int(share * (full_bytes - record.least_bytes))
    fitted = fit(whole, whole_memory, view, before, record, limit_bytes)
    answer = answers.of_plan(event, fitted.plan, URL, agent, record, limit_bytes)
    size = record_bytes(view.members, answer.assignments, protocol=protocol)
    assert size <= answers.record_bytes(record, answer) + OVERHEAD_BYTES
    assert answers.record_bytes(record, answer) <= limit_bytes

    sent = {m: fitted.plan.assignments[m.member_id] for m in view.members}
    cut: set[TaskId] = set()
    for member, assignment in sent.items():
        planned = whole.assignments[member.member_id]
        assert set(assignment.assigned) <= set(planned.assigned)
        assert set(assignment.revoked) <= set(planned.revoked)
        assert set(assignment.assigned) <= fitted.memory.given[member.identity]
        runs_on = set(planned.revoked) - set(assignment.revoked)
        assert not runs_on & fitted.plan.held.keys(), "nothing waits for a member that goes on running it"
        cut |= set(planned.assigned) - set(assignment.assigned)
    assert set(fitted.refused) <= cut
    assert fitted.plan.assigned_why.keys() == {t for each in sent.values() for t in each.assigned}
    assert fitted.plan.revoked_why.keys() == {t for each in sent.values() for t in each.revoked}
    listed = [task for tasks in fitted.memory.given.values() for task in tasks]
    if len(listed) > len(set(listed)):
        listed_before = [task for tasks in whole_memory.given.values() for task in tasks]
        assert len(listed_before) > len(set(listed_before))
    if fitted.plan is whole:
        assert fitted.memory is whole_memory or fitted.memory == whole_memory


@given(group=groups(), share=st.floats(0.0, 1.2))
@settings(max_examples=examples(40, long=100), deadline=None)
def test_new_tasks_are_the_first_to_be_left_out(group: tuple[View, Memory, Protocol], share: float) -> None:
    view, before, protocol = group
    event = ready(view.members, protocol)
    whole, memory = plan(view, before)
    empty_bytes = answers.empty_bytes(
        event, URL, AgentAssignment(Epoch(0, event.generation), view.policy.lease_ms)
    )
    record = record_of(view.members, event.idle_ids, event.metadata_bytes, empty_bytes)
    fitted = fit(whole, memory, view, before, record, int(record.least_bytes * (1 + share)))
    ran = frozenset[TaskId]().union(*before.given.values(), *(h.tasks for h in before.holds.values()))
    sent = {task for each in fitted.plan.assignments.values() for task in each.assigned}
    left_out = {task for each in whole.assignments.values() for task in each.assigned} - sent
    new = {task for task in sent if task not in ran and whole.assigned_why[task].why is Why.CREATED}
    if left_out & ran:
        assert not new
    urgent = {t for t, why in whole.revoked_why.items() if why.why is not Why.BALANCE}
    if urgent - fitted.plan.revoked_why.keys():
        assert not sent, "nothing is assigned while something that must stop cannot be revoked"


@dataclass
class Sized:
    """A group whose broker has a small limit, and the connectors that a test has made."""

    group: FakeGroup
    connectors: dict[str, int]

    def create(self, **counts: int) -> None:
        self.connectors |= counts
        self.group.want(
            Desired(
                1,
                {
                    name: DesiredConnector({"connector.class": "noop", "tasks.max": str(count)})
                    for name, count in self.connectors.items()
                },
            )
        )
        self.settle()
        for name, count in counts.items():
            self.post(name, count)
        self.settle()

    def post(self, name: str, count: int) -> None:
        while self.group.post(name, *(f"u{n}" for n in range(count))) == 503:
            self.group.advance(1_000)

    def settle(self) -> None:
        self.group.settle(60)
        assert not self.group.refused_rounds

    def wanted(self) -> set[TaskId]:
        return {TaskId(name, n) for name, count in self.connectors.items() for n in range(-1, count)}

    def running(self) -> set[TaskId]:
        return set(self.group.all_running())

    def restarts(self) -> dict[TaskId, int]:
        return {t: m.starts.count(t) for m in self.group.members.values() for t in m.starts}

    def least_bytes(self) -> int:
        reports = tuple(member.report() for member in self.group.members.values())
        assert self.group.answers is not None
        return record_bytes(reports, dict.fromkeys(self.group.answers, b"x" * 60))


def sized(members: int, limit: int, name: PolicyName = PolicyName.DEFAULT) -> Sized:
    policy = Policy(name=name, scheduled_rebalance_max_delay_ms=HOLD_MS)
    group = FakeGroup(policy, max_group_bytes=usable_bytes(limit))
    group.record_limit = limit
    identities = [f"lake-{number}" for number in range(members)]
    for identity in identities:
        group.join(identity)
    group.facts(Facts(expected=frozenset(identities)))
    group.round()
    return Sized(group, {})


def replace_all(sized: Sized) -> None:
    """All members end, and come back empty, as on a cold start."""
    group = sized.group
    identities = sorted({member.identity for member in group.members.values()})
    for identity in identities:
        group.die(identity)
    group.round()
    for identity in identities:
        group.join(identity)
    group.round()
    sized.settle()


counts = st.dictionaries(st.text("abcd", min_size=1, max_size=30), st.integers(1, 6), min_size=1, max_size=10)


@given(members=st.integers(1, 5), counts=counts, room=st.integers(300, 3_000), at_once=st.booleans())
@settings(max_examples=examples(15, long=40), deadline=None)
def test_rounds_lead_to_everything_that_fits_and_nothing_that_runs_is_ever_taken_away_for_size(
    members: int, counts: dict[str, int], room: int, at_once: bool
) -> None:
    limit = OVERHEAD_BYTES + 700 * (members + 1) + room
    sized_ = sized(members, limit)
    for part in [counts] if at_once else [{name: count} for name, count in counts.items()]:
        before = sized_.running()
        sized_.create(**part)
        assert before <= sized_.running()
    group, state = sized_.group, sized_.group.machine.state
    running, refused = sized_.running(), set(state.refused_tasks)
    assert running | refused == sized_.wanted()
    assert not running & refused
    free = usable_bytes(limit) - record_of_reports(group).least_bytes
    reserve = usable_bytes(limit) // NEW_KEEP_FREE
    if refused:
        first = min(refused)
        assert first.connector in state.refusal
        assert free < reserve + 10 + len(first.connector), "there is no room for one more"
    else:
        assert state.refusal == ""
        assert free >= reserve - 100

    # All that runs runs again after a cold start.
    replace_all(sized_)
    group.advance(HOLD_MS)
    sized_.settle()
    assert running <= sized_.running()

    # A death is processed, whatever does not fit.
    if members > 1:
        survivors = {i: group.runs(i) for i in (f"lake-{n}" for n in range(1, members))}
        group.die("lake-0")
        group.round()
        assert group.machine.state.memory.holds.keys() <= {"lake-0"}
        group.advance(HOLD_MS)
        sized_.settle()
        assert all(tasks <= group.runs(identity) for identity, tasks in survivors.items())
        assert running <= sized_.running()

    # A larger limit is noticed, and a smaller one takes nothing away.
    group.record_limit = 10 * limit
    group.advance(HOLD_MS)
    sized_.settle()
    assert sized_.running() == sized_.wanted()
    assert state.refusal == ""


def record_of_reports(group: FakeGroup) -> GroupRecord:
    reports = tuple(member.report() for member in group.members.values())
    empty_bytes = group.machine.state.record.empty_bytes
    return record_of(reports, ("leader-1",), metadata_bytes(reports), empty_bytes)


@pytest.mark.parametrize("policy", POLICIES)
@given(members=st.integers(1, 4), counts=counts, room=st.integers(300, 2_000))
@settings(max_examples=examples(10, long=25), deadline=None)
def test_no_policy_makes_a_round_that_the_broker_refuses(
    policy: PolicyName, members: int, counts: dict[str, int], room: int
) -> None:
    sized_ = sized(members, OVERHEAD_BYTES + 700 * (members + 1) + room, policy)
    sized_.create(**counts)
    group = sized_.group
    if members > 1:
        group.die("lake-0")
        group.round()
    group.advance(HOLD_MS)
    sized_.settle()
    group.join("lake-7")
    group.round()
    group.advance(HOLD_MS)
    sized_.settle()
    assert not sized_.running() & set(group.machine.state.refused_tasks)


def test_a_scale_up_of_a_group_that_is_nearly_full_is_balanced_in_several_rounds() -> None:
    """Half of all tasks at once would be named twice, and not fit."""
    sized_ = sized(2, 8_000)
    sized_.create(a=1_200)
    group = sized_.group
    assert group.machine.state.refusal == ""
    for identity in ("lake-2", "lake-3"):
        group.join(identity)
        group.round()
    group.settle(60)
    assert not group.refused_rounds
    assert sized_.running() == sized_.wanted()
    loads = [len(member.running) for member in group.members.values()]
    assert max(loads) - min(loads) <= 2
    assert len([r for r in group.machine.state.history.rebalances if r.revoked]) > 2


def test_a_balance_that_would_not_fit_is_not_begun() -> None:
    """A connector whose instance and task are at two members is named by two reports."""
    sized_ = sized(2, 11_000)
    sized_.create(**{f"connector-with-a-long-name-{n:03}": 1 for n in range(170)})
    group = sized_.group
    for identity in ("lake-2", "lake-3"):
        group.join(identity)
        group.round()
        group.settle(60)
    assert not group.refused_rounds
    assert sized_.running() == sized_.wanted()
    assert all(member.running for member in group.members.values())


def test_a_new_connector_that_does_not_fit_is_named_with_the_remedy_and_the_others_run_on() -> None:
    group = running_group(max_group_bytes=usable_bytes(2_700))
    group.record_limit = 2_700
    before = {m.identity: set(m.running) for m in group.members.values()}
    group.desire(a=6, **{f"connector-{n}": 1 for n in range(60)})
    group.settle()
    state = group.machine.state
    assert state.refused_tasks
    assert f"{len(state.refused_tasks)} tasks of connector-" in state.refusal
    assert "raise max.message.bytes of __consumer_offsets" in state.refusal
    assert all(before[m.identity] <= m.running for m in group.members.values())
    group.advance(29_000)
    assert group.rejoins == [], "a refusal is no reason for a round"


def test_a_refusal_is_over_when_its_connectors_are_deleted() -> None:
    group = running_group(max_group_bytes=1_700)
    group.desire(a=6, **{f"connector-{n}": 1 for n in range(60)})
    group.settle()
    assert group.machine.state.refusal
    group.desire(a=6, b=0)
    group.settle()
    assert group.machine.state.refusal == ""
    assert len(group.all_running()) == 7 + 1


def test_a_raised_limit_is_noticed_within_a_minute_and_without_a_restart() -> None:
    group = running_group(max_group_bytes=1_700)
    group.record_limit = 2_700
    group.desire(a=6, **{f"connector-{n}": 1 for n in range(60)})
    group.settle()
    assert group.machine.state.refusal
    group.record_limit = 1_048_588
    group.advance(60_000)
    group.settle()
    assert group.machine.state.refusal == ""
    assert len(group.all_running()) == 7 + 60


def test_a_lowered_limit_is_noticed_when_a_round_fails_and_takes_nothing_away() -> None:
    group = running_group()
    group.desire(a=6, **{f"connector-{n}": 1 for n in range(40)})
    group.settle()
    before = {m.identity: set(m.running) for m in group.members.values()}
    group.record_limit = 2_800
    group.desire(a=6, **{f"connector-{n}": 1 for n in range(40)}, **{f"later-{n}": 1 for n in range(90)})
    assert group.asks_for_round()
    group.round()
    assert group.refused_rounds == 1
    group.advance(60_000)
    group.settle()
    assert group.refused_rounds == 1
    assert group.machine.state.refused_tasks
    assert all(before[m.identity] <= m.running for m in group.members.values())


def test_revocations_are_sent_where_even_the_reports_are_larger_than_the_limit_that_is_assumed() -> None:
    """The limit may not be readable. The broker knows it, and decides."""
    group = running_group()
    group.record_limit = 1_048_588
    group._do(ev.GroupLimitRead(OVERHEAD_BYTES + 100))
    group.round()
    assert "not even the members' reports fit" in group.machine.state.refusal
    group.desire(b=0)
    group.settle()
    assert not any(task.connector == "a" for task in group.all_running())


def test_tasks_that_wait_for_their_member_keep_their_room() -> None:
    sized_ = sized(3, 6_000)
    sized_.create(**{f"connector-{n}": 2 for n in range(20)})
    group = sized_.group
    running, lost = sized_.running(), group.runs("lake-1")
    assert running == sized_.wanted()
    assert lost
    group.die("lake-1")
    group.round()
    sized_.create(**{f"later-{n}": 2 for n in range(120)})
    assert group.machine.state.refused_tasks
    group.join("lake-1")
    group.round()
    sized_.settle()
    assert group.runs("lake-1") >= lost
    assert not group.refused_rounds


def test_an_assignment_that_is_cut_keeps_its_reason() -> None:
    view = View(1, 6, owned_by({"lake-0": set()}, set(), True), {"a": 3})
    tasks = [TaskId("a", n) for n in range(-1, 3)]
    before = Memory(1, 5, {}, {}, moving={"Drain:Node/n/1": frozenset(tasks[2:])})
    whole, memory = plan(view, before)
    assert set(whole.assignments["lake-0-1"].assigned) == set(tasks)
    record = GroupRecord(view.members, 100, 100, 10)
    fitted = fit(whole, memory, view, before, record, 200 + 32)
    assert fitted.plan.assignments["lake-0-1"] == Assignment(tuple(tasks[2:]))
    assert fitted.memory.given == {"lake-0": frozenset(tasks[2:])}
    fitted = fit(whole, memory, view, before, record, 200 + 20)
    assert fitted.plan.is_empty
    assert fitted.memory.moving == {"Drain:Node/n/1": frozenset(tasks[2:])}
