"""Simulated execution: the running copies of tasks, and the runtime that starts and stops them.

A copy runs from the moment at which its start is requested until nothing of it runs any more, whether anybody
knows of it or not: a stopping task runs, and so does one at a member that nobody hears of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cooperator.connectors.offset_operations import Subject
from cooperator.connectors.state_query import StateError, StateQuery
from cooperator.model import Epoch, TaskId
from cooperator.runtime import RuntimeListener, TaskSpec
from tests.simulation.learning import SimulatedLearning
from tests.simulation.scheduler import Act

if TYPE_CHECKING:
    from cooperator.runtime.learners import Learned
    from tests.simulation.simulation import Simulation
    from tests.simulation.worker import WorkerProcess

WARM_UP_RETRY_MS = 3_000
UNITS = 6
"""The number of units of every connector, which its tasks are made of."""


def unit_names(connector: str, units: str) -> frozenset[str]:
    return frozenset(f"{connector}/{unit}" for unit in units.split(",") if unit)


def grouped(tasks_max: int) -> list[dict[str, str]]:
    """The configurations of a connector's tasks: its units, dealt out."""
    tasks = min(tasks_max, UNITS)
    return [{"units": ",".join(str(u) for u in range(UNITS) if u % tasks == t)} for t in range(tasks)]


@dataclass(eq=False, slots=True)
class Copy:
    """One running attempt of a task. ``since_ms`` is that of the first attempt under the same epoch, since a
    member restarts a task whose configuration changes. ``stale`` means that its member has slept past the end
    of its lease, and that sinks must refuse what it does now."""

    task: TaskId
    attempt: int
    epoch: Epoch | None
    member: "WorkerProcess"
    units: frozenset[str]
    config: Mapping[str, str]
    since_ms: int
    paused: bool = False
    started: bool = False
    stopping: bool = False
    hangs_since_ms: int | None = None
    stale: bool = False

    def __str__(self) -> str:
        return f"{self.task} at {self.member.name} (attempt {self.attempt}, under {self.epoch})"


@dataclass
class Copies:
    """All existing copies. ``changed`` is since the last look."""

    by_task: dict[TaskId, list[Copy]] = field(default_factory=dict)
    changed: bool = False

    def all(self) -> list[Copy]:
        return [copy for copies in self.by_task.values() for copy in copies]

    def add(self, copy: Copy) -> None:
        self.by_task.setdefault(copy.task, []).append(copy)
        self.changed = True

    def remove(self, copy: Copy) -> None:
        copies = self.by_task[copy.task]
        copies.remove(copy)
        if not copies:
            del self.by_task[copy.task]
        self.changed = True


