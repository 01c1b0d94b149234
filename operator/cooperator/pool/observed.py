"""What the host sees: pods, the nodes they are on, and the group that their processes form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model import TaskId


class Phase(StrEnum):
    """Where a life of a pod is. Only ENDED proves that nothing of it runs any more."""

    PENDING = "Pending"
    """It exists, and its process has not run yet."""
    RUNNING = "Running"
    TERMINATING = "Terminating"
    """It was told to end (by whomever), and has not been seen to."""
    ENDED = "Ended"


class MarkReason(StrEnum):
    SCALE_DOWN = "ScaleDown"
    ROLL = "Roll"


@dataclass(frozen=True, slots=True)
class Mark:
    """What ``Drain`` leaves at a pod: why it is to leave, and since when (ms since the epoch)."""

    reason: MarkReason
    since_ms: int


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the pool, in its newest life.

    ``uid``: of the object; ``incarnation``: of the life (a container that is restarted inside its pod keeps
    the uid and has a new incarnation). ``started_ms``: when this life began; since when Terminating:
    ``terminating_since_ms``. ``node``: empty while it is on none, or where nodes mean nothing.
    ``self_restarting``: its platform starts the next life of an ENDED one by itself.
    """

    identity: str
    uid: str
    incarnation: str
    phase: Phase
    revision: str
    started_ms: int
    mark: Mark | None = None
    terminating_since_ms: int | None = None
    node: str = ""
    self_restarting: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A machine: reachable; not to be given more; about to go; declared dead by its administrator; and what
    it shares with others that fail together (empty: not known)."""

    ready: bool = True
    cordoned: bool = False
    leaving: bool = False
    out_of_service: bool = False
    zone: str = ""


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """An identity's newest member in the group. ``busy``: it owns tasks, or is being given some.

    ``starting``: its tasks that are about to run and do not yet. ``warming``: its runtime is being started,
    and what it is to have is at others.
    """

    incarnation: str
    busy: bool
    starting: frozenset[TaskId] = frozenset()
    warming: bool = False


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """The group as its leader knows it. ``held``: identities that tasks wait for; ``moving``: tasks are
    being revoked or are unassigned and not held. ``hung``: (identity, incarnation) of lives that are to be
    replaced, since they have been in the midst of a start or a stop for too long."""

    members: Mapping[str, MemberSeen] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    moving: bool = False
    hung: frozenset[tuple[str, str]] = frozenset()

    @property
    def calm(self) -> bool:
        return not self.held and not self.moving


@dataclass(frozen=True, slots=True)
class PoolObserved:
    """``nodes``: by name; None where there are none. ``group``: None while we do not lead it."""

    pods: tuple[Pod, ...] = ()
    group: GroupSeen | None = None
    nodes: Mapping[str, Node] | None = None
