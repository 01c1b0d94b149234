"""A task that reads partitions of topics: its loop of batches, on a thread of its own."""

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cooperator.connectors.base import Cancelled, SessionLost, UnitProgress
from cooperator.connectors.kafka_offsets import has_start
from cooperator.connectors.microbatch import members
from cooperator.connectors.microbatch.batches import Batches, BatchFailed, Owned, UnitOwnership
from cooperator.connectors.microbatch.ends import Subscription
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.mirror import Mirror, mirror_to
from cooperator.connectors.microbatch.planned_first import PlannedFirst
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition, end_of
from cooperator.connectors.microbatch.spark_batches import LEAST_SLOTS
from cooperator.connectors.offsets.unit_log import reached
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place
from cooperator.connectors.tasks import TaskContext, TaskProgress
from cooperator.connectors.topics import KafkaUnavailable
from cooperator.connectors.units import Layout
from cooperator.model.trace import trimmed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_MAX_SLOTS: Final = 8
"""The maximum number of producers of a task; each has connections to the brokers that it writes to."""
_OPENING_S: Final = 0.05
_RETRY_S: Final = 1.0
_ENDING_S: Final = 1.0
"""The time in which a JVM that is ending has ended."""
_SAID: Final = 600
"""The longest message of a unit's failure, in characters."""

OffsetsOf = Callable[[Collection[Partition]], Mapping[Partition, int]]


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """``client`` holds properties of confluent-kafka clients of the source's cluster, ``java`` those that
    look at partitions' ends (Java's names).

    ``earliest`` and ``latest`` return the ends of partitions; they may raise ``KafkaUnavailable``.
    """

    client: Mapping[str, Any] = field(repr=False)
    java: Mapping[str, str] = field(repr=False)
    limits: Limits
    interval_ms: int
    starts_at_latest: bool
    fail_on_data_loss: bool
    earliest: OffsetsOf
    latest: OffsetsOf


class LoopParts(NamedTuple):
    """The parts of a task besides its source. ``layout`` returns its connector's.

    ``store`` names where positions are, for users. ``ends`` may hold back news of its partitions.
    """

    ownership: UnitOwnership
    batches: Batches
    layout: Callable[[], Layout | None]
    store: str
    slots: int
    ends: Callable[[Subscription], Subscription] = lambda ends: ends


