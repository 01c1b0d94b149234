"""The whole world: one broker, one Kubernetes, members, operators, and randomness.

The surroundings of the project's code are simulated: time, network, broker, Kubernetes, processes and Spark.
Everything that decides is the project's own.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from random import Random

from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.ownership import GroupPolicy
from cooperator.logs import Topics as TopicNames
from cooperator.model import Fencing, Member, Memory, Policy, PolicyName, StateReplicas
from cooperator.planner.plan import Plan
from cooperator.planner.view import View
from cooperator.pool import PoolPolicy
from cooperator.reconciliation import Answer as ReportAnswer
from cooperator.reconciliation import Rejection, Report, decode_record
from cooperator.reconciliation.messages import decode_answer, decode_report
from cooperator.reconciliation.records import RecordKey, Value
from cooperator.wire import Record, decode_assignment
from tests.simulation.broker.machine import GroupCoordinator
from tests.simulation.broker.messages import Answer, Error, Heartbeaten, Joined, Synced, SyncGroup
from tests.simulation.broker.settings import BrokerSettings
from tests.simulation.cluster import Cluster
from tests.simulation.fleets import Agents, Fleet
from tests.simulation.link import BrokerPort
from tests.simulation.loop import Loop
from tests.simulation.network import Network
from tests.simulation.operator_process import OperatorProcess
from tests.simulation.process import Process
from tests.simulation.scheduler import Scheduler
from tests.simulation.spec import Spec, Times
from tests.simulation.stepped import Endpoint
from tests.simulation.tasks import Copies, Copy
from tests.simulation.topics import Topics
from tests.simulation.worker import WorkerProcess

GROUP = "lake"
WHAT_IF = "what if"


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened, for a story."""

    at_ms: int
    what: str


@dataclass(frozen=True, slots=True)
class Planned:
    """One round as a leader planned it; ``after`` is the memory after it."""

    view: View
    memory: Memory
    plan: Plan
    after: Memory

    def speaks(self, member: Member) -> bool:
        """Whether ``member`` is the newest incarnation of its identity."""
        return self.after.incarnations.get(member.identity) == member.incarnation


@dataclass
class Lock:
    """The operators' Lease object."""

    duration_ms: int
    holder: str = ""
    renewed_ms: int = 0

    def acquire(self, name: str, now_ms: int) -> bool:
        if self.holder not in ("", name) and now_ms < self.renewed_ms + self.duration_ms:
            return False
        self.holder, self.renewed_ms = name, now_ms
        return True


@dataclass(frozen=True, slots=True)
class Shape:
    """The start of a world. ``operators`` is the number of Deployments' pods. ``warm_up_ms`` is the longest
    time that a member's runtime takes before it can run anything; 0 means that it can at once.
    ``record_bytes`` is the broker's limit of the group's record while faults happen; 0 means Kafka's default.
    ``policy`` is the Worker's. ``state`` is set in worlds whose tasks have state; there, nobody catches up on
    the tasks with the number ``unlearnable``.
    ``policy`` is the Worker's. ``reconciling`` is the share of incarnations of ours that offer reconciliation
    without rounds; the leader asks for it if it is not 0.
    """

    replicas: int
    nodes: int
    operators: int
    connectors: tuple[tuple[str, int], ...]
    restarts_in_place: bool
    slow: int
    hold_ms: int
    fleet: type[Fleet] = Agents
    warm_up_ms: int = 0
    record_bytes: int = 0
    policy: PolicyName = PolicyName.DEFAULT
    state: StateReplicas | None = None
    unlearnable: int = -2
    reconciling: float = 0.0


