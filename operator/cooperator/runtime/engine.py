"""The runtime: runs the attempts of all tasks, one thread each, behind calls that return at once."""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from cooperator.connectors.base import Connector
from cooperator.connectors.offset_operations import Subject
from cooperator.connectors.options import OptionError
from cooperator.connectors.places import Place, place_of
from cooperator.connectors.server import Server
from cooperator.connectors.state_query import StateQuery
from cooperator.connectors.topics import GroupCluster
from cooperator.model import TaskId
from cooperator.runtime.api import RuntimeListener, RuntimeSettings, TaskSpec
from cooperator.runtime.attempt import Attempt, Run
from cooperator.runtime.failures import Failures
from cooperator.runtime.jobs import Work, idle_task, run_instance, run_task
from cooperator.runtime.lag import LagPool
from cooperator.runtime.learners import Learned, Learners
from cooperator.runtime.spark_stores import SparkUnits
from cooperator.runtime.traces import TaskFailed, lasting_reason
from cooperator.supervision import TURN_S, supervised, turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_LEARNERS_S = 2.0
"""The time in which learners remove their files at the end; others remain until the next start."""


class Engine:
    """A ``Runtime`` for the connectors that ``find`` returns; ``session`` gives them Spark.

    Attempts of a task are chained: a newer one begins when the older one is over, so that no task ever runs
    twice in this process. The listener is called from one thread, in order.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        listener: RuntimeListener,
        find: Callable[[str], Connector[Any]],
        session: "Callable[[threading.Event], SparkSession]",
    ) -> None:
        self._settings = settings
        self._failures = Failures()
        self._lags = LagPool()
        self._dispatcher = _EventDispatcher(listener, self._failures)
        self._find = find
        self._session = session
        self._lock = threading.Lock()
        self._attempts: dict[TaskId, Attempt] = {}
        self._newest: dict[TaskId, int] = {}
        self._closed = False
        self._place: Place | None = None
        self._learners: Learners | None = None
        self._resolver = settings.resolver()
        self._cluster = GroupCluster(self._resolver)

    def warm_up(self) -> bool:
        return False

    def state(self, subject: Subject, query: StateQuery) -> dict[str, Any]:
        # Imported on demand: a member has to start fast.
        from cooperator.connectors.state_reading import read_state

        return read_state(subject, query, self._session)

    def learn(self, wanted: Mapping[TaskId, Mapping[str, str]]) -> None:
        """Learns the state of exactly these tasks from now on, given with their configurations.

        A task that begins here takes over what is learned, and is learned no longer.
        """
        with self._lock:
            if self._learners is None:
                if not wanted or self._closed:
                    return
                self._learners = self._new_learners()
        self._learners.learn(wanted)

    def learned(self) -> list[Learned]:
        """Returns how far the learned tasks are."""
        return [] if self._learners is None else self._learners.report()

    def _new_learners(self) -> Learners:
        units = SparkUnits(self._conf().get("spark.master", ""), self._checkpoints, self._session)
        return Learners(units, self._settings.state_dir / "learned")

    def start(self, spec: TaskSpec, attempt: int) -> None:
        with self._lock:
            if attempt <= self._newest.get(spec.task, -1):
                return
            if self._closed:
                self._dispatcher.stopped(spec.task, attempt)
                return
            self._newest[spec.task] = attempt
            if self._learners is not None:
                self._learners.begin(spec.task)
            previous = self._attempts.get(spec.task)
            if previous is not None:
                previous.end(previous.attempt)
            job, idle = partial(self._job, spec, attempt), partial(self._idle, spec, attempt)
            running = Attempt(
                spec.task, attempt, job, self._dispatcher, idle=idle, paused=spec.paused, previous=previous
            )
            self._attempts[spec.task] = running
            running.begin()

    def stop(self, task: TaskId, attempt: int) -> None:
        with self._lock:
            self._newest[task] = max(attempt, self._newest.get(task, -1))
            if self._learners is not None:
                self._learners.end(task)
            running = self._attempts.get(task)
            while running is not None and running.attempt > attempt:
                running = running.previous
            if running is None or not running.end(attempt):
                self._dispatcher.stopped(task, attempt)

    def pause(self, task: TaskId) -> None:
        with self._lock:
            if task in self._attempts:
                self._attempts[task].pause()

    def resume(self, task: TaskId) -> None:
        with self._lock:
            if task in self._attempts:
                self._attempts[task].resume()

    def close(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            attempts = list(self._attempts.values())
            for running in attempts:
                running.end(running.attempt)
        if self._learners is not None:
            self._learners.close(_LEARNERS_S)
        over = [running.wait(max(0.0, deadline - time.monotonic())) for running in attempts]
        self._lags.close()
        self._dispatcher.close(max(0.0, deadline - time.monotonic()))
        return all(over)

    def _job(self, spec: TaskSpec, attempt: int, run: Run) -> None:
        work = self._work(spec, attempt)
        if spec.task.is_instance:
            run_instance(work, self._dispatcher, run)
        else:
            run_task(work, run)

    def _idle(self, spec: TaskSpec, attempt: int, run: Run) -> None:
        if not spec.task.is_instance:
            idle_task(self._work(spec, attempt), run)

    def _checkpoints(self) -> Place:
        """Returns the place of checkpoints. A store is checked for conditional writes once."""
        if self._place is None:
            self._place = place_of(self._settings.checkpoints, self._conf(), os.environ)
        return self._place

    def _conf(self) -> Mapping[str, str]:
        return self._settings.resolved_conf()

    def _work(self, spec: TaskSpec, attempt: int) -> Work:
        settings = self._settings
        try:
            connector = self._find(spec.config.get("connector.class", ""))
        except OptionError as error:
            # The error names this member, since others may differ.
            where = f"member {settings.member} of the Worker's group {settings.group_id}"
            raise TaskFailed(f"{where}: {error}", lasting_reason(error)) from error
        return Work(
            task=spec.task,
            connector=connector,
            config=spec.config,
            group_id=settings.group_id,
            owner=f"{settings.member}/{settings.incarnation}/{attempt}",
            checkpoints=self._checkpoints(),
            resolver=self._resolver,
            cluster=self._cluster,
            session=self._session,
            lags=self._lags,
            failures=self._failures,
            server=Server.of(self._conf(), settings.group_id),
            conf=self._conf(),
            committed=spec.committed,
            epoch=spec.epoch,
            attempt=attempt,
            is_learned=spec.is_learned,
        )


class _EventDispatcher:
    """Passes all events to the listener from a thread of its own, never from within a call."""

    def __init__(self, listener: RuntimeListener, failures: Failures) -> None:
        self._listener = listener
        self._failures = failures
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = supervised(self._tell, "runtime events")
        self._thread.start()

    def started(self, task: TaskId, attempt: int) -> None:
        self._queue.put(partial(self._listener.started, task, attempt))

    def paused(self, task: TaskId, attempt: int) -> None:
        self._queue.put(partial(self._listener.paused, task, attempt))

    def stopped(self, task: TaskId, attempt: int) -> None:
        self._queue.put(partial(self._listener.stopped, task, attempt))

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self._failures.add(task, trace, time.time_ns() // 1_000_000)
        self._queue.put(partial(self._listener.failed, task, attempt, trace, reason))

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        self._queue.put(partial(self._listener.progress, task, attempt, text))

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        self._queue.put(partial(self._listener.units_changed, connector, task_configs))

    def warmed_up(self) -> None:
        self._queue.put(self._listener.warmed_up)

    def warm_up_failed(self) -> None:
        self._queue.put(self._listener.warm_up_failed)

    def close(self, timeout_s: float) -> None:
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _tell(self) -> None:
        while True:
            turn()
            try:
                tell = self._queue.get(timeout=TURN_S)
            except Empty:
                continue
            if tell is None:
                return
            try:
                tell()
            except Exception:
                log.exception("the runtime's listener failed")
