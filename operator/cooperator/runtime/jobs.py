"""The two kinds of job: a task runs its units, an instance looks for units."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cooperator.connectors.base import Connector, RunningUnit, SessionLost, UnitContext, UnitProgress
from cooperator.connectors.bounds import allowed_options, not_of_group
from cooperator.connectors.offsets.unit_log import last_end
from cooperator.connectors.options import OptionError, Options, Problem
from cooperator.connectors.places import Place
from cooperator.connectors.references import Resolved, Resolver
from cooperator.connectors.server import Server
from cooperator.connectors.tasks import InstanceContext, TaskConnector, TaskContext, task_connector
from cooperator.connectors.topics import GroupCluster
from cooperator.connectors.units import (
    Layout,
    Owner,
    checkpoint,
    fixed_values,
    read_layout,
    settle_layout,
    task_configs,
)
from cooperator.model import Epoch, TaskId, thread_name
from cooperator.runtime.api import RuntimeListener
from cooperator.runtime.attempt import Run
from cooperator.runtime.failures import Failures
from cooperator.runtime.lag import Lag, LagPool
from cooperator.runtime.progress import WaitReasons, instance_progress, paused_progress, task_progress
from cooperator.runtime.traces import TaskFailed, describe, lasting_reason
from cooperator.supervision import name_native_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_OPENING_POLL_S = 0.05
_RUNNING_POLL_S = 1.0
_REPORT_S = 2.0
_RETRY_S = 1.0
_RETRY_MAX_S = 15.0


@dataclass(frozen=True, slots=True)
class Work:
    """The input of a job.

    ``cluster`` is that of the group. ``owner`` names the attempt. ``session`` returns the Spark session, or
    raises ``Cancelled`` when its event is set first. ``committed`` holds the connector's task configurations
    so far. ``epoch`` is that of the assignment that gave the task. ``lags`` measures the lag of tasks.
    ``failures`` holds those of earlier attempts. ``conf`` is the Worker's Spark configuration, resolved.
    ``is_learned``: as in ``TaskSpec``.
    """

    task: TaskId
    connector: Connector[Any]
    config: Mapping[str, str]
    group_id: str
    owner: str
    checkpoints: Place
    resolver: Resolver
    cluster: GroupCluster
    session: "Callable[[threading.Event], SparkSession]"
    lags: LagPool
    failures: Failures
    server: Server | None = None
    committed: Sequence[Mapping[str, str]] = ()
    epoch: Epoch | None = None
    attempt: int = 0
    is_learned: bool = False
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


def run_task(work: Work, run: Run) -> None:
    """A job: runs all units of the task until the run is cancelled; the first failure ends the others."""
    options, _, resolved = allowed_options(work.connector.options, work.config, work.resolver, running=True)
    if not options.task_units:
        remedy = "remove it; the connector's instance writes it"
        raise OptionError([Problem("task.units", None, "is required in a task's configuration", remedy)])
    whole = task_connector(work.connector, options)
    if whole is not None:
        _run_whole_task(work, whole, options, resolved, run)
        return
    waits = WaitReasons()
    halt = threading.Event()
    units: dict[str, _Unit] = {}
    try:
        layout = read_layout(work.checkpoints, work.task.connector)
        if layout is not None:
            owner = Owner(work.group_id, work.cluster.id_if_known())
            layout.check_owner(work.checkpoints, work.task.connector, owner)
        for name in options.task_units:
            context = UnitContext(
                group_id=work.group_id,
                task=work.task,
                unit=name,
                owner=work.owner,
                checkpoint=checkpoint(work.checkpoints, work.task.connector, name),
                cancelled=halt,
                session=_said(waits.of(name, "Spark"), work, halt),
                say=waits.of(name),
                is_first=layout is None or name in layout.first,
                epoch=work.epoch,
                attempt=work.attempt,
                server=work.server,
                is_learned=work.is_learned,
            )
            units[name] = _Unit(work.connector, options, context)
        _watch(
            work,
            options,
            lambda: ({name: unit.poll() for name, unit in units.items()}, None),
            waits,
            run,
            lambda text: run.progress(resolved.scrub(text)),
        )
    except Exception as error:
        raise TaskFailed(describe(error, resolved.scrub), lasting_reason(error)) from None
    finally:
        halt.set()
        _stop_all(units)


def _run_whole_task(
    work: Work, connector: TaskConnector[Any], options: Options, resolved: Resolved, run: Run
) -> None:
    """Does the same for a class that opens tasks as a whole."""
    waits = WaitReasons()
    halt = threading.Event()
    name = str(work.task)
    context = TaskContext(
        group_id=work.group_id,
        task=work.task,
        units=options.task_units,
        owner=work.owner,
        cancelled=halt,
        session=_said(waits.of("", "Spark"), work, halt),
        say=waits.of(),
        say_of=waits.of,
        checkpoint=lambda unit: checkpoint(work.checkpoints, work.task.connector, unit),
        epoch=work.epoch,
        attempt=work.attempt,
        server=work.server,
        conf=work.conf,
    )
    opened = _Opened(work.task, name, lambda: connector.open_task(options, context))

    def poll() -> tuple[Mapping[str, UnitProgress | None], int | None]:
        task = opened.running()
        if task is None:
            return dict.fromkeys(options.task_units), None
        progress = task.poll()
        return progress.units, progress.rows_out

    try:
        _watch(work, options, poll, waits, run, lambda text: run.progress(resolved.scrub(text)))
    except SessionLost:
        raise
    except Exception as error:
        raise TaskFailed(describe(error, resolved.scrub), lasting_reason(error)) from None
    finally:
        halt.set()
        opened.stop()


def idle_task(work: Work, run: Run) -> None:
    """Reports the lag of a paused task."""
    options, _, resolved = allowed_options(work.connector.options, work.config, work.resolver, running=True)
    lag = _lag(work, options)
    reported = ""
    while not run.cancelled.wait(_RUNNING_POLL_S):
        text = paused_progress(lag.look({}), work.failures.of(work.task))
        if text != reported:
            run.progress(resolved.scrub(text))
            reported = text


def _lag(work: Work, options: Options) -> Lag:
    """Returns the lag of a task's units; checkpoints supply the ends that units have not reported."""

    def measure(ends: Mapping[str, str]) -> int | None:
        if type(work.connector).lag is Connector.lag:
            return None
        name, units = work.task.connector, options.task_units
        whole = task_connector(work.connector, options)
        if whole is not None:
            missing = [unit for unit in units if not ends.get(unit)]
            asked = InstanceContext(work.group_id, name, threading.Event(), lambda text: None, work.conf)
            stored = whole.ends(options, asked, missing) if missing else {}
            return work.connector.lag(options, {unit: ends.get(unit) or stored[unit] for unit in units})
        known = {unit: ends.get(unit) or last_end(checkpoint(work.checkpoints, name, unit)) for unit in units}
        return work.connector.lag(options, known)

    return work.lags.of(measure)


