"""A stock Kafka Connect worker, as docs/protocol.md describe it (section 6).

It reports what it has been given; stops what is revoked and then takes the rest up; starts only when its
config offset is the assignment's; keeps running when the broker drops it, and stops everything when it has no
coordinator for a heartbeat interval. When it is elected it plans by Kafka's own rules. It has no lease: how
long it runs on unheard follows from Kafka's protocol, and does not count as running twice (``counts``). One
thread stops tasks and joins: no JoinGroup goes out while anything stops.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kafka.future import Future as LoopFuture

from cooperator.agent import events as agent_events
from cooperator.agent.instructions import PostTaskConfigs
from cooperator.group import DescribedMember, GroupConfig, Joined, Round
from cooperator.logs import LogsConfig, LogUnavailable
from cooperator.model import (
    ClusterConfig,
    Epoch,
    Memory,
    Policy,
    PolicyName,
    TargetState,
    TaskId,
    TaskState,
    TaskStatus,
)
from cooperator.planner import Workspace, kip415
from cooperator.planner.view import View
from cooperator.runtime import TaskSpec
from cooperator.wire import (
    ALL_PROTOCOLS,
    CONFIG_MISMATCH,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    member_of,
)
from tests.simulation.scheduler import Timer
from tests.simulation.stepped import Calls, Endpoint, SteppedMembership
from tests.simulation.tasks import Copy, SimulatedRuntime
from tests.simulation.topics import SimulatedLogs
from tests.simulation.worker import WorkerProcess

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

POST_RETRY_MS = 1_000
GRACEFUL_MS = 3_000
"""``task.shutdown.graceful.timeout.ms``: later, a stopping task is cancelled, and counts as stopped."""


class StockProcess(WorkerProcess):
    is_stock = True

    def __init__(
        self,
        simulation: "Simulation",
        identity: str,
        incarnation: str,
        place: str,
        on_exit: Callable[[int], None],
    ) -> None:
        super().__init__(simulation, identity, incarnation, place, on_exit)
        self._given: dict[TaskId, int] = {}
        """Its items, with the generation of each."""
        self._assignment: ExtendedAssignment | None = None
        self._leader_url = ""
        self._attempts = 0
        self._rounds = 0
        self._posts = 0
        self._wanted: dict[str, tuple[Mapping[str, str], ...]] = {}
        self._memory = Memory()
        self._completed = -1
        self._ending = False
        self._lost = False
        self._delay: Timer | None = None
        self._failed: set[TaskId] = set()
        self._quiet: LoopFuture | None = None
        self._joins = False
        self.enter(self._make)

    def _make(self) -> None:
        times = self.simulation.times
        self.runtime = SimulatedRuntime(self, self)
        self._logs = SimulatedLogs(self, LogsConfig("simulated:9092", self.simulation.group_id))
        shared = self.simulation.shape.fleet.shares_client_id
        # Only its address, which it keeps, distinguishes one that shares a client id. Others serve at the
        # address of their pod, as the container before them did.
        host = self.identity if shared else f"{self.identity}-{self.incarnation.partition('.')[0]}"
        self._endpoint = Endpoint(host, 8083, {})
        self._endpoint.start()
        self._calls = Calls(self._answered, lambda: self._config.session_key, lambda: self.simulation.now_ms)
        config = GroupConfig(
            bootstrap_servers="simulated:9092",
            group_id=self.simulation.group_id,
            client_id="connect-1" if shared else self.identity,
            role=Role.WORKER,
            session_timeout_ms=times.session_ms,
            heartbeat_interval_ms=times.heartbeat_ms,
            rebalance_timeout_ms=times.rebalance_ms,
        )
        self._group = SteppedMembership(config, self)
        self._known = self._config
        self._logs.config.on_change(lambda config: self.hop(lambda: self._config_changed(config)))
        self._logs.config.on_restart(lambda record: self.hop(self._restart_failed))
        self._group.start()

    def _restart_failed(self) -> None:
        self._failed.clear()
        self._start_given()

    def failed_tasks(self) -> list[TaskId]:
        return sorted(self._failed)

    @property
    def _config(self) -> ClusterConfig:
        return self._logs.config.snapshot()

    # Facts for the checks

    @property
    def member_id(self) -> str:
        return self._group.member_id

    def configured(self, task: TaskId) -> Mapping[str, str] | None:
        return self._config.task_config(task)

    def counts(self, now_ms: int) -> bool:
        """Whether it is in touch with the broker; its other tasks are up to Kafka's protocol.

        It is out of touch, too, as long as it stops what it ran when it lost the coordinator; and, where
        nobody holds tasks, from when the broker dropped it until it was in a round again: as with Kafka's own
        leader, others begin them at once.
        """
        heard = now_ms < self.heard_ms + self.simulation.times.session_ms
        group = self.simulation.coordinator.group
        was_in_round = self.member_id in group.members and self._completed >= group.generation - 1
        is_awaited = self.simulation.times.hold_ms > 0 or was_in_round
        in_touch = self.frozen_ms is None and heard and is_awaited and not self._lost
        if not in_touch:
            for copy in self.copies():
                copy.stale = True
        return in_touch

    def may_stop(self, copy: Copy) -> bool:
        return True

    def told_to_end(self) -> None:
        self.enter(self._end)

    def before_join(self) -> LoopFuture | None:
        if self._is_quiet():
            return None
        if self._quiet is None:
            self._quiet = LoopFuture()
        return self._quiet

    def _is_quiet(self) -> bool:
        return not any(copy.stopping for copy in self.copies())

    def begin_join(self) -> None:
        self._joins = True

    # The listener of the membership

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        # They are asked for once more after the round, by the one that leads it: then nothing goes out.
        joins, self._joins = self._joins, False
        assert not joins or self._is_quiet(), f"joins while it stops {[str(copy) for copy in self.copies()]}"
        allocation = None
        if self._rounds:
            offset = self._config.offset
            allocation = ExtendedAssignment(0, "", self._leader_url, offset, assigned=tuple(self._given))
        metadata = Metadata(self._endpoint.url, self._config.offset, allocation)
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in ALL_PROTOCOLS]

    def joined(self, joined: Joined) -> None:
        # On the same thread as joining: no JoinGroup goes out between an assignment and its take-up.
        self._take(decode_assignment(joined.assignment), joined.generation)

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        """Plan as Kafka's leader: it takes everybody in the group for a worker.

        It refuses the round while it has read less of the config log than one of them.
        """
        planned: Future[Mapping[str, bytes]] = Future()
        metadata = {member.member_id: decode_metadata(member.metadata) for member in round.members}
        read = max(each.config_offset for each in metadata.values())
        if self._config.offset < read:
            refused = ExtendedAssignment(
                CONFIG_MISMATCH,
                round.leader_id,
                self._endpoint.url,
                read,
                assigned=(),
                revoked=(),
                delay_ms=0,
            )
            planned.set_result(dict.fromkeys(metadata, encode_assignment(refused, Protocol(round.protocol))))
            return planned
        members = tuple(
            member_of(member.member_id, member.client_id, metadata[member.member_id])
            for member in round.members
        )
        view = View(
            now_ms=self.simulation.now_ms,
            generation=round.generation,
            members=members,
            tasks=self._config.task_counts(),
            policy=Policy(
                name=PolicyName.KIP415,
                scheduled_rebalance_max_delay_ms=self.simulation.policy.scheduled_rebalance_max_delay_ms,
            ),
            last_completed_generation=self._completed,
            leader_id=round.leader_id,
        )
        plan, self._memory = kip415.plan(view, self._memory, Workspace())
        self.simulation.planned_by_stock(round.generation, {member.member_id for member in members})
        planned.set_result(
            {
                member_id: encode_assignment(
                    ExtendedAssignment(
                        0,
                        round.leader_id,
                        self._endpoint.url,
                        self._config.offset,
                        assignment.assigned,
                        assignment.revoked,
                        plan.delay_ms,
                    ),
                    Protocol(round.protocol),
                )
                for member_id, assignment in plan.assignments.items()
            }
        )
        return planned

    def ready_to_join(self) -> None:
        """The process itself delays its joins (``stepped``)."""

    def coordinator_lost(self) -> None:
        heard_ms = self.heard_ms

        def give_up() -> None:
            if self.heard_ms == heard_ms:
                self._given.clear()
                self._lost = True
                self._stop(*self.copies())
                self._go_on()

        self.after(self.simulation.times.heartbeat_ms, give_up)

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        return False

    def round_void(self, generation: int) -> None: ...
    def dropped(self, reason: str) -> None: ...
    def fenced(self) -> None: ...
    def contact(self, sent_at: float) -> None: ...
    def trouble(self, message: str) -> None: ...
    def refused(self, reason: str) -> None: ...
    def lead_taken(self, evicted: Sequence[str]) -> None: ...
    def lead_lost(self) -> None: ...

    # The listener of the runtime

    def started(self, task: TaskId, attempt: int) -> None:
        self._say(task, TaskState.RUNNING)

    def paused(self, task: TaskId, attempt: int) -> None:
        self._say(task, TaskState.PAUSED)

    def stopped(self, task: TaskId, attempt: int) -> None:
        self._go_on()
        if self._assignment is None and not self._ending:
            # It was stopped for its new configuration, which makes no round.
            self._start_given()

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self._failed.add(task)
        self._say(task, TaskState.FAILED)
        self._go_on()

    def units_changed(self, connector: str, configs: list[dict[str, str]]) -> None:
        self._wanted[connector] = tuple(dict(config) for config in configs)
        self._post(connector)

    def warmed_up(self) -> None: ...
    def warm_up_failed(self) -> None: ...

    def _say(self, task: TaskId, state: TaskState) -> None:
        """Report a state with its address, under its present generation."""
        worker = self._endpoint.url.partition("://")[2].strip("/")
        self._logs.status.put(TaskStatus(task, state, worker, Epoch(0, self._completed)))

    # Its herder

    def _take(self, assignment: ExtendedAssignment, generation: int) -> None:
        self._rounds += 1
        self._completed = generation
        self._leader_url = assignment.leader_url
        if self._delay is not None:
            self._delay.cancel()
        for task in assignment.revoked:
            self._given.pop(task, None)
            copy = self.runtime.copies.get(task)
            if copy is not None:
                self._stop(copy)
        self._given.update(dict.fromkeys(assignment.assigned, generation))
        self._assignment = assignment
        self._go_on()

    def _stop(self, *copies: Copy) -> None:
        for copy in copies:
            self.runtime.stop(copy.task, copy.attempt)
            self.after(GRACEFUL_MS, lambda copy=copy: self.runtime.cancel(copy))  # type: ignore[misc]

    def _go_on(self) -> None:
        """Once nothing revoked runs any more, start what is given, and rejoin if anything was revoked."""
        if self._quiet is not None and self._is_quiet():
            quiet, self._quiet = self._quiet, None
            self.hop(lambda: quiet.success(None))
        assignment = self._assignment
        if self._ending:
            self._leave_when_done()
            return
        if self._lost and not self.runtime.copies:
            # It rejoins when everything has stopped, and has nothing.
            self._lost = False
            self._group.rejoin("the coordinator was lost")
        if assignment is None or any(task not in self._given for task in self.runtime.copies):
            return
        if not self._is_quiet():
            return
        self._assignment = None
        if self._config.offset < assignment.config_offset:
            try:
                self._logs.config.read_to_end(0)
            except LogUnavailable:
                self._group.rejoin("cannot catch up")
                return
        if assignment.error or self._config.offset != assignment.config_offset:
            self.after(200, lambda: self._group.rejoin("config mismatch"))
            return
        self._start_given()
        if assignment.revoked:
            self._group.rejoin("has revoked")
        elif assignment.delay_ms:
            self._delay = self.after(assignment.delay_ms, lambda: self._group.rejoin("scheduled delay"))

    def _start_given(self) -> None:
        config = self._config
        for task, generation in self._given.items():
            wanted = config.task_config(task)
            if task in self.runtime.copies or wanted is None or task in self._failed:
                continue
            self._attempts += 1
            paused = config.connectors[task.connector].target is TargetState.PAUSED
            self.runtime.start(TaskSpec(task, wanted, paused, Epoch(0, generation)), self._attempts)

    def _config_changed(self, config: ClusterConfig) -> None:
        if self._ending:
            return
        before, self._known = self._known, config
        for copy in self.copies():
            wanted = config.task_config(copy.task)
            if wanted is not None and wanted != copy.config and not copy.stopping:
                self._stop(copy)
        for connector in self._wanted:
            # Kafka's worker compares only when it starts; here an older one's late request would then stand.
            self._post(connector)
        if before.task_counts() != config.task_counts():
            self._group.rejoin("the configuration has changed")

    def _post(self, connector: str) -> None:
        wanted = self._wanted.get(connector)
        known = self._config.connectors.get(connector)
        if wanted is None or TaskId(connector, -1) not in self.runtime.copies:
            return
        is_current = known is not None and known.applied in (None, known.config)
        if known is not None and known.tasks == wanted and not known.inconsistent and is_current:
            return
        self._posts += 1
        if self._leader_url:
            self._calls.post(PostTaskConfigs(connector, self._posts, wanted, self._leader_url))
        else:
            self.after(POST_RETRY_MS, lambda: self._post(connector))

    def _answered(self, event: agent_events.Event) -> None:
        # Any 2xx is the end of it, as for Kafka's.
        if isinstance(event, agent_events.PostAnswered) and event.error:
            self.after(POST_RETRY_MS, lambda: self._post(event.connector))

    def _end(self) -> None:
        """Stop everything, leave, exit."""
        self._ending = True
        self._given.clear()
        self._stop(*self.copies())
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if not self.runtime.copies:
            self._group.stop(leave=True, timeout_s=1)
            self.after(300, lambda: self.exited(0))
