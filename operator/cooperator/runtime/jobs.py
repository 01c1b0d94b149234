"""The two kinds of job: a task runs its units, an instance looks for units."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cooperator.model import Epoch, TaskId
from cooperator.runtime.api import RuntimeListener
from cooperator.runtime.connectors.base import Connector, RunningUnit, UnitContext, UnitProgress
from cooperator.runtime.connectors.remote import Server
from cooperator.runtime.failures import Failures
from cooperator.runtime.lag import Lag, LagPool
from cooperator.runtime.life import Run, TaskFailed, describe
from cooperator.runtime.offsets.unit_log import last_end
from cooperator.runtime.options import OptionError, Options, Problem, resolved_options
from cooperator.runtime.places import Place
from cooperator.runtime.progress import Troubles, instance_progress, paused_progress, task_progress
from cooperator.runtime.references import Resolver
from cooperator.runtime.units import checkpoint, fixed_values, read_layout, settle_layout, task_configs

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
    """What a job is about. ``owner`` names the attempt; ``session`` gives the Spark session, or raises
    ``Cancelled`` when its event is set first. ``committed``: the connector's task configurations so far.
    ``epoch``: of the share that gave the task. ``lags``: measures how far behind tasks are. ``failures``: of
    attempts before this one."""

    task: TaskId
    connector: Connector[Any]
    config: Mapping[str, str]
    group_id: str
    owner: str
    checkpoints: Place
    resolver: Resolver
    session: "Callable[[threading.Event], SparkSession]"
    lags: LagPool
    failures: Failures
    server: Server | None = None
    committed: Sequence[Mapping[str, str]] = ()
    epoch: Epoch | None = None
    attempt: int = 0


def run_task(work: Work, run: Run) -> None:
    """A job: all units of the task run until the run is cancelled; the first that fails ends the others."""
    options, _, resolved = resolved_options(work.connector.options, work.config, work.resolver)
    if not options.task_units:
        remedy = "leave it to the connector's instance, which writes it"
        raise OptionError([Problem("task.units", None, "is required of a task", remedy)])
    troubles = Troubles()
    halt = threading.Event()
    units: dict[str, _Unit] = {}
    try:
        layout = read_layout(work.checkpoints, work.task.connector)
        for name in options.task_units:
            context = UnitContext(
                group_id=work.group_id,
                task=work.task,
                unit=name,
                owner=work.owner,
                checkpoint=checkpoint(work.checkpoints, work.task.connector, name),
                cancelled=halt,
                session=lambda: work.session(halt),
                say=troubles.of(name),
                is_first=layout is None or name in layout.first,
                epoch=work.epoch,
                attempt=work.attempt,
                server=work.server,
            )
            units[name] = _Unit(work.connector, options, context)
        _watch(work, options, units, troubles, run, lambda text: run.progress(resolved.scrub(text)))
    except Exception as error:
        raise TaskFailed(resolved.scrub(describe(error))) from None
    finally:
        halt.set()
        _stop_all(units)


def idle_task(work: Work, run: Run) -> None:
    """What is told of a task that is paused: how far its sources have gone on without it."""
    options, _, resolved = resolved_options(work.connector.options, work.config, work.resolver)
    lag = _lag(work, options)
    reported = ""
    while not run.cancelled.wait(_RUNNING_POLL_S):
        text = paused_progress(lag.look({}), work.failures.of(work.task))
        if text != reported:
            run.progress(resolved.scrub(text))
            reported = text


def _lag(work: Work, options: Options) -> Lag:
    """Of the units of a task; where one has not told its end, its checkpoint does."""

    def measure(ends: Mapping[str, str]) -> int | None:
        if type(work.connector).lag is Connector.lag:
            return None
        known = {
            unit: ends.get(unit) or last_end(checkpoint(work.checkpoints, work.task.connector, unit))
            for unit in options.task_units
        }
        return work.connector.lag(options, known)

    return work.lags.of(measure)


def _watch(
    work: Work,
    options: Options,
    units: "dict[str, _Unit]",
    troubles: Troubles,
    run: Run,
    report: Callable[[str], None],
) -> None:
    lag = _lag(work, options)
    reported = ""
    report_at, rows = time.monotonic() + _REPORT_S, 0
    opening = True
    while not run.cancelled.wait(_OPENING_POLL_S if opening else _RUNNING_POLL_S):
        progress = {name: unit.poll() for name, unit in units.items()}
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
        text = task_progress(known, rows_per_s, troubles.text(), records, failed)
        report_at, rows = time.monotonic() + _REPORT_S, rows_now
        if text != reported:
            report(text)
            reported = text


class _Unit:
    """A unit that is being opened on a thread of its own, and then runs."""

    def __init__(self, connector: Connector[Any], options: Options, context: UnitContext) -> None:
        self._name = context.unit
        self._running: RunningUnit | None = None
        self._failure: Exception | None = None
        arguments = (connector, options, context)
        self._thread = threading.Thread(target=self._open, args=arguments, name=self._name, daemon=True)
        self._thread.start()

    def _open(self, connector: Connector[Any], options: Options, context: UnitContext) -> None:
        try:
            self._running = connector.open(options, context)
        except Exception as error:
            self._failure = error

    def poll(self) -> UnitProgress | None:
        """None while it is opening; raises what it failed with."""
        try:
            if self._failure is not None:
                raise self._failure
            return self._running.poll() if self._running is not None else None
        except Exception as error:
            error.add_note(f"in unit {self._name}")
            raise

    def stop(self) -> None:
        """Returns when nothing of it runs; its context must have been cancelled."""
        self._thread.join()
        while self._running is not None:
            try:
                self._running.stop()
                return
            except Exception:
                # "Stopped" is a promise that nothing runs: it is not given for an error.
                log.exception("unit %s could not be stopped yet", self._name)
                time.sleep(_RETRY_S)


def _stop_all(units: "dict[str, _Unit]") -> None:
    threads = [threading.Thread(target=unit.stop, daemon=True) for unit in units.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_instance(work: Work, listener: RuntimeListener, run: Run) -> None:
    """A job: looks for units until the run is cancelled, and tells the listener how they are grouped.

    A source that does not answer is a trouble to be told, not a failure. Units found once stay: what is
    not seen for a moment (metadata of a topic during an election) must not stop its task.
    """
    options, written, resolved = resolved_options(work.connector.options, work.config, work.resolver)
    troubles = Troubles()
    told: list[dict[str, str]] | None = None
    known: list[str] = []
    retry_s = _RETRY_S
    run.started()
    while True:
        wait_s = options.units_refresh_ms / 1000
        try:
            found = list(work.connector.units(options, troubles.of("source")))
            known = found + [unit for unit in known if unit not in set(found)]
            if not known:
                wait_s = min(wait_s, _RETRY_S)
            fixed = fixed_values(options, written)
            settle_layout(work.checkpoints, work.task.connector, fixed, known)
        except OptionError:
            raise
        except Exception as error:
            log.info("connector %s: %s", work.task.connector, resolved.scrub(str(error)))
            troubles.of("source")(str(error) or type(error).__name__)
            wait_s, retry_s = retry_s, min(retry_s * 2, _RETRY_MAX_S)
        else:
            retry_s = _RETRY_S
            earlier = work.committed if told is None else told
            configs = task_configs(work.connector, work.config, known, options.tasks_max, earlier)
            if configs != told:
                listener.units_changed(work.task.connector, configs)
                told = configs
        text = instance_progress(len(known), len(told or ()), options.tasks_max, troubles.text())
        run.progress(resolved.scrub(text))
        if run.cancelled.wait(wait_s):
            return
