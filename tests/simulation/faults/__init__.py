"""Everything that can happen to a world, one class each. Only the faults in ``ALL`` happen, and
``NodeIsInterrupted``, ``LearnersStall``, ``OthersLoseBroker`` and those in ``DRAWN_APART``, which are drawn
by themselves, so that earlier seeds keep their histories."""

from tests.simulation.faults.base import Fault
from tests.simulation.faults.brokers import BrokerCrashes, BrokerIsBusy, LogReaderHangs, LogsAreDown
from tests.simulation.faults.changes import (
    ConnectorIsCreated,
    ConnectorIsDeleted,
    ConnectorIsPaused,
    ConnectorIsReconfigured,
    ConnectorIsWeighed,
    PodsAreRolled,
    TasksMaxChanges,
    WorkerIsScaled,
)
from tests.simulation.faults.machines import (
    ClockJumps,
    MachineFreezes,
    NodeClockIsSetBack,
    NodeIsCordoned,
    NodeIsDeleted,
    NodeIsDrained,
    NodeIsInterrupted,
    NodeLosesApi,
    NodeLosesBroker,
    NodeLosesEverything,
    NodeLosesPower,
    OthersLoseBroker,
)
from tests.simulation.faults.members import (
    LearnersStall,
    MemberHangs,
    MemberIsKilled,
    MemberLoops,
    PodIsDeleted,
    PodIsDeletedByForce,
    StartsFail,
    StopsHang,
    TheLastThatIsWarmIsDeleted,
    WarmUpsAreSlow,
    WarmUpsFail,
)
from tests.simulation.faults.network import (
    MessagesAreLate,
    MessagesAreLost,
    MessagesAreRepeated,
    ThreadsAreSlow,
)
from tests.simulation.faults.operators import (
    MemberIsNotSeen,
    OperatorIsKilled,
    OperatorIsPaused,
    OperatorLosesApi,
    OperatorLosesBroker,
    OperatorLosesMembers,
    OperatorsAreAway,
    WatchIsLost,
    WatchIsStale,
)

ALL: tuple[type[Fault], ...] = (
    BrokerCrashes,
    BrokerIsBusy,
    ClockJumps,
    ConnectorIsCreated,
    ConnectorIsDeleted,
    ConnectorIsPaused,
    ConnectorIsReconfigured,
    ConnectorIsWeighed,
    LogsAreDown,
    MachineFreezes,
    MemberHangs,
    MemberIsKilled,
    MemberLoops,
    MessagesAreLate,
    MessagesAreLost,
    MessagesAreRepeated,
    NodeIsCordoned,
    NodeIsDeleted,
    NodeIsDrained,
    NodeLosesApi,
    NodeLosesBroker,
    NodeLosesEverything,
    NodeLosesPower,
    OperatorIsKilled,
    OperatorIsPaused,
    OperatorLosesApi,
    OperatorLosesBroker,
    OperatorLosesMembers,
    OperatorsAreAway,
    PodIsDeleted,
    PodIsDeletedByForce,
    PodsAreRolled,
    StartsFail,
    StopsHang,
    TasksMaxChanges,
    TheLastThatIsWarmIsDeleted,
    ThreadsAreSlow,
    WarmUpsAreSlow,
    WarmUpsFail,
    WatchIsLost,
    WatchIsStale,
    WorkerIsScaled,
)

DRAWN_APART: tuple[type[Fault], ...] = (LogReaderHangs, MemberIsNotSeen, NodeClockIsSetBack)
"""In a fourth of all worlds some of these happen, too."""

__all__ = [
    "ALL",
    "DRAWN_APART",
    "ClockJumps",
    "Fault",
    "LearnersStall",
    "MemberIsKilled",
    "NodeIsInterrupted",
    "OperatorIsKilled",
    "OthersLoseBroker",
    "PodIsDeleted",
    "PodIsDeletedByForce",
    "WorkerIsScaled",
]
