"""Random events, in any order and of members that obey nobody: a leader's state is consistent after each one.

Where ``test_machine_histories`` plays a group that works, this is what a leader may be told at worst: rounds
that nobody asked for, reports that contradict each other, writes that fail, leads that come and go. Of its
shell only so much is true as the machine may rely on: a memory that is durable was to be saved, an answer is
delivered only if what came before it succeeded, and a wake-up comes when it was asked for.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from cooperator.leader import events as ev
from cooperator.leader.invariants import BrokenInvariant
from cooperator.leader.reconcile import task_records
from cooperator.leader.state import LeaderSettings
from cooperator.model import (
    Desired,
    DesiredConnector,
    Epoch,
    Member,
    Memory,
    Policy,
    PolicyName,
    TaskId,
)
from cooperator.planner.view import Facts
from cooperator.wire import (
    ConfigFold,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    RestartRecord,
    encode_config,
)
from tests.harness.validated_leader import ValidatedLeader
from tests.simulation import mutations, planted

assert mutations.FAST, "planted bugs are named where they are planted"

IDENTITIES = ["w0", "w1", "w2"]
CONNECTORS = ["a", "b"]
ITEMS = [TaskId(name, number) for name in CONNECTORS for number in (-1, 0, 1)]
HOLDS_MS = [0, 5_000, 60_000]

members = st.builds(
    lambda identity, number, owned, stops, agent, drains: Member(
        f"{identity}-{number}",
        identity,
        f"incarnation-{number}",
        tuple(owned),
        frozenset(owned[:1]) if stops else frozenset(),
        draining=drains,
        is_agent=agent,
        url=f"http://{identity}-{number}/",
    ),
    st.sampled_from(IDENTITIES),
    st.integers(1, 2),
    st.lists(st.sampled_from(ITEMS), unique=True, max_size=4),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
groups = st.lists(members, max_size=4, unique_by=lambda member: member.member_id).map(tuple)
incarnations = st.tuples(st.sampled_from(IDENTITIES), st.sampled_from(["incarnation-1", "incarnation-2"]))
facts = st.builds(
    Facts,
    expected=st.none() | st.frozensets(st.sampled_from(IDENTITIES)),
    leaving=st.frozensets(st.sampled_from(IDENTITIES), max_size=1),
    gone=st.frozensets(st.sampled_from(IDENTITIES), max_size=1),
    ended=st.frozensets(incarnations, max_size=3),
    cordoned=st.frozensets(st.sampled_from(IDENTITIES), max_size=1),
)
policies = st.builds(
    Policy,
    name=st.sampled_from([PolicyName.DEFAULT, PolicyName.DEFAULT, PolicyName.KIP415]),
    scheduled_rebalance_max_delay_ms=st.sampled_from(HOLDS_MS),
)


@dataclass
class Shell:
    """Carries out what it is instructed to, unless a log is away, and keeps what the logs say."""

    leader: ValidatedLeader = field(
        default_factory=lambda: ValidatedLeader(LeaderSettings("http://leader/"), Policy())
    )
    now_ms: int = 1_000_000
    saved: Memory = field(default_factory=Memory)
    fold: ConfigFold = field(default_factory=ConfigFold)
    offset: int = 0
    leader_log_away: bool = False
    config_log_away: bool = False
    answered: int | None = None
    """The generation whose answer was sent and is on its way."""
    wake_at_ms: int | None = None
    waiting: dict[int, int] = field(default_factory=dict)
    """Requests without a reply, and the time by which they must have one, or the end of this instruction."""
    requests: int = 0
    posted: dict[int, ev.TasksPosted] = field(default_factory=dict)

    def tell(self, event: ev.Event) -> None:
        instructions = self.leader.handle(event, self.now_ms)
        for instruction in instructions:
            if not self.carry_out(instruction):
                if isinstance(event, ev.RoundReady):
                    self.tell(ev.RoundFailed(event.generation, "a log is away"))
                self.tell(ev.StepFailed("a log is away"))
                return

    def carry_out(self, instruction: ev.Instruction) -> bool:
        match instruction:
            case ev.SaveMemory(memory):
                if self.leader_log_away:
                    return False
                self.saved = memory
                self.tell(ev.MemorySaved(memory))
            case ev.SavePolicy():
                return not self.leader_log_away
            case ev.WriteConfig(records, _, requests):
                if self.config_log_away:
                    return False
                self.append(records)
                self.tell(ev.ConfigWritten(records, self.offset, requests))
            case ev.MakeSessionKey():
                return not self.config_log_away
            case ev.Answer(generation):
                self.answered = generation
            case ev.Reply(request, code):
                assert request in self.waiting, "a request has one reply"
                del self.waiting[request]
                if code == ev.PostOutcome.WRITTEN and (posted := self.posted.get(request)) is not None:
                    known = self.fold.snapshot().connectors[posted.connector]
                    assert known.tasks == posted.configs, "the log has what was posted"
            case ev.WakeAt(at_ms):
                self.wake_at_ms = at_ms
        return True

    def append(self, records: Iterable[ConfigRecord]) -> None:
        for record in records:
            self.fold.apply(encode_config(record), self.offset)
            self.offset += 1

    def ask(self, event_of: Callable[[int], ev.Event], within_ms: int = 0) -> None:
        """A request is answered ``within_ms``."""
        self.requests += 1
        self.waiting[self.requests] = self.now_ms + within_ms
        event = event_of(self.requests)
        if isinstance(event, ev.TasksPosted):
            self.posted[event.request] = event
        self.tell(event)
        self.check_replies()

    def check_replies(self) -> None:
        late = [request for request, by_ms in self.waiting.items() if by_ms <= self.now_ms]
        assert not late, f"no reply to {late}"

    def pass_time(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while self.wake_at_ms is not None and self.wake_at_ms <= until_ms:
            self.now_ms, self.wake_at_ms = max(self.now_ms, self.wake_at_ms), None
            self.tell(ev.Tick())
            self.check_replies()
        self.now_ms = until_ms


class Events(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell()
        self.generation = 0
        for name in CONNECTORS:
            records = (ConnectorRecord(name, {"connector.class": "noop"}), *task_records(name, ({}, {})))
            self.shell.append(records)
        self.shell.tell(ev.LeadTaken(Memory(), self.shell.fold.snapshot()))
        newcomers = tuple(Member(f"{i}-1", i, "incarnation-1", url=f"http://{i}-1/") for i in IDENTITIES)
        self.members_join(newcomers, 0, "sessioned", None)
        self.assignments_arrive()

    @property
    def leading(self) -> bool:
        return self.shell.leader.state.leading

    @rule(evicted=groups, unread=groups, forgets=st.booleans())
    def the_lead_is_taken(
        self, evicted: tuple[Member, ...], unread: tuple[Member, ...], forgets: bool
    ) -> None:
        shell = self.shell
        memory = Memory() if forgets else shell.saved
        known = {member.member_id for member in evicted}
        shell.answered = None
        unread = tuple(replace(m, owned=()) for m in unread if m.member_id not in known)
        shell.tell(ev.LeadTaken(memory, shell.fold.snapshot(), evicted, unread))

    @rule()
    def the_lead_is_lost(self) -> None:
        self.shell.answered = None
        self.shell.tell(ev.LeadLost("another leads"))
        assert not self.shell.waiting, "nobody is kept waiting"

    @precondition(lambda self: self.leading)
    @rule(
        present=groups,
        ahead=st.sampled_from([0, 0, 0, 3]),
        protocol=st.sampled_from(["sessioned", "sessioned", "compatible", "default"]),
        applied=st.none() | st.integers(1, 9),
    )
    def members_join(
        self, present: tuple[Member, ...], ahead: int, protocol: str, applied: int | None
    ) -> None:
        shell = self.shell
        self.generation += 1
        shell.answered = None
        if applied is not None:
            present = tuple(replace(m, applied=Epoch(applied, 1)) if m.is_agent else m for m in present)
        config = shell.fold.snapshot()
        offsets = {member.member_id: config.offset for member in present if not member.is_agent}
        shell.tell(ev.Joining())
        shell.tell(
            ev.RoundReady(
                self.generation, protocol, "l", present, ("l",), config.offset + ahead, config, 0, offsets
            )
        )

    @precondition(lambda self: self.leading and self.shell.leader.state.members)
    @rule(leaves=st.integers(0, 4), newcomers=groups, arrives=st.booleans())
    def members_do_as_they_were_told(self, leaves: int, newcomers: tuple[Member, ...], arrives: bool) -> None:
        """But for the one that ``leaves``; ``newcomers`` run nothing yet."""
        expected = self.shell.leader.state.members
        present = {
            member.member_id: member.having(
                tuple(task for task in member.owned if task not in member.stopping),
                frozenset(),
                member.applied,
            )
            for number, member in enumerate(expected)
            if number != leaves
        }
        for member in newcomers[:2]:
            present.setdefault(member.member_id, replace(member, owned=(), stopping=frozenset()))
        self.members_join(tuple(present.values()), 0, "sessioned", None)
        if arrives and self.shell.answered is not None:
            self.assignments_arrive()

    @precondition(lambda self: self.shell.answered is not None)
    @rule()
    def assignments_arrive(self) -> None:
        generation, self.shell.answered = self.shell.answered, None
        assert generation is not None
        self.shell.tell(ev.Delivered(generation))

    @precondition(lambda self: self.leading)
    @rule(earlier=st.integers(0, 1))
    def a_round_is_void(self, earlier: int) -> None:
        self.shell.answered = None if earlier == 0 else self.shell.answered
        self.shell.tell(ev.RoundFailed(self.generation - earlier, "void"))

    @rule(names=st.dictionaries(st.sampled_from(CONNECTORS), st.booleans()))
    def connectors_are_desired(self, names: dict[str, bool]) -> None:
        wanted = {
            name: DesiredConnector({"connector.class": "noop"}, orphan=orphan)
            for name, orphan in names.items()
        }
        self.shell.tell(ev.DesiredChanged(Desired(1, wanted)))

    @rule()
    def the_config_log_is_read(self) -> None:
        self.shell.tell(ev.ConfigChanged(self.shell.fold.snapshot()))

    @rule(present=facts)
    def the_host_knows_more(self, present: Facts) -> None:
        self.shell.tell(ev.FactsChanged(present))

    @rule(policy=policies)
    def the_policy_changes(self, policy: Policy) -> None:
        self.shell.tell(ev.PolicyChanged(policy))

    @rule(wanted=st.booleans())
    def the_group_is_handed_back(self, wanted: bool) -> None:
        self.shell.tell(ev.HandBack(wanted))

    @rule(connector=st.sampled_from(CONNECTORS), units=st.lists(st.sampled_from("uvw"), max_size=3))
    def tasks_are_posted(self, connector: str, units: list[str]) -> None:
        configs = tuple({"units": unit} for unit in units)
        self.shell.ask(lambda request: ev.TasksPosted(connector, configs, request))

    @rule(connector=st.sampled_from(CONNECTORS), for_ms=st.sampled_from([100, 3_000, 60_000]))
    def a_restart_is_requested(self, connector: str, for_ms: int) -> None:
        until_ms = self.shell.now_ms + for_ms
        self.shell.ask(
            lambda request: ev.RestartRequested(RestartRecord(connector), until_ms, request), for_ms
        )

    @rule(connector=st.sampled_from(CONNECTORS), generation=st.integers(0, 2))
    def producers_are_fenced(self, connector: str, generation: int) -> None:
        record = FencingRecord(connector, 2)
        self.shell.tell(ev.FenceRequested(connector))
        self.shell.ask(lambda request: ev.ProducersFenced(record, generation, request))

    @rule(over=st.frozensets(incarnations, max_size=2), leftovers=st.booleans())
    def statuses_are_read(self, over: frozenset[tuple[str, str]], leftovers: bool) -> None:
        self.shell.tell(ev.StatusesRead({}, over, leftovers))

    @rule(leader_log=st.booleans(), config_log=st.booleans())
    def logs_go_and_come(self, leader_log: bool, config_log: bool) -> None:
        self.shell.leader_log_away, self.shell.config_log_away = leader_log, config_log

    @rule(ms=st.sampled_from([1, 250, 2_000, 30_000, 100_000]))
    def time_passes(self, ms: int) -> None:
        self.shell.pass_time(ms)


TestEvents = Events.TestCase
TestEvents.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


@given(steps=st.lists(st.sampled_from(["read", "wait", *range(3)]), max_size=12))
def test_tasks_that_are_said_to_be_written_are_in_the_log(steps: list[str | int]) -> None:
    """The shell asserts it, whatever the leader has read of the log. Nobody runs the connector."""
    machine = Events()
    shell = machine.shell
    shell.append((ConnectorRecord("new", {"connector.class": "noop"}), *task_records("new", ())))
    machine.the_config_log_is_read()
    for step in steps:
        if step == "read":
            machine.the_config_log_is_read()
        elif step == "wait":
            machine.time_passes(3_000)
        else:
            machine.tasks_are_posted("new", ["u"] * int(step))
    assert not shell.waiting


CAUGHT = (
    "NeverSavesItsMemory",
    "SleepsThroughTheEndOfAHold",
    "AssignsInTheRoundOfTheRevocation",
)


@pytest.mark.parametrize("name", CAUGHT)
def test_a_planted_bug_breaks_an_invariant(name: str) -> None:
    mutation = next(mutation for mutation in planted.ALL if mutation.name == name)
    with ExitStack() as stack:
        for each in mutation.plant():
            stack.enter_context(each)
        stack.enter_context(pytest.raises(BrokenInvariant))
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            Events,
            settings=settings(
                max_examples=500,
                stateful_step_count=30,
                deadline=None,
                derandomize=True,
                phases=[Phase.generate],
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
