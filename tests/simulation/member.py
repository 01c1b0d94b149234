"""One of our members: the project's whole agent in a simulated process."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from cooperator.agent.elected_lead import member_lead
from cooperator.agent.main import Agent, Parts
from cooperator.agent.options import RuntimeKind, WorkerOptions
from cooperator.agent.state import Phase, Settings, State
from cooperator.agent.story import StoryLine
from cooperator.logs import LogsConfig
from cooperator.model import Epoch, PolicyName, TaskId
from cooperator.runtime import RuntimeListener
from tests.simulation.learning import SteppedLearners
from tests.simulation.scheduler import Timer
from tests.simulation.stepped import Queue, SteppedMembership
from tests.simulation.tasks import Copy, SimulatedRuntime
from tests.simulation.topics import SimulatedLogs
from tests.simulation.worker import WorkerProcess

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

NOWHERE = Path("/nowhere")
FAREWELL_MS = 5_000


@dataclass(frozen=True, slots=True)
class MemberOptions(WorkerOptions):
    """Makes a supervisor's retries as short as the other times here. ``has_state``: the world's tasks have
    state, and members can learn it."""

    has_state: bool = False

    @property
    def learns(self) -> bool:
        return self.has_state

    def settings(self) -> Settings:
        return Settings(
            identity=self.identity,
            incarnation=self.incarnation,
            rejoin_retry_ms=6_000,
            refused_retry_ms=1_000,
            ask_every_ms=1_000,
            kill_after_ms=self.kill_after_ms,
            revocation_timeout_ms=self.revocation_timeout_ms,
            drain_timeout_ms=self.drain_timeout_ms,
            post_backoff_max_ms=6_000,
            warm_up_limit_ms=8_000,
        )


class MemberProcess(WorkerProcess):
    """Our agent in its pod, with its watchdog."""

    def __init__(
        self,
        simulation: "Simulation",
        identity: str,
        incarnation: str,
        place: str,
        on_exit: Callable[[int], None],
    ) -> None:
        super().__init__(simulation, identity, incarnation, place, on_exit)
        self._kill_timer: Timer | None = None
        self.agent: SimulatedAgent
        self.enter(self._make)

    @property
    def state(self) -> State:
        return self.agent._supervisor._supervisor.state

    @property
    def member_id(self) -> str:
        return self.state.member_id

    @property
    def applied(self) -> Epoch | None:
        return self.state.applied

    def may_stop(self, copy: Copy) -> bool:
        """It may stop if an assignment revoked the task, its configuration has changed, the lease has ended
        (measured by the real answers), the time to depart is over, or (Eager) it is about to join."""
        now_ms, by_ms = self.simulation.now_ms, self.state.depart_by_ms
        return (
            copy.task in self.revoked
            or now_ms >= self.proof_ms + self.state.lease_ms
            or self.configured(copy.task) != copy.config
            or (by_ms is not None and now_ms >= by_ms)
            or (self.simulation.policy.name is PolicyName.EAGER and self.state.join_ahead)
        )

    def counts(self, now_ms: int) -> bool:
        if self.frozen_ms is None:
            return True
        end_ms = self.state.lease_end_ms
        return end_ms is not None and now_ms < end_ms + self.simulation.times.kill_after_ms

    def failed_tasks(self) -> list[TaskId]:
        return [task.task for task in self.state.tasks.values() if task.phase is Phase.FAILED]

    def configured(self, task: TaskId) -> Mapping[str, str] | None:
        return self.agent._logs.config.snapshot().task_config(task)

    def validate(self) -> None:
        self.agent._supervisor._supervisor.validate()

    def story_lines(self) -> Sequence[StoryLine]:
        return list(self.agent._supervisor._supervisor._story)

    def told_to_end(self) -> None:
        self.enter(self.agent.drain)

    def watch(self, kill_at_ms: int | None) -> None:
        """Called by the watchdog, which is a process of its own."""
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if kill_at_ms is not None:
            delay_ms = max(0, kill_at_ms - self.simulation.now_ms)
            self._kill_timer = self.guard.after(delay_ms, self.kill)

    def _make(self) -> None:
        times = self.simulation.times
        options = MemberOptions(
            group_id=self.simulation.group_id,
            bootstrap_servers="simulated:9092",
            identity=self.identity,
            incarnation=self.incarnation,
            state_dir=NOWHERE,
            checkpoints=NOWHERE,
            host=self.name,
            runtime=RuntimeKind.INLINE,
            session_timeout_ms=times.session_ms,
            heartbeat_interval_ms=times.heartbeat_ms,
            rebalance_timeout_ms=times.rebalance_ms,
            lease_ms=times.lease_ms,
            kill_after_ms=times.kill_after_ms,
            drain_timeout_ms=times.drain_ms,
            revocation_timeout_ms=times.revocation_ms,
            has_state=self.simulation.shape.state is not None,
            reconciles=Random(self.name).random() < self.simulation.shape.reconciling,
        )
        self.agent = SimulatedAgent(options, self)
        self.agent.begin()


class SimulatedAgent(Agent):
    """The agent, with a queue of events instead of a thread."""

    def __init__(self, options: WorkerOptions, process: MemberProcess) -> None:
        self.process = process
        self._alarm: Timer | None = None
        parts = Parts(
            group=SteppedMembership,
            logs=self._open_logs,
            runtime=self._make_runtime,
            lead=member_lead,
        )
        super().__init__(options, _Watchdog(process), parts)

    def _make_runtime(self, _: WorkerOptions, listener: RuntimeListener) -> SimulatedRuntime:
        self.process.runtime = SimulatedRuntime(self.process, listener)
        return self.process.runtime

    def _open_logs(self, config: LogsConfig) -> SimulatedLogs:
        return SimulatedLogs(self.process, config)

    def begin(self) -> None:
        """Does ``open``, and ``run`` up to its loop."""
        stepped: object = self._inbox.queue
        assert isinstance(stepped, Queue)
        stepped.turn = self._turn
        self.open()
        self._calls.start()
        self._logs.config.on_change(lambda config: self._inbox.put(self._config_event))
        self._logs.config.on_restart(self._restart)
        self._inbox.put(self._config_event)
        self._group.start()
        learners: object = self._learners
        if isinstance(learners, SteppedLearners):
            learners.begin(self.process, self._calls)

    def _turn(self) -> None:
        if self._code is not None:
            return
        self._step()
        if not self.process.alive:
            return
        self.process.simulation.stepped(self.process)
        if self._code is not None:
            self._say_farewell(self._code, self.process.simulation.now_ms + FAREWELL_MS)
            return
        if self._alarm is not None:
            self._alarm.cancel()
        patience_s = self._patience_s()
        if patience_s is not None:
            self._alarm = self.process.after(round(patience_s * 1000), self._turn)

    def _say_farewell(self, code: int, until_ms: int) -> None:
        """Does what the membership's ``stop`` waits for."""
        group: object = self._group
        assert isinstance(group, SteppedMembership)
        if not group.ended and self.process.simulation.now_ms < until_ms:
            self.process.after(20, lambda: self._say_farewell(code, until_ms))
            return
        self._end(code)
        self.process.exited(code)


class _Watchdog:
    def __init__(self, process: MemberProcess) -> None:
        self._process = process

    def watch(self, kill_at_ms: int | None) -> None:
        self._process.watch(kill_at_ms)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.watch(None)