class Simulation:
    def __init__(self, shape: Shape, random: Random, times: Times) -> None:
        self.random = random
        self.times = times
        self.shape = shape
        self.over = False
        self.scheduler = Scheduler()
        self.network = Network(random)
        self.clocks: Counter[str] = Counter()
        """By place: the error (ms) of its wall clock. What starts there has it."""
        self.topics = Topics(self)
        self.group_id = GROUP
        self.topic_names = TopicNames.of(GROUP)
        self.group_policy = GroupPolicy.ADOPT if shape.fleet.has_stock else GroupPolicy.CREATE
        self.policy = Policy(
            name=shape.policy,
            scheduled_rebalance_max_delay_ms=times.hold_ms,
            lease_ms=times.lease_ms,
            lease_margin_ms=times.lease_margin_ms,
            join_wait_ms=times.join_wait_ms,
            # Nobody proves the end of a stock worker here: held forever, its tasks would never be at rest.
            fencing=Fencing.BEST_EFFORT,
            depart_warm_ms=times.drain_ms // 2,
            reconciles=shape.reconciling > 0,
        )
        self.pool_policy = PoolPolicy(
            drain_timeout_ms=times.drain_ms,
            backoff_initial_ms=500,
            backoff_max_ms=4_000,
            healthy_after_ms=20_000,
            scale_down_delay_ms=1_000,
            scale_down_wait_max_ms=30_000,
            stand_in_after_ms=20_000,
            ready_timeout_ms=30_000,
            retry_ms=3_000,
            poison_deaths=1_000,
        )
        settings = BrokerSettings(initial_rebalance_delay_ms=500, min_session_timeout_ms=1_000)
        self.coordinator = GroupCoordinator(settings, random.choice)
        self.port = BrokerPort(self)
        self.cluster = Cluster(self, [f"node-{n}" for n in range(shape.nodes)], times.drain_ms + 3_000)
        self.cluster.restarts_in_place = shape.restarts_in_place
        self.spec = Spec(shape.replicas)
        self.lock = Lock(3_000)
        self.copies = Copies()
        self.members: list[WorkerProcess] = []
        self.everybody: list[WorkerProcess] = []
        self.rounds: list[tuple[int, Planned]] = []
        self.operators: list[OperatorProcess] = []
        self.leads: list[tuple[Process, LeaderThread]] = []
        self.stories: list[tuple[str, LeaderMachine]] = []
        """Every leader that there was, by the name of its process."""
        self.endpoints: dict[str, tuple[Process, Endpoint]] = {}
        self.lines: list[Line] = []
        self.healing: list[Callable[[], None]] = []
        self.loops: list[Loop] = []
        self.group_touched = False
        self.touched: list[WorkerProcess] = []
        self.records: list[Record] = []
        self.syncs: list[SyncGroup] = []
        self.late_writes: list[str] = []
        self.led_by_stock: dict[int, frozenset[str]] = {}
        """For each generation that a stock worker has planned, the names of the processes that it saw."""
        self.plans: list[Planned] = []
        self.stops: list[Copy] = []
        self.hanging: list[Copy] = []
        """Those whose stop never ends."""
        self.sleepers: list[WorkerProcess] = []
        self.errors: list[str] = []
        self.writes_of_learners: list[str] = []
        self.group_records: dict[RecordKey, Value] = {}
        """Those of a reconciled group in the leader log."""
        self.report_answers: list[tuple[Report, ReportAnswer]] = []
        """Those that leaders have just sent."""
        self.answers = 0
        """Those to reports between rounds that have reached their members."""
        if shape.record_bytes:
            self.limit_records(shape.record_bytes)
            self.healing.append(lambda: self.limit_records(settings.max_record_bytes))
        self._links = 0
        self._ports = 8_000
        self._operators = 0
        self.operators_away = 0
        self.slower_warm_ups: list[int] = []
        """By fault: the factor by which it slows them down. The slowest counts."""
        self.warm_ups_fail = False

    @property
    def now_ms(self) -> int:
        return self.scheduler.now_ms

    def begin(self) -> None:
        from tests.simulation.spec import ConnectorSpec

        for name, tasks_max in self.shape.connectors:
            self.spec.connectors[name] = ConnectorSpec(tasks_max, state=self.shape.state)
        self.spec.touch()
        self.cluster.monitor()
        for number in range(self.shape.operators):
            self._start_operator(f"op-{number}")

    def limit_records(self, record_bytes: int) -> None:
        self.coordinator.limit_records(record_bytes)
        self.tell(f"the broker takes {record_bytes} bytes of a group")

    def tell(self, what: str) -> None:
        self.lines.append(Line(self.now_ms, what))

    def end(self) -> None:
        self.over = True
        for loop in self.loops:
            loop.dispose()

    # --- processes -----------------------------------------------------------------------------------

    def start_member(
        self, identity: str, incarnation: str, place: str, on_exit: Callable[[int], None]
    ) -> WorkerProcess:
        member = self.shape.fleet.process_of(identity)(self, identity, incarnation, place, on_exit)
        self.tell(f"{member.name} starts on {place}")
        self.members.append(member)
        self.everybody.append(member)
        return member

    def process_ended(self, member: WorkerProcess, code: int) -> None:
        self.tell(f"{member.name} ends with code {code}")
        self.members.remove(member)
        self.endpoints = {url: found for url, found in self.endpoints.items() if found[0] is not member}
        self.leads = [(process, lead) for process, lead in self.leads if process is not member]

    def _start_operator(self, place: str) -> None:
        if self.operators_away:
            self.scheduler.after(1_000, lambda: self._start_operator(place))
            return
        self._operators += 1
        operator = OperatorProcess(self, self._operators, place)
        self.tell(f"{operator.name} starts")
        self.operators.append(operator)

    def operator_ended(self, operator: OperatorProcess) -> None:
        self.tell(f"{operator.name} has ended")
        self.operators.remove(operator)
        self.endpoints = {url: found for url, found in self.endpoints.items() if found[0] is not operator}
        self.leads = [(process, lead) for process, lead in self.leads if process is not operator]
        delay_ms = self.random.randint(300, 2_500)
        self.scheduler.after(delay_ms, lambda: self._start_operator(operator.place))

    # --- what is told to whoever checks --------------------------------------------------------------

    def stepped(self, member: WorkerProcess) -> None:
        self.touched.append(member)

    def appended(self, topic: str, records: Sequence[Record]) -> None:
        if topic == self.topic_names.leader:
            self.records += records
            for key, value in filter(None, map(decode_record, records)):
                self.group_records.pop(key, None)
                if value is not None:
                    self.group_records[key] = value

    def confirmed(self, process: Process, sent_ms: int) -> None:
        """A leader's confirmation that nothing was reassigned has reached ``process``."""
        if isinstance(process, WorkerProcess):
            process.proof_ms = max(process.proof_ms, sent_ms)

    def planned_by_stock(self, generation: int, member_ids: Collection[str]) -> None:
        seen = (member.name for member in self.members if member.member_id in member_ids)
        self.led_by_stock[generation] = frozenset(seen)

    def planned(self, view: View, memory: Memory, plan: Plan, after: Memory) -> None:
        if view.cause != WHAT_IF:
            planned = Planned(view, memory, plan, after)
            self.led_by_stock.pop(view.generation, None)
            self.plans.append(planned)
            self.rounds.append((self.now_ms, planned))

    def heard(self, process: Process, answer: Answer, sent_ms: int) -> None:
        """The broker's answer has reached ``process``: record what it proves and contains."""
        well = answer.error is Error.NONE and isinstance(answer, Joined | Synced | Heartbeaten)
        if well or (isinstance(answer, Heartbeaten) and answer.error is Error.REBALANCE_IN_PROGRESS):
            process.heard_ms = max(process.heard_ms, sent_ms)
        if not isinstance(process, WorkerProcess):
            return
        process.proof_ms = max(process.proof_ms, process.heard_ms)
        if isinstance(answer, Synced) and answer.error is Error.NONE and answer.assignment:
            assignment = decode_assignment(answer.assignment)
            process.revoked = (process.revoked | set(assignment.revoked)) - set(assignment.assigned)

    def report_answered(self, report: bytes, body: bytes) -> None:
        """A leader has answered a report."""
        answer = decode_answer(body)
        if isinstance(answer, ReportAnswer):
            self.report_answers.append((decode_report(report), answer))

    def reconciled(self, process: Process, body: str) -> None:
        """The leader's answer to a report has reached ``process``."""
        answer = decode_answer(body.encode())
        if not isinstance(process, WorkerProcess):
            return
        held = frozenset(copy.task for copy in process.copies())
        if isinstance(answer, ReportAnswer):
            self.answers += 1
            # Those that failed, too: they may start anew before the answer is applied.
            process.revoked = (held | self.spec.tasks()) - answer.assigned.keys()
        elif answer is Rejection.UNKNOWN_MEMBER_ID and self._is_replaced(process):
            process.revoked = held

    def _is_replaced(self, process: WorkerProcess) -> bool:
        """Whether a later incarnation of the identity has begun."""
        same = [each for each in self.everybody if each.identity == process.identity]
        return same[-1] is not process

    # --- chance --------------------------------------------------------------------------------------

    def next_link(self) -> int:
        self._links += 1
        return self._links

    def next_port(self) -> int:
        self._ports += 1
        return self._ports

    def draw_hop_ms(self) -> int:
        return self.random.randint(0, self.network.weather.hop_ms)

    def draw_start_ms(self) -> int:
        return self.random.randint(20, 200 * self.shape.slow)

    def draw_stop_ms(self) -> int:
        return self.random.randint(5, 150 * self.shape.slow)

    def draw_warm_up_ms(self) -> int:
        at_most_ms = self.shape.warm_up_ms
        return max(self.slower_warm_ups, default=1) * self.random.randint(at_most_ms // 3, at_most_ms)

    def draw_pod_start_ms(self) -> int:
        return self.random.randint(100, 500 * self.shape.slow)

    def draw_notice_ms(self) -> int:
        return self.random.randint(10, 400 * self.shape.slow)
