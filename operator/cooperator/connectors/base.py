"""The interface of connectors, both built in and from plug-ins.

A plug-in declares an entry point in the group ``cooperator.connectors``: the name is the class that
configurations give as ``connector.class``, the value a subclass of ``Connector``. Most plug-ins subclass
``SparkConnector`` and write two methods: what to read, and where to write it.

A connector splits its source into **units**: parts with stable ids whose contents never move to another unit
(a Kafka partition; the files whose names hash to a bucket). Each unit has its own checkpoint. Tasks are
groups of units, and only the grouping ever changes.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, Protocol

from cooperator.connectors.fence import Fence
from cooperator.connectors.grouping import regroup
from cooperator.connectors.offsets.sources import ConnectorOffsets, SourceOffsets
from cooperator.connectors.options import O, Options
from cooperator.connectors.places import Place
from cooperator.connectors.server import Server
from cooperator.model import Epoch, TaskId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StateSize:
    """The state of a query at its newest commit, in rows and bytes, and how long that commit took."""

    rows: int
    bytes: int
    commit_ms: int


@dataclass(frozen=True, slots=True)
class UnitProgress:
    """The progress of one unit.

    ``batch`` is the last finished batch. ``rows_in`` and ``rows_out`` count rows since the unit was opened
    (``rows_out`` None: not known). ``end`` is where that batch ends, in the source's own format; empty before
    the first batch. ``behind`` counts the records after that batch, where Spark reports it; None: not known.
    ``state`` is None for a query without state.
    """

    batch: int = -1
    rows_in: int = 0
    rows_out: int | None = None
    end: str = ""
    behind: int | None = None
    state: StateSize | None = None


@dataclass(slots=True)
class Counts:
    """Rows that a sink counts itself, where Spark does not."""

    rows_out: int | None = None


@dataclass(frozen=True, slots=True)
class UnitContext:
    """The context in which a unit is opened.

    ``group_id`` is the Worker's. ``owner`` identifies this attempt on this member, as
    ``member/incarnation/attempt`` (sinks that fence record it). ``epoch`` is the epoch of the assignment that
    gave the task; it is None when no leader assigned it (a sink that fences then relies on the owner alone).
    ``attempt`` orders the attempts of one epoch. ``fence`` is this attempt's claim on the unit, to be checked
    right before each commit; it is None until the unit is claimed, which ``SparkConnector.open`` does first.
    ``checkpoint`` is the unit's own directory. ``is_first``: the unit already existed when the connector was
    created. ``cancelled`` is set when the unit is to stop; anything that waits must watch it. ``session``
    returns the member's Spark session and starts it when needed; ``server`` is where queries run when they do
    not run in that session. ``say`` shows users what the unit waits for; an empty text clears it. ``closing``
    is unwound, in reverse order, once nothing of the unit runs any more. ``is_learned``: other members may
    learn the state of its query.
    """

    group_id: str
    task: TaskId
    unit: str
    owner: str
    checkpoint: Place
    cancelled: threading.Event
    session: "Callable[[], SparkSession]"
    say: Callable[[str], None]
    is_first: bool = True
    closing: ExitStack = field(default_factory=ExitStack)
    counts: Counts = field(default_factory=Counts)
    epoch: Epoch | None = None
    attempt: int = 0
    fence: Fence | None = None
    server: Server | None = None
    is_learned: bool = False


class Delivery(StrEnum):
    """Delivery guarantee: how often a record can appear in the sink after failures."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"


class Delivered(NamedTuple):
    """The delivery guarantee of a connector. ``note`` is a sentence about its conditions or limits."""

    level: Delivery
    note: str


class RunningUnit(Protocol):
    """A unit that is running."""

    def poll(self) -> UnitProgress:
        """Returns its progress; raises the unit's error once it has failed."""

    def stop(self) -> None:
        """Stops the unit, and returns when nothing of it runs any more. It may be called again."""


class SessionLost(Exception):
    """Spark's JVM has ended, and nothing says that the task is the cause: it may run again."""


class Cancelled(Exception):
    """The unit is being stopped, so the pending open or wait was abandoned."""


class ServiceAway(ConnectionError):
    """A service that a task needs does not answer now; the message says which, and why. It is waited for."""


class Connector(ABC, Generic[O]):
    """A connector class. Instances hold no state: everything is in the arguments."""

    options: ClassVar[type[Options]]
    keeps_checkpoints: ClassVar[bool] = False
    """Whether the class depends on checkpoints that all members share."""

    @abstractmethod
    def units(self, options: O, say: Callable[[str], None]) -> Sequence[str]:
        """Returns the ids of all current units, in a stable order; the instance calls it repeatedly.

        Ids consist of letters, digits, dots, underscores and dashes. Anything that is missing for now (a
        topic that is not created yet) is left out and reported by ``say``. An exception means "ask again
        later", but ``OptionError`` fails the connector.
        """

    @abstractmethod
    def open(self, options: O, context: UnitContext) -> RunningUnit:
        """Starts one unit and returns when it is running.

        Raises the unit's error when it fails, and ``Cancelled`` when the context is cancelled meanwhile;
        nothing of the unit runs after that.
        """

    def needs_checkpoints(self, options: O) -> bool:
        """Whether a connector with these options depends on checkpoints that all members share."""
        return self.keeps_checkpoints

    def delivery(self, options: O) -> Delivered:
        """Returns the delivery guarantee of the sink under these options."""
        note = "After a crash the newest batch may be written again."
        return Delivered(Delivery.AT_LEAST_ONCE, note)

    def outputs(self, options: O) -> Sequence[str]:
        """Returns the directories that the connector's file sinks use exclusively.

        Two connectors with the same directory, or one inside the other's, are refused when they are applied.
        A directory that is not returned here is refused when its sink opens.
        """
        return ()

    def offsets(self) -> SourceOffsets[O] | ConnectorOffsets[O] | None:
        """Returns how the offsets of this class's sources are listed and changed; None: they cannot be."""
        return None

    def lag(self, options: O, ends: Mapping[str, str]) -> int | None:
        """Returns how many records of the source are not delivered yet, by asking the source.

        ``ends`` maps some of the units to where their last finished batch ends, as in their checkpoints; an
        empty end means that there is none. Returns None when the lag cannot be determined, or only by Spark.
        It may raise; it is called from any thread, also while nothing runs.
        """
        return None

    def groups(
        self, units: Sequence[str], tasks_max: int, earlier: Sequence[Sequence[str]] = ()
    ) -> list[tuple[str, ...]]:
        """Returns the units of task 0, 1, …, given the previous ones in ``earlier`` (see
        ``grouping.regroup``).

        It is a pure function of its arguments.
        """
        return regroup(earlier, units, tasks_max)