def open_loop(
    context: TaskContext,
    member: "SparkSession",
    source: SourceSettings,
    parts: LoopParts,
    stopped: threading.Event,
) -> "LoopTask":
    """Claims the units and returns the task once it runs. Raises what it fails with, and ``Cancelled``.

    ``member`` is the member's session. ``stopped`` is set when the task is to stop.
    """
    units = {Partition.of_unit(unit): unit for unit in context.units}
    watcher = members.watcher_of(member, source.java)

    asked_all = threading.Event()

    def first_offsets(missing: Collection[Partition]) -> Mapping[Partition, int]:
        # All are asked for at once, as "latest" means now; later those that answer looks, so that none waits.
        wanted = set(missing) & loop.ends.ends.keys() if asked_all.is_set() else set(missing)
        asked_all.set()
        layout = parts.layout() if wanted else None
        is_first = {unit: layout is None or units[unit] in layout.first for unit in wanted}
        late = {unit for unit in wanted if source.starts_at_latest and is_first[unit]}
        return {**asked(source.earliest, wanted - late), **asked(source.latest, late)}

    def asked(ask: OffsetsOf, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Leaves out partitions that do not answer: looks at ends say so, and go on asking for them."""
        try:
            return ask(partitions) if partitions else {}
        except KafkaUnavailable as error:
            log.info("offsets of %s: %s", ", ".join(map(str, sorted(partitions)[:3])), error)
            return {}

    def check(owned: Owned) -> None:
        missing = [units[each] for each in units if each not in owned.positions]
        refuse_earlier(context, missing, parts.store)

    loop = TaskLoop(
        units=tuple(units),
        ownership=parts.ownership,
        batches=parts.batches,
        ends=parts.ends(watcher.subscribe(units, source.interval_ms)),
        limits=source.limits,
        grouping=Grouping(parts.slots),
        first_offsets=first_offsets,
        say=context.say,
        earliest=lambda again: asked(source.earliest, again & loop.ends.ends.keys()),
        fail_on_data_loss=source.fail_on_data_loss,
        started=check,
        narrowed=parts.batches.narrowed if isinstance(parts.batches, PlannedFirst) else lambda limits: limits,
        stopped=stopped,
    )
    # No name of a group or a connector has a slash, so no two connectors have the same group.
    mirror = mirror_to(f"{context.group_id}/{context.task.connector}", source.client)
    return run_loop(context, member, loop, units, Shown(end_of, mirror))


def run_loop(
    context: TaskContext,
    member: "SparkSession",
    loop: TaskLoop,
    units: Mapping[Partition, str],
    shown: "Shown",
) -> "LoopTask":
    """Claims the units and returns the task once it runs; see ``open_loop``."""
    untyped: Any = member
    started, before = threading.Event(), loop.started

    def begun(owned: Owned) -> None:
        before(owned)
        started.set()

    loop.started = begun
    task = LoopTask(loop, units, untyped.sparkContext._gateway.proc, shown, context.say_of)
    task.begin()
    try:
        while not started.wait(_OPENING_S):
            if context.cancelled.is_set():
                raise Cancelled
            task.poll()
    except BaseException:
        task.stop()
        raise
    return task


def slots_for(units: int, spark: "SparkSession") -> int:
    """Returns the number of slots: one for each core that runs Spark's tasks, and no more than units."""
    conf = dict(spark.sparkContext.getConf().getAll())
    cores = cores_of(conf, os.cpu_count() or 1, spark.sparkContext.defaultParallelism)
    return max(LEAST_SLOTS, min(_MAX_SLOTS, cores, units))


def cores_of(conf: Mapping[str, str], here: int, registered: int) -> int:
    """Returns the cores that run the tasks of a session: this machine's, or those of its executors.

    ``conf`` are Spark's settings. Executors may come up later than a task starts, so what the settings ask
    for counts; without a limit, it is what has ``registered`` so far, and this machine's cores at least.
    """
    if conf.get("spark.master", "").startswith("local"):
        return here
    if "spark.cores.max" in conf:
        return int(conf["spark.cores.max"])
    if "spark.executor.instances" in conf:
        return int(conf["spark.executor.instances"]) * int(conf.get("spark.executor.cores", "1"))
    return max(here, registered)


def refuse_earlier(context: TaskContext, units: Sequence[str], store: str) -> None:
    """Raises ``OptionError`` if a unit without a position has a checkpoint of an earlier release."""
    for unit in units:
        checkpoint = context.checkpoint(unit)
        if is_earlier(checkpoint):
            problem = f"has a checkpoint of unit {unit}, whose position is not in {store} yet"
            name = context.task.connector
            remedy = (
                f"stop the Connector, migrate its offsets (`kubectl cooperator offsets migrate {name}`, "
                f"`cooperator local offsets migrate {name}`, or "
                f"POST /connectors/{name}/offsets/migrate of the REST API), which keeps the position, or "
                "reset them, and resume it"
            )
            raise OptionError([Problem("spec.checkpointLocation", str(checkpoint), problem, remedy)])


def is_earlier(checkpoint: Place) -> bool:
    """Whether this is a checkpoint with a position that has not been taken over."""
    has_position = reached(checkpoint)[1] >= 0 or has_start(checkpoint)
    return has_position and not (checkpoint / MIGRATED).exists()


MIGRATED: Final = "migrated"
"""A file in a checkpoint whose position has been taken over."""


class Shown(NamedTuple):
    """The form in which a task shows its positions. ``end`` returns one as ``UnitProgress.end`` has it.

    ``mirror`` None: they are not offsets of records, so that nothing counts what is behind.
    """

    end: Callable[[str, int | None], str]
    mirror: Mirror | None = None


class LoopTask:
    """A task that runs: its loop, on a thread of its own. ``jvm`` is the process of the session."""

    def __init__(
        self,
        loop: TaskLoop,
        units: Mapping[Partition, str],
        jvm: Any,
        shown: Shown,
        say_of: Callable[[str], Callable[[str], None]] = lambda unit: lambda text: None,
    ) -> None:
        self._loop = loop
        self._say_of = say_of
        self._said: Mapping[Partition, str] = {}
        self._shown = shown
        self._units = units
        self._jvm = jvm
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"loop of {next(iter(units.values()))}")
        self._thread.daemon = True

    def begin(self) -> None:
        self._thread.start()

    def poll(self) -> TaskProgress:
        if self._jvm is not None and self._has_ended():
            raise SessionLost("Spark's JVM has ended")
        if self._error is not None:
            raise self._error
        self._say_troubles()
        ends = self._loop.ends.ends
        counts = self._loop.counts
        found: dict[str, UnitProgress] = {}
        for partition, unit in self._units.items():
            of_unit = counts.of(partition)
            end, behind = self._shown.end(unit, of_unit.next), None
            if self._shown.mirror is not None and of_unit.next is not None and partition in ends:
                behind = max(0, ends[partition] - of_unit.next)
            found[unit] = UnitProgress(of_unit.batches - 1, of_unit.records, None, end, behind)
        if self._shown.mirror is not None:
            reached = {unit: counts.of(unit).next for unit in self._units}
            at = {unit: offset for unit, offset in reached.items() if offset is not None}
            self._shown.mirror.offer(at, time.monotonic())
        return TaskProgress(found, counts.rows)

    def _has_ended(self) -> bool:
        """Whether the JVM has ended. An error of the loop may be the first sign of it."""
        if self._error is None or isinstance(self._error, BatchFailed):
            return self._jvm.poll() is not None
        try:
            self._jvm.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _say_troubles(self) -> None:
        """Says what keeps units from being read; what failed for one of them says more than what it waits
        for."""
        aside = {unit: _told(each.error) for unit, each in self._loop.apart.aside.items()}
        troubles = {**self._loop.ends.troubles, **aside}
        for unit in self._said.keys() | troubles.keys():
            if (text := troubles.get(unit, "")) != self._said.get(unit, ""):
                self._say_of(self._units[unit])(text)
        self._said = troubles

    def stop(self) -> None:
        self._loop.stop()
        while self._thread.is_alive():
            self._thread.join(_RETRY_S)

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._loop.run()
        except BaseException as error:
            ran_s = time.monotonic() - began
            log.info("%s ended after %.1f s: %s", self._thread.name, ran_s, error)
            self._error = error


def _told(error: Exception) -> str:
    """Returns what users are told of a unit that is set aside: the failure, without a trace of the JVM."""
    text = " ".join(str(error).split("\n\tat ")[0].split())
    return f"tried again soon after: {trimmed(text, _SAID)}"
