"""The scheduler's data model: frozen values that every other package uses.

Contents: identifiers, members and what they report, desired and
configured state, holds and the leader's memory, assignments. Values only: standard
library, no clock, no randomness, no I/O, no imports from other packages.
"""

from cooperator.model.config import ClusterConfig, ConnectorConfig, SessionKey, TargetState, TaskFencing
from cooperator.model.desired import Desired, DesiredConnector
from cooperator.model.ids import INSTANCE, Epoch, TaskId, group_tasks
from cooperator.model.incarnation import PodIncarnation, ended_by, termination_message
from cooperator.model.member import Assignment, Member, Warmth
from cooperator.model.memory import Hold, HoldReason, Kip415Memory, Memory, Unstopped
from cooperator.model.policy import Fencing, Policy, PolicyName
from cooperator.model.restart import RESERVED, RESTART_LIMIT, AutoRestart, without_reserved
from cooperator.model.state_replicas import LEARNERS_VALID_MS, LearnerProgress, StateReplicas, ToLearn, Warmup
from cooperator.model.status import PROBLEMS, TaskState, TaskStatus, is_amiss
from cooperator.model.thread_names import thread_name

__all__ = [
    "INSTANCE",
    "LEARNERS_VALID_MS",
    "PROBLEMS",
    "RESERVED",
    "RESTART_LIMIT",
    "Assignment",
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
    "LearnerProgress",
    "Member",
    "Memory",
    "PodIncarnation",
    "Policy",
    "PolicyName",
    "SessionKey",
    "StateReplicas",
    "TargetState",
    "TaskFencing",
    "TaskId",
    "TaskState",
    "TaskStatus",
    "ToLearn",
    "Unstopped",
    "Warmth",
    "Warmup",
    "ended_by",
    "group_tasks",
    "is_amiss",
    "termination_message",
    "thread_name",
    "without_reserved",
]
