"""The observed state: pods, the nodes they are on, and the group that their processes form.

It contains no times: they would be those of other clocks, which may be hours apart from this host's. How long
something lasts is counted from its first observation (``IncarnationSeen``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model import TaskId


class Phase(StrEnum):
    """The phase of a pod's incarnation. Only ENDED proves that nothing of it runs any more."""

    PENDING = "Pending"
    """The pod exists, and its process has not run yet."""
    RUNNING = "Running"
    TERMINATING = "Terminating"
    """It was asked to end (by the pool or anyone else), and its end has not been observed."""
    ENDED = "Ended"


class MarkReason(StrEnum):
    """The mark that ``Drain`` leaves on a pod: why it must leave."""

    SCALE_DOWN = "ScaleDown"
    ROLL = "Roll"


class EndCause(StrEnum):
    """Why an incarnation ended, as far as its platform knows."""

    REQUESTED = "Requested"
    """A person, a controller or the pool asked for it: neither a crash, nor evidence against a task."""
    EVICTED = "Evicted"
    """The node ended it for reasons of its own: a crash of the member, but no evidence against a task."""
    KILLED = "Killed"
    """A signal (of its watchdog, a failed probe, a fault) or lack of memory: evidence against its tasks."""
    EXITED = "Exited"
    """Its own exit, or nobody knows: a crash, but no evidence against a task."""


@dataclass(frozen=True, slots=True)
class End:
    incarnation: str
    cause: EndCause


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the pool, in its newest incarnation.

    ``uid`` names the object, ``incarnation`` the run (a container that is restarted inside its pod keeps the
    uid and has a new incarnation). ``restarts``: how many incarnations the object had before this one.
    ``node``: empty while it is not on a node, or where there are no nodes. ``self_restarting``: the platform
    itself starts the next incarnation after ENDED. ``end``: that of the last of its incarnations that has
    ended, if any. ``frozen_by``: the digest of the task whose thread had frozen that one, if its watchdog has
    seen any (``model.thread_names``). ``address``: its own IP address, empty until it is known; None where no
    two pods of one identity can run at a time.
    """

    identity: str
    uid: str
    incarnation: str
    phase: Phase
    revision: str
    restarts: int = 0
    mark: MarkReason | None = None
    node: str = ""
    self_restarting: bool = False
    end: End | None = None
    frozen_by: str = ""
    address: str | None = None

    @property
    def may_run(self) -> bool:
        """Whether a process of it runs, or may start, without anything more being seen of it here."""
        return self.phase is not Phase.ENDED or self.self_restarting


@dataclass(frozen=True, slots=True)
class Node:
    """A machine.

    ``ready``: it is reachable. ``cordoned``: it gets no new pods. ``leaving``: it is about to go.
    ``out_of_service``: its administrator declared it dead. ``zone``: its failure domain; empty if unknown.
    ``notice_ms``: if it is about to go, the shortest time from the notice to its end.
    """

    ready: bool = True
    cordoned: bool = False
    leaving: bool = False
    out_of_service: bool = False
    zone: str = ""
    notice_ms: int = 0


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """An identity's newest member in the group. ``busy``: it owns tasks, or is being given some.

    ``owned``: its tasks. ``starting``: those that do not run yet. ``warming``: its runtime is starting, and
    its future tasks are still at other members. ``hangs``: a stop there takes too long, so that its watchdog
    may end it.
    """

    incarnation: str
    busy: bool
    owned: frozenset[TaskId] = frozenset()
    starting: frozenset[TaskId] = frozenset()
    warming: bool = False
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """The group as its leader knows it. ``held``: identities for which tasks are held; ``moving``: tasks are
    being revoked, or are unassigned and not held. ``hung``: (identity, incarnation) pairs to replace, since
    one start or stop has taken them too long."""

    members: Mapping[str, MemberSeen] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    moving: bool = False
    hung: frozenset[tuple[str, str]] = frozenset()

    @property
    def calm(self) -> bool:
        return not self.held and not self.moving


@dataclass(frozen=True, slots=True)
class PoolObserved:
    """``nodes``: by name; None where there are none. ``group``: None while this host does not lead it."""

    pods: tuple[Pod, ...] = ()
    group: GroupSeen | None = None
    nodes: Mapping[str, Node] | None = None
