"""The interface of a connector, built in or brought by a plug-in.

A plug-in declares an entry point in the group ``cooperator.connectors``: the name is the class that
configurations give as ``connector.class``, the value a subclass of ``Connector`` (most subclass
``SparkConnector`` and write two methods: what to read, and where to write it).

A connector splits its source into **units**: parts whose ids are stable and whose contents never
change hands (a Kafka partition; the files whose names fall into a bucket). Each unit has its own
checkpoint; tasks are groups of units, and only the grouping ever changes.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, Protocol

from cooperator.model import Epoch, TaskId
from cooperator.runtime.fence import Fence
from cooperator.runtime.grouping import regroup
from cooperator.runtime.options import O, Options
from cooperator.runtime.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cooperator.runtime.connectors.remote import Server
    from cooperator.runtime.offsets.sources import SourceOffsets


@dataclass(frozen=True, slots=True)
class UnitProgress:
    """How far one unit is: rows since it was opened (None: not known), and the last finished batch.

    ``end``: of that batch, in the source's own words; empty before the first. ``behind``: the records behind
    it, where Spark tells; None: not known.
    """

    batch: int = -1
    rows_in: int = 0
    rows_out: int | None = None
    end: str = ""
    behind: int | None = None


@dataclass(slots=True)
class Counts:
    """What a sink counts by itself, where Spark does not."""

    rows_out: int | None = None


@dataclass(frozen=True, slots=True)
class UnitContext:
    """What a unit is opened with.

    ``group_id``: of the Worker. ``owner`` names this attempt on this member and no other, as
    ``member/incarnation/attempt`` (sinks that fence write it down). ``epoch``: of the share that gave the
    task; None where no leader did (a sink that fences then goes by the owner alone). ``attempt``: orders
    those of one epoch. ``fence``: this attempt's claim on the unit, to be checked right before each commit;
    None until somebody has claimed it, as ``SparkConnector.open`` does first of all.
    ``checkpoint``: the unit's own directory. ``is_first``: the unit was there when the connector was
    created. ``cancelled`` is set when the unit is to stop; whatever waits must watch it.
    ``session`` gives the member's Spark session, starting it when needed; ``server``: where queries run
    instead, if they do not run in it. ``say`` tells users of
    something that is waited for; an empty text takes it back. ``closing`` is unwound, in reverse order,
    when nothing of the unit runs any more.
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
    server: "Server | None" = None


class Delivery(StrEnum):
    """How often a record is in the sink after faults."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"


class Delivered(NamedTuple):
    """What a connector promises; ``note``: on which condition, or what may happen, as a sentence."""

    level: Delivery
    note: str


class RunningUnit(Protocol):
    """One unit that runs."""

    def poll(self) -> UnitProgress:
        """How far it is; raises what it failed with, when it has."""

    def stop(self) -> None:
        """Ends it, and returns when nothing of it runs any more. May be called again."""


class Cancelled(Exception):
    """What is being opened or waited for is not wanted any more."""


class Connector(ABC, Generic[O]):
    """One class of connectors. Instances hold no state: everything is in the arguments."""

    options: ClassVar[type[Options]]

    @abstractmethod
    def units(self, options: O, say: Callable[[str], None]) -> Sequence[str]:
        """The ids of all units there are now, in a stable order; called by the connector's instance again
        and again. Ids are made of letters, digits, dot, underscore and dash. What is missing for now
        (a topic not created yet) is simply not listed, and said; an exception means "ask again later",
        but ``OptionError`` fails the connector.
        """

    @abstractmethod
    def open(self, options: O, context: UnitContext) -> RunningUnit:
        """Start one unit and return when it is under way. Raises what it fails with, ``Cancelled`` when
        the context is cancelled meanwhile; then nothing of it runs."""

    def delivery(self, options: O) -> Delivered:
        """What is promised for the sink under these options."""
        note = "After a death the newest batch may be written again."
        return Delivered(Delivery.AT_LEAST_ONCE, note)

    def offsets(self) -> "SourceOffsets[O] | None":
        """How the offsets of this class's sources are listed and changed; None: they cannot be."""
        return None

    def lag(self, options: O, ends: Mapping[str, str]) -> int | None:
        """How many records the source has that are not delivered, by asking it. ``ends``: of some units,
        where their last finished batch ends, as their checkpoints have it; empty: they have none. None: it
        cannot be told, or only by Spark. May raise; called from any thread, also while nothing runs."""
        return None

    def groups(
        self, units: Sequence[str], tasks_max: int, earlier: Sequence[Sequence[str]] = ()
    ) -> list[tuple[str, ...]]:
        """The units of task 0, 1, …, where tasks had those of ``earlier`` before (see ``grouping.regroup``).
        A pure function of its arguments."""
        return regroup(earlier, units, tasks_max)
