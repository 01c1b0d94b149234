"""A task that copies partitions of topics into topics of the same cluster: what its loop needs."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.microbatch import members, notes
from cooperator.connectors.microbatch.batches import Batches, Owned
from cooperator.connectors.microbatch.claims import Claim, TransactionalIds, UnitKey
from cooperator.connectors.microbatch.kafka_positions import KafkaPositions, OwnedUnits
from cooperator.connectors.microbatch.ownership import Attempt, Ownership
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.spark_batches import BatchTarget, session_of_task
from cooperator.connectors.microbatch.task import LoopParts, LoopTask, SourceSettings, open_loop, slots_for
from cooperator.connectors.microbatch.task_units import TaskUnits
from cooperator.connectors.tasks import TaskContext
from cooperator.model import Epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TaskSettings(SourceSettings):
    """``producer`` holds properties of Java's producers."""

    producer: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Opening:
    """The parts that the batches of a task are made of."""

    spark: "SparkSession"
    positions: KafkaPositions
    patience: Patience
    target: BatchTarget


BatchesOf = Callable[[Opening], Batches]


def open_kafka_task(context: TaskContext, settings: TaskSettings, batches_of: BatchesOf) -> LoopTask:
    """Claims the units and returns the task once it runs. Raises what it fails with, and ``Cancelled``."""
    member = context.session()
    stopped = threading.Event()
    opening = opening_of(context, settings.client, settings.producer, member, stopped)
    batches = batches_of(opening)
    parts = LoopParts(
        ownership=owned_units(context, opening, batches.open),
        batches=batches,
        layout=lambda: notes.read_layout(opening.positions, context.task.connector, opening.patience),
        store="Kafka",
        slots=opening.target.slots.count,
    )
    return open_loop(context, member, settings, parts, stopped)


def opening_of(
    context: TaskContext,
    client: Mapping[str, Any],
    producer: Mapping[str, str],
    member: "SparkSession",
    stopped: threading.Event,
) -> Opening:
    """Returns the parts of a task. ``client`` and ``producer`` hold properties; see ``TaskSettings``."""
    positions = members.positions_of(context.group_id, client)
    patience = positions.patience(stopped, context.say)
    connector = context.task.connector
    count = slots_for(len(context.units), member)
    slots = TransactionalIds.of_units(context.group_id, connector, context.units, count)
    target = BatchTarget(slots, positions.topic, producer)
    return Opening(session_of_task(member), positions, patience, target)


def owned_units(
    context: TaskContext,
    opening: Opening,
    initialise: Callable[[str], None],
    names: Mapping[Partition, str] | None = None,
) -> "LateUnits":
    """Returns the units of the task; ``initialise`` opens the producers of a session.

    ``names`` are those of units that are no partitions.
    """
    positions, patience, slots = opening.positions, opening.patience, opening.target.slots
    keys = tuple(UnitKey(context.task.connector, unit) for unit in context.units)

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
        return OwnedUnits(machine, positions, patience, initialise)

    partitions: Mapping[Partition, str] = names or {Partition.of_unit(unit): unit for unit in context.units}
    return LateUnits(context.task.connector, partitions, claim)


class LateUnits(TaskUnits):
    """Units whose claim is made when it is written."""

    def __init__(
        self, connector: str, names: Mapping[Partition, str], make: Callable[[], OwnedUnits]
    ) -> None:
        self._connector = connector
        self._names = names
        self._make = make
        self._made = False

    def claim(self) -> Owned:
        if not self._made:
            super().__init__(self._connector, self._names, self._make())
            self._made = True
        return super().claim()
