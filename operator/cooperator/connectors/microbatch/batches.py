"""Requests of the loop of a task, and their answers: ownership, and batches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cooperator.connectors.microbatch.ranges import OffsetRange, Partition

if TYPE_CHECKING:
    import pyarrow as pa


class Stand(NamedTuple):
    """Progress of a unit: the offset of its next record, and the id of the topic (empty: unknown)."""

    next: int
    topic_id: str = ""


class PositionRecord(NamedTuple):
    """The record that commits a unit's position. ``partition`` -1 is chosen by the key."""

    key: str
    value: str
    partition: int = -1


class FailureKind(Enum):
    """The consequence of a failure of a slot."""

    FENCED = "fenced"
    """Another producer has its transactional id: a newer attempt, or the transaction took too long."""
    MEMORY = "memory"
    """The batch has more bytes than it may hold, or the memory of the JVM did not suffice."""
    RETRIABLE = "retriable"
    """A broker was away, or answered that it may work later."""
    DATA_LOSS = "data_loss"
    """Offsets that were planned do not exist any more."""
    ROWS = "rows"
    """The values of a row are the reason. The slot's producer is as good as before."""
    REFUSED = "refused"
    """The sink refuses the rows: for the values of one, or for all, which only a trial of each tells."""
    FAILED = "failed"
    """Another attempt would fail in the same way, as far as one can tell."""


@dataclass(frozen=True, slots=True)
class SlotFailure:
    """``error`` is a text with the exception and its causes."""

    slot: int
    kind: FailureKind
    error: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """``rows`` that were committed, and the slots that committed nothing, as far as is known.

    ``counts`` are the records that were read of partitions. Partitions that are ``postponed`` stay where they
    were: a smaller batch is to follow (``PlannedFirst.narrowed``).
    """

    rows: int
    failures: Sequence[SlotFailure] = ()
    counts: Mapping[Partition, int] = field(default_factory=dict)
    postponed: Collection[Partition] = ()


class BatchFailed(Exception):
    """A batch has failed and is not tried again; the message names the units of a failed slot."""


class WorkFailed(Exception):
    """A part of a task's work has failed; ``kind`` is the consequence."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class OpenFailed(WorkFailed):
    """The producers of a task could not be initialised."""


class SearchFailed(WorkFailed):
    """Records that a plan fails for could not be searched."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The units that an attempt may write: from these positions, with the producers of this session.

    Units that never had a position are left out.
    """

    positions: Mapping[Partition, Stand]
    session: str


class UnitOwnership(Protocol):
    """An attempt's claims on its units (see ``ownership``). All methods may wait for a broker.

    They raise ``Replaced`` when a newer attempt has claimed a unit, ``Cancelled`` when the task is to stop,
    and ``OpenFailed`` as ``Batches.open`` does; after this, the same call goes on.
    """

    def claim(self) -> Owned:
        """Claims the units, fences older attempts, and initialises the producers."""

    def recover(self) -> Owned:
        """Initialises the producers again after a failed batch, unless a newer attempt has claimed a unit."""

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        """Returns the record of a unit's position."""


class Batches(Protocol):
    """Runs batches of a task's query.

    ``reads_topics_apart``: no slot of a batch may have ranges of two topics.
    """

    @property
    def reads_topics_apart(self) -> bool: ...

    def open(self, session: str) -> None:
        """Initialises the producers of all slots. Raises ``OpenFailed``."""

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        """Writes the rows of the ranges, and the records of their partitions; a slot is a transaction."""

    def cancel(self) -> None:
        """Ends a batch that runs in another thread."""

    def close(self) -> None:
        """Closes the producers, and aborts what they have not committed."""


class PlannedBatches(Batches, Protocol):
    """Batches whose records are converted by Spark's tasks.

    It reports ``FailureKind.ROWS``, or ``REFUSED``, for each slot of which it has written nothing for that
    reason.
    """

    def failing(self, slots: Sequence[Sequence[OffsetRange]], most: int) -> "pa.Table":
        """Returns records that the plan fails for, as they were read, up to ``most`` of each slot.

        Raises ``SearchFailed``.
        """
