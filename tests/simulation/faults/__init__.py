"""Everything that can happen to a world, one class each. ``ALL`` is the list: what is in it happens."""

from simulation.faults.base import Fault
from simulation.faults.brokers import BrokerCrashes, BrokerIsBusy, LogsAreDown
from simulation.faults.changes import (
    ConnectorIsCreated,
    ConnectorIsDeleted,
    ConnectorIsPaused,
    ConnectorIsReconfigured,
    ConnectorIsWeighed,
    PodsAreRolled,
    TasksMaxChanges,
    WorkerIsScaled,
)
from simulation.faults.machines import (
    MachineFreezes,
    NodeIsCordoned,
    NodeIsDeleted,
    NodeIsDrained,
    NodeLosesApi,
    NodeLosesBroker,
    NodeLosesEverything,
    NodeLosesPower,
)
from simulation.faults.members import (
    MemberHangs,
    MemberIsKilled,
    MemberLoops,
    PodIsDeleted,
    PodIsDeletedByForce,
    StartsFail,
    StopsHang,
    WarmUpsAreSlow,
    WarmUpsFail,
)
from simulation.faults.network import (
    MessagesAreLate,
    MessagesAreLost,
    MessagesAreRepeated,
    ThreadsAreSlow,
)
from simulation.faults.operators import (
    ClockJumps,
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
    ThreadsAreSlow,
    WarmUpsAreSlow,
    WarmUpsFail,
    WatchIsLost,
    WatchIsStale,
    WorkerIsScaled,
)

__all__ = ["ALL", "Fault"]