def _watch(
    work: Work,
    options: Options,
    poll: Callable[[], tuple[Mapping[str, UnitProgress | None], int | None]],
    waits: WaitReasons,
    run: Run,
    report: Callable[[str], None],
) -> None:
    """Reports the progress that ``poll`` returns, with the rows that a task has written as a whole."""
    lag = _lag(work, options)
    reported = ""
    report_at, rows = time.monotonic() + _REPORT_S, 0
    opening = True
    while not run.cancelled.wait(_OPENING_POLL_S if opening else _RUNNING_POLL_S):
        progress, rows_out = poll()
        if opening and all(progress.values()):
            opening = False
            run.started()
        late_s = time.monotonic() - report_at
        if late_s < 0:
            continue
        known = {name: unit for name, unit in progress.items() if unit is not None}
        rows_now = sum(unit.rows_in for unit in known.values())
        rows_per_s = (rows_now - rows) / (_REPORT_S + late_s)
        records = lag.look({name: unit.end for name, unit in known.items()})
        failed = work.failures.of(work.task)
        waiting = [name for name, unit in progress.items() if unit is None]
        text = task_progress(known, rows_per_s, waits.shown(), records, failed, waiting, rows_out)
        report_at, rows = time.monotonic() + _REPORT_S, rows_now
        if text != reported:
            report(text)
            reported = text


def _said(say: Callable[[str], None], work: Work, halt: threading.Event) -> "Callable[[], SparkSession]":
    """Returns the session's function, which reports that it waits for Spark."""

    def session() -> "SparkSession":
        say("waiting for Spark to start")
        try:
            return work.session(halt)
        finally:
            say("")

    return session


class _Stoppable(Protocol):
    def stop(self) -> None: ...


R = TypeVar("R", bound=_Stoppable)


