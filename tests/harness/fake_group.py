"""A group in memory around a real leader machine: members that take up assignments, a config log that folds.

It stands in for broker, logs and agents where only the leader's decisions are under test. Time moves only
when a test says so. ``check`` asserts the promises that hold after every step.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from cooperator.leader import events as ev
from cooperator.leader.reconcile import grouped
from cooperator.leader.state import LeaderSettings
from cooperator.leader.stock.write_window import SETTLE_MS
from cooperator.model import (
    INSTANCE,
    Desired,
    DesiredConnector,
    Epoch,
    LearnerProgress,
    Member,
    Memory,
    Policy,
    SessionKey,
    TaskId,
    TaskState,
    TaskStatus,
    ToLearn,
    Warmth,
)
from cooperator.planner import Why
from cooperator.planner.view import Facts
from cooperator.wire import (
    ConfigFold,
    ConfigRecord,
    FencingRecord,
    Protocol,
    RestartRecord,
    SessionKeyRecord,
    apply_status,
    decode_assignment,
    encode_config,
)
from tests.harness.stored_group import metadata_bytes, record_bytes
from tests.harness.validated_leader import ValidatedLeader


@dataclass
class FakeMember:
    """An agent: what it runs, what it is stopping, which assignment it took up last.

    ``epochs`` gives the assignment under which it was given each item. ``gone_ms`` is when its process was
    last in the group, without a proof of its end. ``client_id`` is a stock worker's own name, if it is not
    ``identity``. ``url`` is where it serves.
    """

    identity: str
    incarnation: int
    running: set[TaskId] = field(default_factory=set)
    stopping: set[TaskId] = field(default_factory=set)
    applied: Epoch | None = None
    draining: bool = False
    is_agent: bool = True
    starts: list[TaskId] = field(default_factory=list)
    epochs: dict[TaskId, Epoch] = field(default_factory=dict)
    gone_ms: int | None = None
    warmth: Warmth = Warmth.WARM
    client_id: str = ""
    url: str = ""
    learns: bool = False

    @property
    def member_id(self) -> str:
        return f"{self.identity}-{self.incarnation}"

    def unread(self) -> Member:
        """A leader's knowledge of a member evicted in mid-round, when the broker reveals no reports."""
        known = self.report()
        return Member(known.member_id, known.identity, known.incarnation, is_agent=known.is_agent)

    def report(self) -> Member:
        return Member(
            member_id=self.member_id,
            identity=self.client_id or self.identity,
            # Kafka's worker has no other name of its process than the broker's (``wire.member_of``).
            incarnation=f"incarnation-{self.incarnation}" if self.is_agent else self.member_id,
            owned=tuple(sorted(self.running | self.stopping)),
            stopping=frozenset(self.stopping),
            draining=self.draining,
            applied=self.applied,
            is_agent=self.is_agent,
            warmth=self.warmth,
            url=self.url,
            learns=self.learns,
        )