class SimulatedRuntime:
    """A member's runtime: starts and stops take random times of the world.

    ``failing`` is how many of the next starts fail. ``stuck`` means that stops do not end for a while,
    ``stuck_for_ever`` that those of revoked tasks never do. ``warm`` means that
    starts come up; for a member of ours only once it has warmed up.
    """

    def __init__(self, member: "WorkerProcess", listener: RuntimeListener) -> None:
        self._member = member
        self._simulation: Simulation = member.simulation
        self._listener = listener
        self.copies: dict[TaskId, Copy] = {}
        self._since: dict[TaskId, tuple[Epoch | None, int]] = {}
        self.failing = 0
        self.stuck = False
        self.stuck_for_ever = False
        self.warm = True
        self._waiting: list[tuple[Copy, TaskSpec]] = []
        self.learning = SimulatedLearning(member)

    def warm_up(self) -> bool:
        self.warm = not self._simulation.shape.warm_up_ms
        if not self.warm:
            self._after(self._simulation.draw_warm_up_ms(), self._warmed_up)
        return not self.warm

    def state(self, subject: Subject, query: StateQuery) -> dict[str, Any]:
        raise StateError("the simulation has no state of queries")

    def learn(self, wanted: Mapping[TaskId, Mapping[str, str]]) -> None:
        self.learning.learn(wanted)

    def learned(self) -> "list[Learned]":
        return self.learning.learned()

    def _warmed_up(self) -> None:
        if self._simulation.warm_ups_fail:
            self._simulation.tell(f"{self._member.name} cannot warm up")
            self._tell(self._listener.warm_up_failed)
            self._after(WARM_UP_RETRY_MS, self._warmed_up)
            return
        self._simulation.tell(f"{self._member.name} is warm")
        self.warm = True
        self._tell(self._listener.warmed_up)
        for copy, spec in self._waiting:
            self._come_up(copy, spec)
        self._waiting.clear()

    def _come_up(self, copy: Copy, spec: TaskSpec) -> None:
        self._after(self._simulation.draw_start_ms(), lambda: self._up(copy, spec))

    def start(self, spec: TaskSpec, attempt: int) -> None:
        assert spec.task not in self.copies, f"{spec.task} is started while an attempt of it runs"
        units = unit_names(spec.task.connector, spec.config.get("units", ""))
        epoch, since_ms = self._since.get(spec.task, (None, 0))
        if epoch is None or epoch != spec.epoch:
            since_ms = self._simulation.now_ms
        self._since[spec.task] = spec.epoch, since_ms
        copy = Copy(
            spec.task, attempt, spec.epoch, self._member, units, spec.config, since_ms, paused=spec.paused
        )
        self.copies[spec.task] = copy
        self._simulation.copies.add(copy)
        self._simulation.tell(
            f"{spec.task} starts at {self._member.name}, attempt {attempt} under {spec.epoch}"
        )
        if self.warm:
            self._come_up(copy, spec)
        else:
            self._waiting.append((copy, spec))

    def stop(self, task: TaskId, attempt: int) -> None:
        copy = self.copies.get(task)
        if copy is None or copy.attempt != attempt:
            self._listener.stopped(task, attempt)
            return
        if copy.stopping:
            return
        copy.stopping = True
        self._simulation.stops.append(copy)
        if self.stuck_for_ever and task in self._member.revoked:
            copy.hangs_since_ms = self._simulation.now_ms
            self._simulation.hanging.append(copy)
        elif not self.stuck:
            self._after(self._simulation.draw_stop_ms(), lambda: self._down(copy))

    def cancel(self, copy: Copy) -> None:
        """Its stop has taken too long, and is not awaited any more."""
        self._down(copy)

    def unstick(self) -> None:
        """Finish the hanging stops."""
        self.stuck = False
        for copy in list(self.copies.values()):
            if copy.stopping and copy.hangs_since_ms is None:
                self._after(0, lambda copy=copy: self._down(copy))  # type: ignore[misc]

    def pause(self, task: TaskId) -> None:
        copy = self.copies.get(task)
        if copy is not None:
            copy.paused = True
            self._listener.paused(task, copy.attempt)

    def resume(self, task: TaskId) -> None:
        copy = self.copies.get(task)
        if copy is not None:
            copy.paused = False
            self._listener.started(task, copy.attempt)

    def close(self, timeout_s: float) -> bool:
        return not self.copies

    def end(self) -> None:
        """The process has ended, and with it everything here."""
        for copy in self.copies.values():
            self._simulation.copies.remove(copy)
        self.copies.clear()

    def _after(self, delay_ms: int, act: Act) -> None:
        # The engine is a process beside the supervisor: it continues when that hangs.
        self._member.engine.after(delay_ms, act)

    def _up(self, copy: Copy, spec: TaskSpec) -> None:
        if self.copies.get(copy.task) is not copy or copy.stopping:
            return
        if self.failing > 0:
            self.failing -= 1
            self._gone(copy)
            self._tell(lambda: self._listener.failed(copy.task, copy.attempt, "it would not start"))
            return
        copy.started = True
        if copy.paused:
            self._tell(lambda: self._listener.paused(copy.task, copy.attempt))
        else:
            self._tell(lambda: self._listener.started(copy.task, copy.attempt))
        if copy.task.is_instance:
            configs = grouped(int(spec.config["tasks.max"]))
            self._tell(lambda: self._listener.units_changed(copy.task.connector, configs))

    def _down(self, copy: Copy) -> None:
        if self.copies.get(copy.task) is not copy:
            return
        self._gone(copy)
        self._tell(lambda: self._listener.stopped(copy.task, copy.attempt))

    def _gone(self, copy: Copy) -> None:
        del self.copies[copy.task]
        self._simulation.copies.remove(copy)
        self._simulation.tell(f"{copy.task} has ended at {self._member.name}, attempt {copy.attempt}")

    def _tell(self, say: Act) -> None:
        self._member.enter(say)