class _Opened(Generic[R]):
    """A unit or a task that is opened on a thread of its own, and then runs."""

    def __init__(self, task: TaskId, name: str, open_: Callable[[], R]) -> None:
        self._task = task
        self._name = name
        self._running: R | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._open, args=(open_,), name=name, daemon=True)
        self._thread.start()

    def _open(self, open_: Callable[[], R]) -> None:
        name_native_thread(partial(thread_name, self._task))
        try:
            self._running = open_()
        except Exception as error:
            self._failure = error
        except BaseException as error:  # User code may call sys.exit().
            self._failure = RuntimeError(f"{type(error).__name__}: {error}")

    def running(self) -> R | None:
        """Returns what runs; None until it is opened. Raises the error with which that failed."""
        if self._failure is not None:
            raise self._failure
        return self._running

    def stop(self) -> None:
        """Returns when nothing of it runs; its context must have been cancelled."""
        self._thread.join()
        while self._running is not None:
            try:
                self._running.stop()
                return
            except Exception:
                # "Stopped" promises that nothing runs, so it is not reported after an error.
                log.exception("%s could not be stopped yet", self._name)
                time.sleep(_RETRY_S)


class _Unit(_Opened[RunningUnit]):
    def __init__(self, connector: Connector[Any], options: Options, context: UnitContext) -> None:
        super().__init__(context.task, context.unit, lambda: connector.open(options, context))

    def poll(self) -> UnitProgress | None:
        """Returns the progress, or None while the unit is opening; raises its error."""
        try:
            running = self.running()
            return running.poll() if running is not None else None
        except Exception as error:
            error.add_note(f"in unit {self._name}")
            raise


def _stop_all(units: "dict[str, _Unit]") -> None:
    threads = [threading.Thread(target=unit.stop, daemon=True) for unit in units.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _settle(
    work: Work,
    options: Options,
    fixed: Mapping[str, str],
    units: Sequence[str],
    cancelled: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Writes the connector's layout unless there is one; raises ``OptionError`` if it does not fit."""
    name = work.task.connector
    owner = Owner(work.group_id, work.cluster.id())
    whole = task_connector(work.connector, options)
    if whole is None:
        settle_layout(work.checkpoints, name, owner, fixed, units)
        return
    # A connector of an earlier release has one in its checkpoints.
    earlier = read_layout(work.checkpoints, name)
    if earlier is not None:
        earlier.check_owner(work.checkpoints, name, owner)
        earlier.check_fixed(fixed)
    first = frozenset(units) if earlier is None else earlier.first
    context = InstanceContext(work.group_id, name, cancelled, say, work.conf)
    whole.settle_layout(options, context, Layout(fixed, first, owner))


def run_instance(work: Work, listener: RuntimeListener, run: Run) -> None:
    """A job: looks for units until the run is cancelled, and reports their grouping to the listener.

    A source that does not answer is a reason to wait, not a failure. Units stay once they are found: a
    momentary gap (metadata of a topic during an election) must not stop their task.
    """
    options, written, resolved = allowed_options(work.connector.options, work.config, work.resolver)
    waits = WaitReasons()
    published: list[dict[str, str]] | None = None
    known: list[str] = []
    retry_s = _RETRY_S
    failed, said = False, ""

    def report() -> None:
        text = instance_progress(len(known), len(published or ()), options.tasks_max, waits.shown())
        run.progress(resolved.scrub(text))

    def say(text: str) -> None:
        nonlocal said
        said = text
        # The last error is more helpful than what the next attempt waits for.
        if not failed:
            waits.of()(text)

    def look() -> Sequence[str]:
        """Looks for units; while that is slow it reports what it waits for."""
        late = threading.Timer(_REPORT_S, report)
        late.start()
        try:
            return not_of_group(options, work.connector.units(options, say), work.resolver.own_topics)
        finally:
            late.cancel()
            late.join(_REPORT_S)

    run.started()
    while True:
        wait_s = options.units_refresh_ms / 1000
        try:
            found = list(look())
            known = found + [unit for unit in known if unit not in set(found)]
            if not known:
                wait_s = min(wait_s, _RETRY_S)
            fixed = fixed_values(options, written)
            _settle(work, options, fixed, known, run.cancelled, say)
        except Exception as error:
            if isinstance(error, OptionError) or lasting_reason(error):
                raise
            log.info("connector %s: %s", work.task.connector, resolved.scrub(str(error)))
            waits.of()(str(error) or type(error).__name__)
            wait_s, retry_s = retry_s, min(retry_s * 2, _RETRY_MAX_S)
            failed = True
        else:
            failed = False
            waits.of()(said)
            retry_s = _RETRY_S
            earlier = work.committed if published is None else published
            configs = task_configs(work.connector, work.config, known, options.tasks_max, earlier)
            if configs != published:
                listener.units_changed(work.task.connector, configs)
                published = configs
        report()
        if run.cancelled.wait(wait_s):
            return
