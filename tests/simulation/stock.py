"""A stock Kafka Connect worker, as the protocol notes describe it (section 6).

It reports what it has been given; stops what is revoked and then takes the rest up; starts only when its
config offset is the assignment's; keeps running when the broker drops it, and stops everything when it has
no coordinator for a heartbeat interval. When it is elected it plans by Kafka's own rules. It has no lease:
how long it runs on while nobody hears of it is what Kafka's protocol gives, and is not counted as
running twice (``counts``). One thread stops tasks and joins: no JoinGroup goes out while anything stops.
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
from cooperator.planner import kip415
from cooperator.planner.view import View
from cooperator.runtime import TaskSpec
from cooperator.wire import (
    ALL_PROTOCOLS,
    Assignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    member_of,
)
from simulation.scheduler import Timer
from simulation.stages import Calls, Endpoint, SteppedMembership
from simulation.tasks import Copy, SimulatedRuntime
from simulation.topics import SimulatedLogs
from simulation.worker import WorkerProcess

if TYPE_CHECKING:
    from simulation.world import World

POST_RETRY_MS = 1_000
GRACEFUL_MS = 3_000
"""``task.shutdown.graceful.timeout.ms``: what has not stopped by then is cancelled, and counts as stopped."""


class StockProcess(WorkerProcess):
    is_stock = True

    def __init__(
        self, world: "World", identity: str, incarnation: str, place: str, on_exit: Callable[[int], None]
    ) -> None:
        super().__init__(world, identity, incarnation, place, on_exit)
        self._given: dict[TaskId, int] = {}
        """And in which generation."""
        self._share: Assignment | None = None
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
        self.enter(self._make)

    def _make(self) -> None:
        times = self.world.times
        self.runtime = SimulatedRuntime(self, self)
        self._logs = SimulatedLogs(self, LogsConfig("simulated:9092", self.world.group_id))
        self._endpoint = Endpoint(self.name, 0, {})
        self._endpoint.start()
        self._calls = Calls(self._answered, lambda: self._config.session_key, lambda: self.world.now_ms)
        config = GroupConfig(
            bootstrap_servers="simulated:9092",
            group_id=self.world.group_id,
            client_id=self.identity,
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

    # What is asked of it by whoever checks

    @property
    def member_id(self) -> str:
        return self._group.member_id

    def configured(self, task: TaskId) -> Mapping[str, str] | None:
        return self._config.task_config(task)

    def counts(self, now_ms: int) -> bool:
        """In touch with the broker; what it runs while it is not is Kafka's protocol to answer for."""
        in_touch = self.frozen_ms is None and now_ms < self.heard_ms + self.world.times.session_ms
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

    # The listener of the membership

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        assert self._is_quiet(), f"joins while it stops {[str(copy) for copy in self.copies()]}"
        allocation = None
        if self._rounds:
            offset = self._config.offset
            allocation = Assignment(0, "", self._leader_url, offset, assigned=tuple(self._given))
        metadata = Metadata(self._endpoint.url, self._config.offset, allocation)
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in ALL_PROTOCOLS]

    def joined(self, joined: Joined) -> None:
        # On one thread with joining: no join goes out between an assignment and its being taken.
        self._take(decode_assignment(joined.assignment), joined.generation)

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        """As Kafka's leader: everybody in the group is a worker to it."""
        planned: Future[Mapping[str, bytes]] = Future()
        members = tuple(
            member_of(member.member_id, member.client_id, decode_metadata(member.metadata))
            for member in round.members
        )
        view = View(
            now_ms=self.world.now_ms,
            generation=round.generation,
            members=members,
            tasks=self._config.task_counts(),
            policy=Policy(
                name=PolicyName.KIP415,
                scheduled_rebalance_max_delay_ms=self.world.policy.scheduled_rebalance_max_delay_ms,
            ),
            last_completed_generation=self._completed,
            leader_id=round.leader_id,
        )
        plan, self._memory = kip415.plan(view, self._memory)
        self.world.planned_by_stock(round.generation, {member.member_id for member in members})
        planned.set_result(
            {
                member_id: encode_assignment(
                    Assignment(
                        0,
                        round.leader_id,
                        self._endpoint.url,
                        self._config.offset,
                        share.assigned,
                        share.revoked,
                        plan.delay_ms,
                    ),
                    Protocol(round.protocol),
                )
                for member_id, share in plan.shares.items()
            }
        )
        return planned

    def coordinator_lost(self) -> None:
        heard_ms = self.heard_ms

        def give_up() -> None:
            if self.heard_ms == heard_ms:
                self._given.clear()
                self._lost = True
                self._stop(*self.copies())
                self._go_on()

        self.after(self.world.times.heartbeat_ms, give_up)

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
        if self._share is None and not self._ending:
            # Stopped for its new configuration: that makes no round.
            self._start_given()

    def failed(self, task: TaskId, attempt: int, trace: str) -> None:
        self._failed.add(task)
        self._say(task, TaskState.FAILED)
        self._go_on()

    def units_changed(self, connector: str, configs: list[dict[str, str]]) -> None:
        self._wanted[connector] = tuple(dict(config) for config in configs)
        self._post(connector)

    def warmed_up(self) -> None: ...
    def warm_up_failed(self) -> None: ...

    def _say(self, task: TaskId, state: TaskState) -> None:
        """Signed with where it serves, and under the generation that it is in."""
        worker = self._endpoint.url.partition("://")[2].strip("/")
        self._logs.status.put(TaskStatus(task, state, worker, Epoch(0, self._completed)))

    # Its herder

    def _take(self, share: Assignment, generation: int) -> None:
        self._rounds += 1
        self._completed = generation
        self._leader_url = share.leader_url
        if self._delay is not None:
            self._delay.cancel()
        for task in share.revoked:
            self._given.pop(task, None)
            copy = self.runtime.copies.get(task)
            if copy is not None:
                self._stop(copy)
        self._given.update(dict.fromkeys(share.assigned, generation))
        self._share = share
        self._go_on()

    def _stop(self, *copies: Copy) -> None:
        for copy in copies:
            self.runtime.stop(copy.task, copy.attempt)
            self.after(GRACEFUL_MS, lambda copy=copy: self.runtime.cancel(copy))  # type: ignore[misc]

    def _go_on(self) -> None:
        """When nothing that was revoked runs any more: start what is given, and say so if that was new."""
        if self._quiet is not None and self._is_quiet():
            quiet, self._quiet = self._quiet, None
            self.hop(lambda: quiet.success(None))
        share = self._share
        if self._ending:
            self._leave_when_done()
            return
        if self._lost and not self.runtime.copies:
            # It joins again when all has stopped, and has nothing.
            self._lost = False
            self._group.rejoin("the coordinator was lost")
        if share is None or any(task not in self._given for task in self.runtime.copies):
            return
        if not self._is_quiet():
            return
        self._share = None
        if self._config.offset < share.config_offset:
            try:
                self._logs.config.read_to_end(0)
            except LogUnavailable:
                self._group.rejoin("cannot catch up")
                return
        if share.error or self._config.offset != share.config_offset:
            self.after(200, lambda: self._group.rejoin("config mismatch"))
            return
        self._start_given()
        if share.revoked:
            self._group.rejoin("has revoked")
        elif share.delay_ms:
            self._delay = self.after(share.delay_ms, lambda: self._group.rejoin("scheduled delay"))

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
            # Kafka's compares only when it starts: with it, a late request of an earlier life would stand.
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
        if isinstance(event, agent_events.PostAnswered):
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
