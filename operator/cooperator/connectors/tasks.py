"""Connectors that run all units of a task together, in one loop of batches.

Their positions are in the sink, so a unit has no checkpoint.
"""

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol

from cooperator.connectors.base import Connector, RunningUnit, UnitContext, UnitProgress
from cooperator.connectors.options import O
from cooperator.connectors.places import Place
from cooperator.connectors.server import Server
from cooperator.connectors.units import Layout
from cooperator.model import Epoch, TaskId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The context in which a task is opened.

    ``owner`` identifies this attempt, as ``member/incarnation/attempt``. ``epoch`` is that of the assignment
    that gave the task; None: no leader assigned it. ``attempt`` orders the attempts of one epoch.
    ``checkpoint`` returns the directory in which earlier releases kept a unit's position. ``cancelled`` is
    set when the task is to stop. ``session`` returns the member's Spark session and starts it when needed;
    ``server`` is where queries run when they do not run in that session. ``say`` shows users what the task
    waits for, and ``say_of`` what one of its units does; an empty text clears it. ``conf`` is the Worker's
    Spark configuration, resolved.
    """

    group_id: str
    task: TaskId
    units: tuple[str, ...]
    owner: str
    cancelled: threading.Event
    session: "Callable[[], SparkSession]"
    say: Callable[[str], None]
    checkpoint: Callable[[str], Place]
    epoch: Epoch | None = None
    attempt: int = 0
    server: Server | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    say_of: Callable[[str], Callable[[str], None]] = lambda unit: lambda text: None

    def of_unit(self, unit: str) -> UnitContext:
        """Returns the context of one of its units."""
        return UnitContext(
            group_id=self.group_id,
            task=self.task,
            unit=unit,
            owner=self.owner,
            checkpoint=self.checkpoint(unit),
            cancelled=self.cancelled,
            session=self.session,
            say=self.say,
            epoch=self.epoch,
            attempt=self.attempt,
        )


@dataclass(frozen=True, slots=True)
class InstanceContext:
    """The context in which a connector's instance works, and a task's lag is measured.

    ``cancelled`` ends waits with ``Cancelled``. ``conf`` is the Worker's Spark configuration, resolved.
    """

    group_id: str
    connector: str
    cancelled: threading.Event
    say: Callable[[str], None]
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


class TaskProgress(NamedTuple):
    """The progress of a task's units. ``rows_out`` counts rows in the sink since the task was opened."""

    units: Mapping[str, UnitProgress]
    rows_out: int


class RunningTask(Protocol):
    """A task that is running."""

    def poll(self) -> TaskProgress:
        """Returns its progress; raises the task's error once it has failed."""

    def stop(self) -> None:
        """Stops the task, and returns when nothing of it runs any more. It may be called again."""


class TaskConnector(Connector[O], Generic[O]):
    """The base class of connectors whose tasks are opened as a whole."""

    @abstractmethod
    def open_task(self, options: O, context: TaskContext) -> RunningTask:
        """Starts a task and returns when it is running. Raises as ``open`` does."""

    @abstractmethod
    def settle_layout(self, options: O, context: InstanceContext, layout: Layout) -> None:
        """Keeps the layout beside the positions, unless there is one.

        Raises ``OptionError`` when a fixed option has changed, and ``Cancelled``.
        """

    @abstractmethod
    def ends(self, options: O, context: InstanceContext, units: Sequence[str]) -> Mapping[str, str]:
        """Returns where units stand, as ``UnitProgress.end`` does (empty: nowhere). It may raise."""

    def open(self, options: O, context: UnitContext) -> RunningUnit:
        raise NotImplementedError("units of this class are opened by their task")


class LoopingConnector(Connector[O], Generic[O]):
    """The base class of connectors whose tasks are opened as a whole under some options only."""

    @abstractmethod
    def loop(self, options: O) -> TaskConnector[O] | None:
        """Returns what opens the tasks of a connector with these options; None: its units are opened."""


def task_connector(connector: Connector[O], options: O) -> TaskConnector[O] | None:
    """Returns what opens the tasks of a connector as a whole; None: its units are opened."""
    if isinstance(connector, LoopingConnector):
        return connector.loop(options)
    return connector if isinstance(connector, TaskConnector) else None
