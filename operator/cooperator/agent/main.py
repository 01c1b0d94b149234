"""The member's process: one thread that feeds the supervisor and carries its instructions out."""

import logging
import os
import queue
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Protocol

import cooperator
from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.calls import LeaderCalls
from cooperator.agent.elected_lead import MakeLead, member_lead
from cooperator.agent.inbox import EventOf, Inbox, RuntimeEvent
from cooperator.agent.learner_thread import LearnerThread
from cooperator.agent.listeners import AgentGroupListener, AgentRuntimeListener
from cooperator.agent.machine import Supervisor
from cooperator.agent.metrics import MemberMetrics, MetricsListener
from cooperator.agent.offsets import OffsetsPage
from cooperator.agent.options import RuntimeKind, WorkerOptions
from cooperator.agent.pages import Pages
from cooperator.agent.pod import last_words
from cooperator.agent.proofs import Proof, Proofs
from cooperator.agent.state import IllegalStep, Report
from cooperator.agent.synchronized import SynchronizedSupervisor
from cooperator.agent.watchdog import ProcessWatchdog, Watchdog, own_process_group
from cooperator.connectors.offset_operations import Subject
from cooperator.connectors.state_query import StateQuery
from cooperator.group import GroupConfig, Listener, Membership
from cooperator.leader.endpoint import Endpoint
from cooperator.log_lines import common, within
from cooperator.logs import Logs, LogsConfig, LogTimeout, open_logs
from cooperator.model import Epoch, StateReplicas, TaskId, TaskState
from cooperator.model.status import HUNG
from cooperator.runtime import Runtime, RuntimeListener, TaskSpec
from cooperator.runtime.inline import InlineRuntime
from cooperator.supervision import at_most_a_turn, threads, turn
from cooperator.telemetry import Families, start_sending
from cooperator.telemetry.settings import resource_attributes
from cooperator.wire import RestartRecord

log = logging.getLogger(__name__)

_LEAVE_S = 5.0
_SAY_MS = 2_000
_CLOSE_S = 10.0
_LAST_METRICS_S = 2.0


def now_ms() -> int:
    """The clock of leases and timers."""
    return int(time.monotonic() * 1000)


def make_runtime(options: WorkerOptions, listener: RuntimeListener) -> Runtime:
    settings = options.runtime_settings()
    if options.runtime is RuntimeKind.INLINE:
        return InlineRuntime(settings, listener)
    from cooperator.runtime.spark import SparkRuntime

    return SparkRuntime(settings, listener)


