"""The state that a pool keeps from one decision to the next.

Losing it is safe: instead of using proofs of ends, the host waits for leases, and back-offs start over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cooperator.model import TaskId
from cooperator.pool.actions import Action


@dataclass(frozen=True, slots=True)
class IncarnationSeen:
    """The last observed incarnation of a pod.

    ``since_ms``: when it was first observed, by the clock of this host: the machine that it runs on has
    another one. ``restarts``: as in ``Pod``. ``stopping``: it had been asked to end, so its end is not a
    crash. ``joined``: it has been a member; None if it may have been one before this memory began.
    ``marked_since_ms``, ``terminating_since_ms``: when its mark, or its termination, was first observed.
    """

    uid: str
    incarnation: str
    since_ms: int
    restarts: int = 0
    stopping: bool = False
    joined: bool | None = None
    marked_since_ms: int | None = None
    terminating_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Crashes:
    """``count`` crashes in a row, the last one observed at ``last_ms``."""

    count: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Asked:
    """An action that was requested at ``at_ms`` and has not shown an effect."""

    action: Action
    at_ms: int


@dataclass(frozen=True, slots=True)
class Starting:
    """Tasks of an incarnation, each with the time (ms since the epoch) at which it was last observed not to
    run yet, or observed for the first time. ``seen_ms``: when the incarnation was last a member. ``hangs``: a
    stop took too long there, then."""

    incarnation: str
    tasks: Mapping[TaskId, int]
    seen_ms: int
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class SuspectTrial:
    """The suspects that may start now, since when (ms since the epoch)."""

    tasks: frozenset[TaskId]
    since_ms: int


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """``slots``: the ordinals that the pool should have; None before the first decision.

    ``incarnations``: per identity with a pod. ``ended``: per identity, its last incarnations whose end is
    proven, oldest first. ``cut_off``: per identity, since when its node is unreachable and it is not a
    member. ``rolling``: identities that are being replaced. ``shrink_since_ms``: since when fewer replicas
    are desired. ``starting``, ``suspects`` (with their deaths), ``alone``, ``seen_freezing`` (with the time
    of the last death, ms since the epoch), ``quarantined`` and ``trial``: tasks that may kill their members
    (``poison``).
    """

    slots: frozenset[int] | None = None
    incarnations: Mapping[str, IncarnationSeen] = field(default_factory=dict)
    ended: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    crashes: Mapping[str, Crashes] = field(default_factory=dict)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    cut_off: Mapping[str, int] = field(default_factory=dict)
    rolling: frozenset[str] = frozenset()
    shrink_since_ms: int | None = None
    starting: Mapping[str, Starting] = field(default_factory=dict)
    suspects: Mapping[TaskId, int] = field(default_factory=dict)
    alone: frozenset[TaskId] = frozenset()
    seen_freezing: Mapping[TaskId, int] = field(default_factory=dict)
    quarantined: frozenset[TaskId] = frozenset()
    trial: SuspectTrial | None = None
