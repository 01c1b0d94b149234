"""A task that copies partitions of topics into topics of the same cluster: the loop, and what it needs."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.base import Cancelled, UnitProgress
from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.kafka_offsets import has_start
from cooperator.connectors.microbatch import members, notes
from cooperator.connectors.microbatch.batches import Owned
from cooperator.connectors.microbatch.claims import Claim, TransactionalIds, UnitKey
from cooperator.connectors.microbatch.kafka_positions import KafkaPositions, OwnedUnits
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.mirror import Mirror, mirror_to
from cooperator.connectors.microbatch.ownership import Attempt, Ownership
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from cooperator.connectors.microbatch.spark_batches import (
    LEAST_SLOTS,
    BatchTarget,
    SparkBatches,
    session_of_task,
)
from cooperator.connectors.microbatch.task_units import TaskUnits
from cooperator.connectors.offsets.unit_log import reached
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place
from cooperator.connectors.tasks import TaskContext, TaskProgress
from cooperator.connectors.topics import KafkaUnavailable
from cooperator.model import Epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_MAX_SLOTS: Final = 8
"""The maximum number of producers of a task; each has connections to the brokers that it writes to."""
_OPENING_S: Final = 0.05
_RETRY_S: Final = 1.0

OffsetsOf = Callable[[Collection[Partition]], Mapping[Partition, int]]


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """``client`` holds properties of confluent-kafka clients, ``java`` those that look at partitions' ends
    (Java's names), and ``producer`` those of Java's producers.

    ``earliest`` and ``latest`` return the ends of partitions; they may raise ``KafkaUnavailable``.
    """

    client: Mapping[str, Any] = field(repr=False)
    java: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    limits: Limits
    interval_ms: int
    starts_at_latest: bool
    fail_on_data_loss: bool
    earliest: OffsetsOf
    latest: OffsetsOf


@dataclass(frozen=True, slots=True)
class Opening:
    """The parts that the batches of a task are made of."""

    spark: "SparkSession"
    positions: KafkaPositions
    patience: Patience
    target: BatchTarget


BatchesOf = Callable[[Opening], SparkBatches]


def open_kafka_task(context: TaskContext, settings: TaskSettings, batches_of: BatchesOf) -> "KafkaTask":
    """Claims the units and returns the task once it runs. Raises what it fails with, and ``Cancelled``."""
    member = context.session()
    stopped = threading.Event()
    positions = members.positions_of(context.group_id, settings.client)
    patience = positions.patience(stopped, context.say)
    units = {Partition.of_unit(unit): unit for unit in context.units}
    connector = context.task.connector
    slots = TransactionalIds.of_units(context.group_id, connector, context.units, slots_for(len(units)))
    target = BatchTarget(slots, positions.topic, settings.producer)
    batches = batches_of(Opening(session_of_task(member), positions, patience, target))
    keys = tuple(UnitKey(connector, unit) for unit in context.units)
    watcher = members.watcher_of(member, settings.java)

    def first_offsets(missing: Collection[Partition]) -> Mapping[Partition, int]:
        layout = notes.read_layout(positions, connector, patience)
        is_first = {unit: layout is None or units[unit] in layout.first for unit in missing}
        late = {unit for unit in missing if settings.starts_at_latest and is_first[unit]}
        early = set(missing) - late
        return {**asked(settings.earliest, early), **asked(settings.latest, late)}

    def asked(ask: OffsetsOf, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        while partitions:
            try:
                return ask(partitions)
            except KafkaUnavailable as error:
                context.say(f"waiting for {error}")
            if stopped.wait(_RETRY_S):
                raise Cancelled
        return {}

    def claim() -> OwnedUnits:
        """The claim is newer than all others if no leader has ordered attempts."""
        epoch, attempt = context.epoch, context.attempt
        if epoch is None:
            positions.ensure(patience)
            found = positions.claims(keys, patience)
            stands = positions.positions(keys, patience)
            known = [
                *(each for claims in found.values() for each in claims),
                *(p.claim for p in stands.values()),
            ]
            newest = max(known, default=Claim(Epoch(0, 0), 0, "-"))
            epoch, attempt = newest.epoch, newest.attempt + 1
        named = Claim.of(epoch, attempt, context.owner)
        machine = Ownership(Attempt(named, keys, slots))
        return OwnedUnits(machine, positions, patience, batches.open)

    started = threading.Event()

    def check(owned: Owned) -> None:
        refuse_earlier(context, [units[each] for each in units if each not in owned.positions])
        started.set()

    loop = TaskLoop(
        units=tuple(units),
        ownership=LateUnits(connector, claim),
        batches=batches,
        ends=watcher.subscribe(units, settings.interval_ms),
        limits=settings.limits,
        grouping=Grouping(slots.count),
        first_offsets=first_offsets,
        say=context.say,
        earliest=lambda again: asked(settings.earliest, again),
        fail_on_data_loss=settings.fail_on_data_loss,
        started=check,
        stopped=stopped,
    )
    untyped: Any = member
    # No name of a group or a connector has a slash, so no two connectors have the same group.
    mirror = mirror_to(f"{context.group_id}/{connector}", settings.client)
    task = KafkaTask(loop, units, mirror, untyped.sparkContext._gateway.proc)
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


def slots_for(units: int) -> int:
    """Returns the number of slots: one for each core, and no more than units."""
    return max(LEAST_SLOTS, min(_MAX_SLOTS, os.cpu_count() or 1, units))


def refuse_earlier(context: TaskContext, units: Sequence[str]) -> None:
    """Raises ``OptionError`` if a unit without a position has a checkpoint of an earlier release."""
    for unit in units:
        checkpoint = context.checkpoint(unit)
        if is_earlier(checkpoint):
            problem = f"has a checkpoint of unit {unit}, whose position is not in Kafka yet"
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
"""A file in a checkpoint whose position is in Kafka."""


class LateUnits(TaskUnits):
    """Units whose claim is made when it is written."""

    def __init__(self, connector: str, make: Callable[[], OwnedUnits]) -> None:
        self._connector = connector
        self._make = make
        self._made = False

    def claim(self) -> Owned:
        if not self._made:
            super().__init__(self._connector, self._make())
            self._made = True
        return super().claim()


class KafkaTask:
    """A task that runs: its loop, on a thread of its own. ``jvm`` is the process of the session."""

    def __init__(self, loop: TaskLoop, units: Mapping[Partition, str], mirror: Mirror, jvm: Any) -> None:
        self._loop = loop
        self._mirror = mirror
        self._units = units
        self._jvm = jvm
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"loop of {next(iter(units.values()))}")
        self._thread.daemon = True

    def begin(self) -> None:
        self._thread.start()

    def poll(self) -> TaskProgress:
        if self._error is not None:
            raise self._error
        if self._jvm is not None and self._jvm.poll() is not None:
            raise RuntimeError("the JVM has ended")
        ends = self._loop.ends.ends
        counts = self._loop.counts
        found: dict[str, UnitProgress] = {}
        for partition, unit in self._units.items():
            of_unit = counts.of(partition)
            end, behind = "", None
            if of_unit.next is not None:
                end = json.dumps({partition.topic: {str(partition.number): of_unit.next}})
                if partition in ends:
                    behind = max(0, ends[partition] - of_unit.next)
            found[unit] = UnitProgress(of_unit.batches - 1, of_unit.records, None, end, behind)
        reached = {unit: counts.of(unit).next for unit in self._units}
        self._mirror.offer({unit: at for unit, at in reached.items() if at is not None}, time.monotonic())
        return TaskProgress(found, counts.rows)

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
