"""The nouns of the scheduler: frozen values that every other room speaks in.

What may live here: identifiers, members and what they report, desired and
configured state, holds and the leader's memory, shares. Values only: standard
library, no clock, no randomness, no I/O, no imports from other rooms.
"""

from cooperator.model.config import ClusterConfig, ConnectorConfig, SessionKey, TargetState, TaskFencing
from cooperator.model.desired import Desired, DesiredConnector
from cooperator.model.ids import INSTANCE, Epoch, TaskId, group_tasks
from cooperator.model.life import PodLife
from cooperator.model.member import Member, Share, Warmth
from cooperator.model.memory import Hold, HoldReason, Kip415Memory, Memory, Unstopped
from cooperator.model.policy import Fencing, Policy, PolicyName
from cooperator.model.restart import RESERVED, RESTART_LIMIT, AutoRestart, without_reserved
from cooperator.model.status import TaskState, TaskStatus

__all__ = [
    "INSTANCE",
    "RESERVED",
    "RESTART_LIMIT",
    "AutoRestart",
    "ClusterConfig",
    "ConnectorConfig",
    "Desired",
    "DesiredConnector",
    "Epoch",
    "Fencing",
    "Hold",
    "HoldReason",
    "Kip415Memory",
    "Member",
    "Memory",
    "PodLife",
    "Policy",
    "PolicyName",
    "SessionKey",
    "Share",
    "TargetState",
    "TaskFencing",
    "TaskId",
    "TaskState",
    "TaskStatus",
    "Unstopped",
    "Warmth",
    "group_tasks",
    "without_reserved",
]
