"""The thread that carries out the leader's decisions: one queue, one loop, no decisions of its own.

Blocking work (the logs) happens here, away from the group's event loop: a round awaits its plan as a future
while heartbeats go on.
"""

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from cooperator.group import Round
from cooperator.leader import events as ev
from cooperator.leader.actuator import CATCH_UP_MS, Actuator, GroupHandle
from cooperator.leader.distribution import Distribution
from cooperator.leader.evicted import Evicted
from cooperator.leader.group_log import GroupLog, group_records
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.process import SteadyClock
from cooperator.leader.rebalance_lines import RebalanceLines
from cooperator.leader.reports import ReportReader
from cooperator.leader.standing import Standing
from cooperator.log_lines import within
from cooperator.log_lines.context import event as current_event
from cooperator.logs import (
    LeaderRecords,
    LeadWriter,
    Logs,
    LogUnavailable,
    LogUnreadable,
    WriterFenced,
)
from cooperator.model import ClusterConfig, Memory, Policy, PolicyName
from cooperator.reconciliation import Answer, Records, Rejection, Report
from cooperator.supervision import at_most_a_turn, supervised, turn
from cooperator.wire import DecodeError, FencingRecord, Record, RestartRecord

log = logging.getLogger(__name__)

READ_LOGS_MS = 10_000
_STEP_S = 120.0
"""No part of a step takes longer: it waits for a few requests at most."""
_WRITES = (ev.SaveMemory, ev.SaveGroup, ev.SavePolicy, ev.WriteConfig, ev.MakeSessionKey)


class LeadRefused(Exception):
    """This group must not be led from here; the text names its owner and the remedy."""