class FakeGroup:
    def __init__(self, policy: Policy | None = None, *, leading: bool = True, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.machine = ValidatedLeader(LeaderSettings("http://leader/", **settings), policy or Policy())
        self.members: dict[str, FakeMember] = {}
        self.generation = 0
        self.protocol = "sessioned"
        self.incarnations = 0
        self.fold = ConfigFold()
        self.offset = 0
        self.read_to: int | None = None
        """The offset that members have read to, if it is not the end of the config log."""
        self.config_end: int | None = None
        self.saved = Memory()
        self.rejoins: list[str] = []
        self.evicted: list[str] = []
        self.written: list[str] = []
        self.wake_at_ms: int | None = None
        self.answers: dict[str, bytes] | None = None
        self.save_fails = False
        self.config_log_away = False
        self.config_log_unread = False
        """Its own reader hangs: what it writes reaches the log, and it does not hear of it."""
        self.too_large: set[str] = set()
        """Connectors whose records the broker rejects; ``refusals`` counts the attempts."""
        self.refusals = 0
        self.replies: dict[int, int] = {}
        self.requests = 0
        self.later: deque[ev.Event] = deque()
        self.working = False
        self.dead: set[tuple[str, str]] = set()
        self.departed: list[FakeMember] = []
        self.record_limit: int | None = None
        """The broker's limit of the group's record; ``refused_rounds`` counts those that it did not store."""
        self.refused_rounds = 0
        self.statuses: dict[TaskId, TaskStatus] = {}
        self.status_log_away = False
        self.stops_are_said_late = False
        self.late_words: list[TaskStatus] = []
        self.reads: list[ev.ReadStatuses] = []
        self.given: dict[TaskId, tuple[str, Epoch]] = {}
        self.started: set[tuple[TaskId, str, Epoch]] = set()
        if leading:
            self.take_lead()

    # --- what a test says ---

    def take_lead(self, *evicted: Member, unread: Iterable[Member] = ()) -> None:
        self._do(ev.LeadTaken(self.saved, self.fold.snapshot(), tuple(evicted), tuple(unread)))

    def join(self, identity: str, *, stranger: bool = False, **details: object) -> FakeMember:
        """If the host declares its expected members, add this one, unless it is a ``stranger``."""
        facts = self.machine.state.facts
        if not stranger and facts.expected is not None and identity not in facts.expected:
            self.facts(replace(facts, expected=facts.expected | {identity}))
        self.incarnations += 1
        member = FakeMember(identity, self.incarnations)
        for name, value in details.items():
            setattr(member, name, value)
        self.members[member.member_id] = member
        return member

    def die(self, identity: str, *, proven: bool = True, by: str = "") -> FakeMember:
        """End its process. The broker knows at once, the host only if ``proven``, from the event ``by``."""
        member = self.of(identity)
        del self.members[member.member_id]
        self.departed.append(member)
        member.gone_ms = None if proven else self.now_ms
        if proven:
            self.dead.add((identity, member.report().incarnation))
            self.facts(replace(self.machine.state.facts, ended=frozenset(self.dead)), by)
        return member

    def of(self, identity: str) -> FakeMember:
        return max(
            (m for m in self.members.values() if m.identity == identity),
            key=lambda member: member.incarnation,
        )

    def desire(self, **tasks_max: int) -> None:
        connectors = {
            name: DesiredConnector({"connector.class": "noop", "tasks.max": str(count)})
            for name, count in tasks_max.items()
        }
        self.want(Desired(1, connectors))

    def want(self, desired: Desired) -> None:
        self._do(ev.DesiredChanged(desired))

    def post(self, connector: str, *configs: str) -> int:
        posted = tuple({"units": units} for units in configs)
        code = self.ask(lambda request: ev.TasksPosted(connector, posted, request))
        assert code is not None, "its caller would wait for ever"
        return code

    def restart(self, record: RestartRecord, for_ms: int = 10_000) -> int:
        """Request a restart; the number of the request, for ``replies``."""
        self.ask(lambda request: ev.RestartRequested(record, self.now_ms + for_ms, request))
        return self.requests

    def fenced(self, record: FencingRecord, generation: int) -> int | None:
        return self.ask(lambda request: ev.ProducersFenced(record, generation, request))

    def ask(self, event_of: Callable[[int], ev.Event]) -> int | None:
        """The reply to a request; None: there is none yet."""
        self.requests += 1
        self._do(event_of(self.requests))
        return self.replies.get(self.requests)

    def lose_lead(self, reason: str = "another leads") -> None:
        self._do(ev.LeadLost(reason))

    def facts(self, facts: Facts, events: str = "") -> None:
        self._do(ev.FactsChanged(facts, events))

    def learned(self, member: FakeMember, **behind_bytes: int | None) -> tuple[ToLearn, ...]:
        """It reports how far it is behind (``a_0=5``: 5 bytes of the task a-0), and is told what to learn."""
        parts = {name.rpartition("_"): value for name, value in behind_bytes.items()}
        learned = {
            TaskId(name, int(number)): LearnerProgress(value) for (name, _, number), value in parts.items()
        }
        self.tell(ev.LearnerReported(member.member_id, learned))
        return self.machine.to_learn(member.member_id, self.now_ms) or ()

    def tell(self, event: ev.Event) -> None:
        self._do(event)

    def policy(self, policy: Policy) -> None:
        self._do(ev.PolicyChanged(policy))

    def round(self, *, deliver: bool = True, lost_to: Collection[str] = ()) -> None:
        """Everybody rejoins, the leader plans, and every member that the assignment reaches takes it up."""
        self.generation += 1
        self.rejoins.clear()
        self.answers = None
        reports = tuple(self.reported(m) for m in sorted(self.members.values(), key=lambda m: m.incarnation))
        config = self.fold.snapshot()
        given = dict(self.given)
        self._do(
            ev.RoundReady(
                self.generation,
                self.protocol,
                "leader-1",
                reports,
                ("leader-1",),
                self.offset or -1 if self.read_to is None else self.read_to,
                config,
                0 if self.record_limit is None else metadata_bytes(reports, Protocol(self.protocol)),
                offsets={} if self.read_to is None else dict.fromkeys(self.members, self.read_to),
                config_end=self.config_end,
            )
        )
        answers = [(self.members[i], data) for i, data in (self.answers or {}).items() if i in self.members]
        for member, data in answers:
            self._give(member, data, given)
        if self.answers is not None and not self._stores(reports):
            self.refused_rounds += 1
            self._do(ev.RoundFailed(self.generation, ""))
            return
        if self.answers is None or not deliver:
            self._do(ev.RoundFailed(self.generation, "not delivered"))
            return
        for member, data in answers:
            if member.identity not in lost_to:
                self._take_up(member, data)
        self.check()
        self._do(ev.Delivered(self.generation))
        if any(not member.is_agent for member in self.members.values()):
            self.advance(SETTLE_MS)

    def reported(self, member: FakeMember) -> Member:
        """The report in the member's JoinGroup."""
        return member.report()

    def _stores(self, reports: tuple[Member, ...]) -> bool:
        assert self.answers is not None
        size = record_bytes(reports, self.answers, protocol=Protocol(self.protocol))
        return self.record_limit is None or size <= self.record_limit

    def stranger_gives(self, task: TaskId, to: FakeMember) -> None:
        """A stock worker leads and leaves no memory: it moves ``task``, in two rounds if the task runs."""
        for holder in self.members.values():
            self.generation += task in holder.running
            holder.running.discard(task)
        self.generation += 1
        to.running.add(task)
        to.epochs[task] = Epoch(0, self.generation)
        self.started.add((task, to.member_id, to.epochs[task]))
        self._say(to, task, TaskState.STARTING)

    def settle(self, rounds: int = 20) -> int:
        """Let stops finish and play rounds until none is requested; returns their number."""
        for count in range(rounds):
            revoked = [m for m in self.members.values() if m.stopping]
            for member in revoked:
                self.stop(member)
            if not revoked and not self.asks_for_round():
                return count
            self.round()
        raise AssertionError(f"not at rest after {rounds} rounds; asked: {self.rejoins}")

    def stop(self, member: FakeMember) -> None:
        """Finish the member's stops and report them."""
        for task in member.stopping:
            self._say(member, task, TaskState.UNASSIGNED)
        member.stopping.clear()

    def asks_for_round(self) -> bool:
        """Whether the leader requests a round once it has had the time to collect changes."""
        self.advance(self.machine.settings.coalesce_ms)
        return bool(self.rejoins)

    def advance(self, ms: int) -> None:
        """Let time pass; the leader is woken when it asked to be."""
        target = self.now_ms + ms
        for word in self.late_words:
            apply_status(self.statuses, word)
        self.late_words.clear()
        while self.wake_at_ms is not None and self.wake_at_ms <= target:
            self.now_ms = max(self.now_ms, self.wake_at_ms)
            self.wake_at_ms = None
            self._do(ev.Tick())
        self.now_ms = target
        self._do(ev.Tick())

    # --- what a test looks at ---

    def runs(self, identity: str) -> set[TaskId]:
        return set(self.of(identity).running)

    def all_running(self) -> list[TaskId]:
        return sorted(task for member in self.members.values() for task in member.running)

    def check(self) -> None:
        """Promise 1: nothing runs or stops in two places."""
        seen: dict[TaskId, str] = {}
        for member in self.members.values():
            for task in member.running | member.stopping:
                assert task not in seen, f"{task} at {seen[task]} and {member.member_id}"
                seen[task] = member.member_id

    # --- the wiring ---

    def _do(self, event: ev.Event) -> None:
        """As the leader's thread does: one event and its instructions after the other."""
        self.later.append(event)
        if self.working:
            return
        self.working = True
        try:
            while self.later:
                self._step(self.later.popleft())
        finally:
            self.working = False

    def _step(self, event: ev.Event) -> None:
        for instruction in self.machine.handle(event, self.now_ms):
            if not self._carry_out(instruction):
                self._step(ev.StepFailed("a log is out of reach", unwritten=True))
                return

    def _carry_out(self, instruction: ev.Instruction) -> bool:
        """Whether that succeeded."""
        match instruction:
            case ev.SaveMemory(memory):
                if self.save_fails:
                    return False
                self.saved = memory
                self._step(ev.MemorySaved(memory))
            case ev.Answer(_, assignments):
                self.answers = dict(assignments)
            case ev.RequestRejoin(reason):
                self.rejoins.append(reason)
            case ev.WriteConfig(records, _, requests):
                if self.config_log_away:
                    return False
                by_connector = grouped(records)
                whole = self.too_large.isdisjoint(by_connector)
                for connector, part in {"": records}.items() if whole else by_connector.items():
                    if connector in self.too_large:
                        self.refusals += 1
                        self._step(ev.ConfigRefused(connector, part, "a record exceeds the limit", requests))
                    else:
                        self.written.extend(encode_config(record).key for record in part)
                        self._append(part, requests)
            case ev.MakeSessionKey():
                if self.config_log_away:
                    return False
                self._append((SessionKeyRecord(SessionKey(b"k" * 32, "HmacSHA256", self.now_ms)),), ())
            case ev.Evict(member_ids):
                self.evicted.extend(member_ids)
            case ev.Reply(request, code):
                assert request not in self.replies, "a request has one reply"
                self.replies[request] = code
            case ev.WakeAt(at_ms):
                self.wake_at_ms = at_ms
            case ev.ReadStatuses(incarnations, leftovers):
                self.reads.append(instruction)
                if not self.status_log_away:
                    self.later.append(ev.StatusesRead(dict(self.statuses), incarnations, leftovers))
            case ev.ReadGroupLimit():
                self.later.append(ev.GroupLimitRead(self.record_limit))
            case ev.ForgetStatuses(items):
                self._forget(items)
        return True

    def write(self, records: Iterable[ConfigRecord]) -> None:
        """Somebody writes to the config log."""
        self._fold(records)
        self._do(ev.ConfigChanged(self.fold.snapshot()))

    def _append(self, records: tuple[ConfigRecord, ...], requests: tuple[int, ...]) -> None:
        self._fold(records)
        self._step(ev.ConfigWritten(records, self.offset, requests))
        if not self.config_log_unread:
            self.later.append(ev.ConfigChanged(self.fold.snapshot()))

    def _fold(self, records: Iterable[ConfigRecord]) -> None:
        for record in records:
            self.fold.apply(encode_config(record), self.offset)
            self.offset += 1

    def _say(self, member: FakeMember, task: TaskId, state: TaskState) -> None:
        """Reports of stops may be late; those of starts come first."""
        status = TaskStatus(task, state, member.report().worker_id, member.epochs[task], self.now_ms)
        if state is TaskState.UNASSIGNED and self.stops_are_said_late:
            self.late_words.append(status)
        else:
            apply_status(self.statuses, status)

    def _forget(self, items: Iterable[TaskId]) -> None:
        """A status may be forgotten once its item is gone from the configuration and from everywhere else."""
        lease_ms = self.machine.state.policy.lease_ms
        ghosts = [m for m in self.departed if m.gone_ms is not None and self.now_ms < m.gone_ms + lease_ms]
        for item in items:
            assert self.fold.snapshot().task_config(item) is None, f"{item} is configured"
            for member in (*self.members.values(), *ghosts):
                assert item not in member.running | member.stopping, f"{item} at {member.member_id}"
            del self.statuses[item]

    def _give(self, member: FakeMember, data: bytes, before: dict[TaskId, tuple[str, Epoch]]) -> None:
        """Record what the leader sends, delivered or not, and check its claims that tasks never started."""
        assignment = decode_assignment(data)
        if assignment.agent is None:
            return
        plan, absent = self.machine.state.plan, {m.member_id: m for m in self.departed}
        assert plan is not None
        owed = self.machine.state.planned_with.given.get(member.identity, ())
        for task in assignment.assigned:
            last, epoch = before.get(task, ("", Epoch(0, 0)))
            # Tasks that return to their assigned member say nothing about where a stranger moved them.
            moved = last in absent and absent[last].identity != member.identity and task not in owed
            if plan.assigned_why[task].why is Why.UNDELIVERED and moved:
                assert (task, last, epoch) not in self.started, f"{task} did start at {last}"
            self.given[task] = (member.member_id, assignment.agent.epoch)

    def _take_up(self, member: FakeMember, data: bytes) -> None:
        assignment = decode_assignment(data)
        if assignment.error:
            return
        if assignment.agent is None:
            assert assignment.assigned == assignment.revoked == ()
            return
        member.applied = assignment.agent.epoch
        for task in assignment.revoked:
            member.running.discard(task)
            member.stopping.add(task)
        for task in assignment.assigned:
            assert task not in member.running, f"{member.member_id} is given {task} twice"
            member.running.add(task)
            member.starts.append(task)
            self.started.add((task, member.member_id, member.applied))
            member.epochs[task] = member.applied
            self._say(member, task, TaskState.STARTING)


def tasks(connector: str, *numbers: int) -> set[TaskId]:
    return {TaskId(connector, number) for number in numbers}


def running_group(
    policy: Policy | None = None,
    members: int = 3,
    task_count: int = 6,
    is_agent: bool = True,
    **settings: Any,
) -> FakeGroup:
    """A settled group that runs connector ``a``."""
    group = FakeGroup(policy, **settings)
    for number in range(members):
        group.join(f"lake-{number}", is_agent=is_agent)
    group.facts(Facts(expected=frozenset(f"lake-{number}" for number in range(members))))
    group.round()
    group.desire(a=task_count)
    group.settle()
    assert group.post("a", *(f"u{n}" for n in range(task_count))) == 204
    group.settle()
    assert set(group.all_running()) == tasks("a", INSTANCE, *range(task_count))
    return group
