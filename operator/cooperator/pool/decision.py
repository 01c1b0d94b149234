"""The outcome of a decision: actions for the host, facts for the leader, reports for users."""

from dataclasses import dataclass
from enum import StrEnum

from cooperator.model import TaskId
from cooperator.pool.actions import Action
from cooperator.pool.memory import PoolMemory


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The planner's facts about the pool, with the fields of ``planner.view.Facts``.

    ``poisoned``: quarantined tasks, which may run nowhere until they are pardoned, since their start ends
    their member. ``suspected``: those of them that only wait for their turn to start
    alone. ``zones``: (identity, zone of its machine), where known. ``notices_ms``: (identity, ``notice_ms``
    of its machine), where that is about to go.
    """

    expected: frozenset[str] = frozenset()
    leaving: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    ended: frozenset[tuple[str, str]] = frozenset()
    cordoned: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()
    poisoned: frozenset[TaskId] = frozenset()
    suspected: frozenset[TaskId] = frozenset()
    zones: frozenset[tuple[str, str]] = frozenset()
    notices_ms: frozenset[tuple[str, int]] = frozenset()


class ReportReason(StrEnum):
    CRASH_LOOP = "CrashLoop"
    NOT_READY = "NotReady"
    ROLL_STALLED = "RollStalled"
    SCALE_DOWN_WAITS = "ScaleDownWaits"
    STUCK_ON_NODE = "StuckOnNode"
    POISON_TASK = "PoisonTask"


@dataclass(frozen=True, slots=True)
class Report:
    """A report for users, for conditions and events. ``subject``: an identity or a task."""

    reason: ReportReason
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """``next_ms``: decide again at this time (ms since the epoch) even if nothing changes; None: not
    needed."""

    actions: tuple[Action, ...]
    facts: PoolFacts
    memory: PoolMemory
    reports: tuple[Report, ...] = ()
    next_ms: int | None = None