class LeaderThread:
    """Runs a ``LeaderMachine``. All public methods are thread-safe and return at once.

    * ``claim``: called with the leader log's records whenever the lead is taken, after the previous writer
      was fenced and before anything else is written. It may raise ``LeadRefused``.
    * ``on_refused``: called when ``claim`` refuses; it must make the membership leave.
    * ``is_silent``: whether the broker has not answered for longer than this leader's session time-out. A
      process that was suspended for so long may have a successor that does not fence it, such as a stock
      worker; until the broker answers again, nothing is written to the config log.
    * ``about``: context fields of its log lines (see ``log_lines``).
    """

    def __init__(
        self,
        machine: LeaderMachine,
        group: GroupHandle,
        logs: Logs,
        *,
        claim: Callable[[LeaderRecords, LeadWriter], None] | None = None,
        policy_of_log: bool = False,
        on_refused: Callable[[str], None] | None = None,
        is_silent: Callable[[], bool] = lambda: False,
        clock_ms: Callable[[], int] | None = None,
        about: Mapping[str, object] | None = None,
    ) -> None:
        self.machine = machine
        self._about = about or {}
        self.standing = Standing()
        self._writing = False
        """Whether the current instruction is a write."""
        self.plans = Distribution()
        """Of the rounds that are planned here, encoding included."""
        self._group = group
        self._logs = logs
        self._claim = claim
        self._policy_of_log = policy_of_log
        self._on_refused = on_refused
        self._clock_ms = clock_ms or SteadyClock()
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._reader = ReportReader()
        self._joins: deque[None] = deque()
        """Own JoinGroups that are about to be sent, of which the machine may not know."""
        self._lines = RebalanceLines()
        self._reports: deque[tuple[Report, Future[Answer | Rejection | None]]] = deque()
        self._actuator = Actuator(
            machine.settings, group, logs, self._handle, self.submit, is_silent, self._clock_ms
        )
        self._thread = supervised(self._be, "lead", limit_s=_STEP_S)
        logs.config.on_change(lambda config: self.submit(ev.ConfigChanged(config)))

    # --- thread-safe methods ------------------------------------------------------------------------

    @property
    def offers_reconciliation(self) -> bool:
        """Whether the next JoinGroup offers the protocol in which rounds assign no tasks.

        One that takes the lead offers it if the leader before has left a group that goes on.
        """
        state = self.machine.state
        if state.leading or not state.policy.reconciles:
            return self.machine.offers_reconciliation
        try:
            known = self._logs.leader.known()
            memory = known.memory or Memory()
            return GroupLog().read(_group_records(known.others), memory.term) is not None
        except LogUnreadable:
            return False

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10) -> None:
        """Process what is queued, close the writer and end the thread."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def now_ms(self) -> int:
        return self._clock_ms()

    def submit(self, event: ev.Event) -> None:
        self._queue.put(lambda: self._handle(event))

    def joining(self) -> None:
        """The leader's own JoinGroup is about to be sent; the machine hears of it before what is queued."""
        self._joins.append(None)
        self._queue.put(lambda: self._joins.popleft())

    def plan(self, round_: Round, evicted: Evicted = Evicted()) -> "Future[Mapping[str, bytes]]":  # noqa: B008
        """A future of the assignments of ``round_``. ``evicted``: members removed to take the lead in it."""
        future: Future[Mapping[str, bytes]] = Future()
        self._queue.put(lambda: self._plan(round_, evicted, future))
        return future

    def lost(self, reason: str) -> None:
        """The lead is lost: nothing more is written under it."""
        self._queue.put(lambda: self._lost(reason))

    def ask(self, question: Callable[[LeaderMachine], object]) -> "Future[object]":
        """Run ``question`` on the machine's thread, between two events."""
        future: Future[object] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(question(self.machine))
            except Exception as error:
                future.set_exception(error)

        self._queue.put(answer)
        return future

    def report(self, report: Report) -> "Future[Answer | Rejection | None]":
        """The answer to a member's report of a reconciled group; None: not now. See ``Reconciled.hear``."""
        future: Future[Answer | Rejection | None] = Future()
        self._reports.append((report, future))
        # Reports that arrive during a write share the next one.
        self._queue.put(self._take_reports)
        return future

    def post_tasks(self, connector: str, configs: Sequence[Mapping[str, str]]) -> "Future[int]":
        """See ``Writes.post_tasks``; the future yields the HTTP code."""
        posted = tuple(dict(config) for config in configs)
        return self._request(lambda request: ev.TasksPosted(connector, posted, request))

    def restart(self, record: RestartRecord, timeout_s: float) -> "Future[int]":
        """See ``Writes.restart``; the future yields the HTTP code, 503 after ``timeout_s``."""
        until_ms = self._clock_ms() + int(timeout_s * 1000)
        return self._request(lambda request: ev.RestartRequested(record, until_ms, request))

    def fenced(self, record: FencingRecord, generation: int) -> "Future[int]":
        """See ``Writes.fenced``; the future yields the HTTP code."""
        return self._request(lambda request: ev.ProducersFenced(record, generation, request))

    def learned(self, event: ev.LearnerReported) -> "Future[object]":
        """Hand over a member's report; the future yields what it is to learn (``LeaderMachine.to_learn``)."""
        self.submit(event)
        return self.ask(lambda machine: machine.to_learn(event.member_id, self._clock_ms()))

    def lacks_for_hand_back(self) -> "Future[object]":
        """See ``LeaderMachine.lacks_for_hand_back``."""
        return self.ask(lambda machine: machine.lacks_for_hand_back(self._clock_ms()))

    def _request(self, event_of: Callable[[int], ev.Event]) -> "Future[int]":
        """Hand over the event of a request; the machine says when it is answered, and how."""
        future: Future[int] = Future()
        context = current_event()

        def take() -> None:
            request = self._actuator.expect_reply(future)
            try:
                instructions = self._decide(event_of(request))
            except Exception as error:
                self._actuator.fail_reply(request, error)
                raise
            with within(event=context):
                self._carry_out(instructions)

        self._queue.put(take)
        return future

    def _take_reports(self) -> None:
        taken: list[tuple[int, Report]] = []
        while self._reports:
            report, future = self._reports.popleft()
            taken.append((self._actuator.expect_report_reply(future), report))
        if taken:
            self._handle(ev.ReportsReceived(tuple(taken)))

    # --- the thread ---------------------------------------------------------------------------------

    def _be(self) -> None:
        with within(**self._about):
            self._run()

    def _run(self) -> None:
        while True:
            turn()
            try:
                step = self._queue.get(timeout=at_most_a_turn(self._patience_s()))
            except queue.Empty:
                if self._patience_s() == 0:
                    self._wake_up()
                continue
            if step is None:
                break
            self._step(step)
        self._lost("stopped")

    def _wake_up(self) -> None:
        self._actuator.wake_at_ms = None
        self._step(lambda: self._handle(ev.Tick()))

    def _patience_s(self) -> float | None:
        wake_at_ms = self._actuator.wake_at_ms
        return None if wake_at_ms is None else max(0.0, (wake_at_ms - self._clock_ms()) / 1000)

    def _step(self, step: Callable[[], None]) -> None:
        if self._joins:
            # On its own: whatever it fails with, the step is done.
            self._try(lambda: self._handle(ev.Joining()))
        self._try(step)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except WriterFenced as error:
            # Another leader is active, or the producer is broken. Only a new round can tell which.
            log.warning("fenced while leading: %s", error)
            self._lost(f"fenced: {error}")
            self._group.rejoin("its writer was fenced")
        except LogUnavailable as error:
            log.warning("a log is out of reach, trying again: %s", error)
            self._failed(str(error))
        except Exception as error:
            log.exception("the leader could not carry out a step")
            self._failed(f"{type(error).__name__}: {error}")

    def _failed(self, reason: str) -> None:
        unwritten, self._writing = self._writing, False
        self._handle(ev.StepFailed(reason, unwritten))

    def _handle(self, event: ev.Event) -> None:
        instructions = self._decide(event)
        with within(event=self.machine.state.causes.pending(self._clock_ms())):
            self._carry_out(instructions)
        if isinstance(event, ev.Delivered) and self.machine.state.policy.name is PolicyName.DEFAULT:
            self._reader.foresee()

    def _decide(self, event: ev.Event) -> list[ev.Instruction]:
        began = time.perf_counter()
        instructions = self.machine.handle(event, self._clock_ms())
        if isinstance(event, ev.RoundReady):
            self.plans.add(time.perf_counter() - began)
        # Updated before any instruction is carried out: no lease may be confirmed while a plan is on its way.
        machine = self.machine
        state = machine.state
        stock = any(not member.is_agent for member in state.members)
        self.standing = Standing(
            machine.delivered_epoch(),
            machine.living_members(),
            machine.absent_unproven(),
            state.policy.lease_margin_ms,
            state.protocol,
            stock,
        )
        return instructions

    def _plan(self, round_: Round, evicted: Evicted, future: "Future[Mapping[str, bytes]]") -> None:
        self._actuator.answer_round(round_.generation, future)
        try:
            reports = self._reader.read(round_)
            if not self.machine.state.leading or round_.generation <= self.machine.state.generation:
                self._take(evicted)
            # Members that read on while they join have read the leader's own records: the round must include
            # them.
            config = self._config_up_to(max(reports.highest_offset, self._actuator.written_offset))
            self._handle(
                ev.RoundReady(
                    round_.generation,
                    round_.protocol,
                    round_.leader_id,
                    reports.members,
                    reports.idle_ids,
                    reports.highest_offset,
                    config,
                    reports.metadata_bytes,
                    reports.offsets,
                    self._config_end() if reports.highest_offset > config.offset else None,
                )
            )
        except Exception as error:
            if not future.done():
                future.set_exception(error)
            self._handle(ev.RoundFailed(round_.generation, f"{type(error).__name__}: {error}"))
            if isinstance(error, LeadRefused):
                self._lost(str(error))
                if self._on_refused is not None:
                    self._on_refused(str(error))
                return
            raise
        finally:
            self._actuator.forget_round()

    def _config_up_to(self, offset: int) -> ClusterConfig:
        """The config log's state at ``offset``, or as far as it can be read in time."""
        config = self._logs.config.snapshot()
        if config.offset >= offset:
            return config
        try:
            return self._logs.config.read_to_end(CATCH_UP_MS)
        except LogUnavailable:
            log.warning("the config log could not be read past offset %d in time", config.offset)
            return self._logs.config.snapshot()

    def _config_end(self) -> int | None:
        try:
            return self._logs.config.end(CATCH_UP_MS)
        except LogUnavailable:
            return None

    def _take(self, evicted: Evicted) -> None:
        writer = self._actuator.begin()
        state = self._logs.leader.read_to_end(READ_LOGS_MS)
        if self._claim is not None:
            self._claim(state, writer)
        policy = state.policy or Policy() if self._policy_of_log else None
        config = self._logs.config.read_to_end(READ_LOGS_MS)
        records = _group_records(state.others)
        self._handle(ev.LeadTaken(state.memory or Memory(), config, *evicted, policy, records))
        log.info("leading in term %d", self.machine.state.memory.term)

    def _lost(self, reason: str) -> None:
        self._actuator.end()
        self._handle(ev.LeadLost(reason))

    def _carry_out(self, instructions: Sequence[ev.Instruction]) -> None:
        for number, instruction in enumerate(instructions):
            turn()
            self._writing = isinstance(instruction, _WRITES)
            try:
                self._actuator.carry_out(instruction)
            except Exception:
                # Evictions must not wait for an unavailable log.
                for later in instructions[number:]:
                    if isinstance(later, ev.Evict):
                        self._actuator.carry_out(later)
                raise
            self._writing = False
            if isinstance(instruction, ev.Answer | ev.SaveGroup):
                self._lines.say(self.machine.state.history.rebalances)
            is_default = self.machine.state.policy.name is PolicyName.DEFAULT
            if isinstance(instruction, ev.Answer) and is_default:
                self._reader.expect(self.machine.state.members, instruction.written)


def _group_records(records: Sequence[Record]) -> Records:
    """Those of a reconciled group. Raises LogUnreadable."""
    try:
        return group_records(records)
    except DecodeError as error:
        raise LogUnreadable(f"the leader log: {error}") from error