class GroupMembership(Protocol):
    """The part of the membership that a member uses; see ``group.Membership``."""

    def start(self) -> None: ...
    def rejoin(self, reason: str) -> None: ...
    def evict(self, member_ids: Sequence[str]) -> None: ...
    def stop(self, leave: bool, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """Factories of the parts that reach out of the process. ``lead`` None: the member cannot lead."""

    group: Callable[[GroupConfig, Listener], GroupMembership] = Membership
    logs: Callable[[LogsConfig], Logs] = open_logs
    runtime: Callable[[WorkerOptions, RuntimeListener], Runtime] = make_runtime
    lead: MakeLead | None = member_lead


class Agent:
    """One member: call ``open`` once, then ``run``. All other methods are thread-safe."""

    def __init__(self, options: WorkerOptions, watchdog: Watchdog, parts: Parts | None = None) -> None:
        self.options = options
        self._watchdog = watchdog
        self._parts = parts or Parts()
        self._inbox = Inbox()
        self._proofs = Proofs()
        self._timer_ms: int | None = None
        self._code: int | None = None
        self._started: dict[TaskId, Epoch | None] = {}
        """The epoch under which each task was last started."""
        self._supervisor = SynchronizedSupervisor(Supervisor(options.settings()))
        self._listener = AgentGroupListener(options, self._supervisor, self._inbox.put, self._prove)
        self._tally = MetricsListener(AgentRuntimeListener(self._inbox.put, self._about))
        self._metrics = MemberMetrics(self._supervisor, self._tally)
        offsets = OffsetsPage(options, lambda: self._logs.config.snapshot(), self._state)
        pages = Pages(options, self._supervisor, self._metrics, lambda: self._listener.lead, offsets)
        self._endpoint = Endpoint(options.host, options.port, pages.routes())
        self._calls = LeaderCalls(
            self.tell, lambda: self._logs.config.snapshot().session_key, now_ms, options.leader_ca
        )
        self._learners: LearnerThread | None = None
        self._group: GroupMembership
        self._logs: Logs
        self._runtime: Runtime

    @property
    def url(self) -> str:
        """The URL at which others reach this member; known after ``open``."""
        return self._listener.url

    @property
    def leads(self) -> bool:
        """Whether the last applied assignment came from this member itself."""
        return self._supervisor.leads

    @property
    def families(self) -> Families:
        """The member's metrics; see ``telemetry``."""
        return self._metrics.families

    @property
    def report(self) -> Report:
        return self._supervisor.report()

    def tell(self, event: ev.Event) -> None:
        if isinstance(event, ev.LeaderConfirmed):
            self._prove(event)
        elif isinstance(event, ev.ReportAnswered):
            self._inbox.put(lambda supervisor: replace(event, superseded=supervisor.is_report_superseded))
        else:
            self._inbox.put(lambda supervisor: event)

    def _prove(self, proof: Proof) -> None:
        self._proofs.add(proof)
        self._inbox.put(_wake)

    def drain(self) -> None:
        """Leave once the leader has moved everything away; a second call stops at once."""
        self._inbox.put(
            lambda supervisor: ev.StopRequested() if supervisor.is_draining else ev.DrainRequested()
        )

    def stop(self) -> None:
        """Stop everything cleanly and leave, without waiting for the leader."""
        self.tell(ev.StopRequested())

    def open(self) -> None:
        """Start to listen and create all parts, without joining. Raises OSError when the port is taken."""
        self._endpoint.start()
        self._listener.url = self._endpoint.url_at(self.options.advertised_host or self._endpoint.host)
        self._logs = self._parts.logs(self.options.logs_config())
        self._runtime = self._parts.runtime(self.options, self._tally)
        if self._runtime.warm_up():
            # Before the first join, which reports it.
            self._take(lambda supervisor: ev.WarmUpBegun())
        if self.options.learns:
            self._learners = LearnerThread(self._runtime, self._calls, self._supervisor.standing, now_ms)
        self._group = self._parts.group(self.options.group_config(), self._listener)
        self._listener.is_reconciliation_asked = self._is_reconciliation_asked
        if self._parts.lead is not None:
            self._listener.lead = self._parts.lead(
                self.url, self._group, self._logs, self.options, self._listener.contact_age_ms
            )

    def run(self) -> int:
        """Run until the member ends; returns the exit code."""
        self._calls.start()
        # The snapshot is read when the event is processed, so that no thread can bring back an old one.
        self._logs.config.on_change(lambda config: self._inbox.put(self._config_event))
        self._logs.config.on_restart(self._restart)
        self._inbox.put(self._config_event)
        self._group.start()
        if self._learners is not None:
            self._learners.start()
        log.info("member %s of group %s at %s", self.options.identity, self.options.group_id, self.url)
        with threads.of_process.beating("member"):
            while self._code is None:
                self._step()
            return self._end(self._code)

    def _is_reconciliation_asked(self) -> bool:
        """Whether the group's policy asks for reconciliation without rounds, or is not known yet. Any thread.

        A group would return to rounds for a member that joins before it has read the leader log; an offer too
        many is not taken, since its leader knows the policy.
        """
        policy = self._logs.leader.policy()
        return policy is None or policy.reconciles

    def _config_event(self, supervisor: SynchronizedSupervisor) -> ev.Event:
        if self._learners is not None:
            self._learners.wake()
        return ev.ConfigChanged(self._logs.config.snapshot())

    def _restart(self, record: RestartRecord) -> None:
        self.tell(
            ev.RestartRequested(record.connector, record.include_tasks, record.only_failed, record.task)
        )

    # The main loop

    def _step(self) -> None:
        turn()
        try:
            events, event_of = self._inbox.next(at_most_a_turn(self._patience_s()))
        except queue.Empty:
            if self._patience_s() != 0:
                return
            self._timer_ms = None
            events, event_of = (), _tick
        for proof in self._proofs.take():
            self._take(lambda supervisor, proof=proof: proof)  # type: ignore[misc]
        if events:
            self._take_all(events)
        if event_of is not None:
            self._take(event_of)

    def _take_all(self, events: Sequence[ev.Event]) -> None:
        try:
            instructions = self._supervisor.take_all(events, now_ms)
        except IllegalStep:
            # The others still count.
            for event in events:
                self._take(RuntimeEvent(event))
            return
        self._carry_out_all(instructions)

    def _take(self, event_of: EventOf) -> None:
        try:
            instructions = self._supervisor.take(event_of, now_ms)
        except IllegalStep:
            # It has changed nothing; the fault is with the sender.
            log.exception("an impossible event")
            return
        self._carry_out_all(instructions)

    def _carry_out_all(self, instructions: Sequence[do.Instruction]) -> None:
        for instruction in self._reported_first(instructions):
            turn()
            try:
                self._carry_out(instruction)
            except Exception:
                # Running tasks are worth more than this failure; the watchdog kills whatever must end.
                log.exception("could not carry out %s", type(instruction).__name__)

    def _reported_first(self, instructions: Sequence[do.Instruction]) -> Iterator[do.Instruction]:
        """Flush statuses before anything starts, so that a missing status proves that the task never started.

        If the log is unreachable the tasks start anyway, a little later.
        """
        starts = [instruction for instruction in instructions if isinstance(instruction, do.StartTask)]
        yield from (instruction for instruction in instructions if not isinstance(instruction, do.StartTask))
        if starts:
            try:
                self._logs.status.flush(_SAY_MS)
            except LogTimeout as error:
                log.warning("starting before the status is on the log: %s", error)
        yield from starts

    def _patience_s(self) -> float | None:
        return None if self._timer_ms is None else max(0.0, (self._timer_ms - now_ms()) / 1000)

    def _carry_out(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.StartTask():
                self._start_task(instruction)
            case do.StopTask(task, attempt):
                with within(connector=task.connector, task=str(task)):
                    log.info("stopping %s (attempt %d)", task, attempt)
                self._runtime.stop(task, attempt)
            case do.Pause(task):
                self._runtime.pause(task)
            case do.Resume(task):
                self._runtime.resume(task)
            case do.PutStatus(status, in_ms):
                if status.reason == HUNG:
                    log.warning("%s", status.trace)
                at_ms = time.time_ns() // 1_000_000
                next_ms = 0 if in_ms is None else at_ms + in_ms
                if status.state is TaskState.UNASSIGNED:
                    self._started.pop(status.task, None)
                self._logs.status.put(replace(status, at_ms=at_ms, next_attempt_ms=next_ms))
            case do.Rejoin(reason):
                log.info("rejoining: %s", reason)
                self._group.rejoin(reason)
            case do.ReadyToJoin():
                self._listener.released()
            case do.PostTaskConfigs():
                self._calls.post(instruction)
            case do.AskLeader():
                self._calls.ask(instruction)
            case do.SendReport():
                self._calls.report(instruction)
            case do.SetTimer(at_ms):
                self._timer_ms = at_ms
            case do.Watch(kill_at_ms):
                self._watchdog.watch(kill_at_ms)
            case do.Leave():
                log.info("leaving group %s", self.options.group_id)
                self._group.stop(leave=True, timeout_s=_LEAVE_S)
            case do.Exit(code):
                self._code = code
            case do.KillGroup(reason):
                log.critical("killing the process group: %s", reason)
                self._code = 1
                self._watchdog.kill()

    def _state(self, subject: Subject, query: StateQuery) -> dict[str, Any]:
        """Reads the state of a connector's queries. Any thread."""
        return self._runtime.state(subject, query)

    def _about(self, task: TaskId) -> dict[str, object]:
        """Context fields of log lines about a task. Any thread."""
        epoch = self._started.get(task)
        return {
            "connector": task.connector,
            "task": str(task),
            "generation": str(epoch) if epoch is not None else None,
            "event": self._listener.events_of(epoch),
        }

    def _start_task(self, order: do.StartTask) -> None:
        self._started[order.task] = order.epoch
        with within(**self._about(order.task)):
            self._start(order)

    def _start(self, order: do.StartTask) -> None:
        log.info("starting %s (attempt %d) under %s", order.task, order.attempt, order.epoch)
        try:
            committed = self._committed(order.task)
            is_learned = self._is_learned(order.task)
            spec = TaskSpec(order.task, order.config, order.paused, order.epoch, committed, is_learned)
            self._runtime.start(spec, order.attempt)
        except Exception as error:
            log.exception("the runtime did not accept %s", order.task)
            # Imported on demand: a member has to start fast.
            from cooperator.runtime.traces import describe, lasting_reason

            self.tell(ev.Failed(order.task, order.attempt, describe(error), lasting_reason(error)))

    def _is_learned(self, task: TaskId) -> bool:
        connector = self._logs.config.snapshot().connectors.get(task.connector)
        return connector is not None and StateReplicas.of(connector.config) is not None

    def _committed(self, task: TaskId) -> Sequence[Mapping[str, str]]:
        """Where an instance continues from: its connector's tasks in the config log."""
        connector = self._logs.config.snapshot().connectors.get(task.connector) if task.is_instance else None
        return () if connector is None or connector.inconsistent else connector.tasks

    def _end(self, code: int) -> int:
        """Close the parts in order of dependence. If the runtime cannot be closed, kill the process group."""
        self._group.stop(leave=False, timeout_s=_LEAVE_S)
        if self._listener.lead is not None:
            self._listener.lead.stop(_CLOSE_S)
        if self._learners is not None:
            self._learners.stop(_CLOSE_S)
        if not self._runtime.close(_CLOSE_S):
            log.critical("the runtime cannot be closed: killing the process group")
            self._watchdog.kill()
        turn()
        self._calls.close()
        self._endpoint.stop()
        turn()
        self._logs.close()
        self._watchdog.close()
        return code


def _tick(supervisor: SynchronizedSupervisor) -> ev.Event:
    return ev.Tick()


def _wake(supervisor: SynchronizedSupervisor) -> None:
    """Wakes the thread up: a proof waits, and proofs are processed first."""


def run_worker(options: WorkerOptions) -> int:
    """Run a member until SIGTERM has drained it; SIGINT or a second SIGTERM stops it at once.

    Returns the exit code. Call it from the main thread of a dedicated process. The process becomes the leader
    of its process group, and the whole group is killed when something in it outlives the lease or when this
    process dies. Raises OSError when the port is taken.
    """
    common(group=options.group_id, member=options.identity)
    watchdog = ProcessWatchdog(own_process_group(), last_words())
    agent = Agent(options, watchdog)

    def on_signal(number: int, frame: FrameType | None) -> None:
        # SimpleQueue is reentrant, so putting is safe in a signal handler.
        if number == signal.SIGTERM:
            agent.drain()
        else:
            agent.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    threads.of_process.on_exhausted = agent.drain
    try:
        agent.open()
    except BaseException:
        watchdog.close()
        raise
    sending = start_sending(agent.families, lambda: _resource(options))
    try:
        return agent.run()
    finally:
        sending.stop(_LAST_METRICS_S)


def _resource(options: WorkerOptions) -> Mapping[str, str]:
    return resource_attributes(
        "cooperator-worker",
        options.incarnation,
        cooperator.__version__,
        os.environ,
        cooperator_worker=os.environ.get("COOPERATOR_WORKER", ""),
        messaging_consumer_group_name=options.group_id,
    )
