"""The interface between a Worker's loop and the platform of its members, and the values that cross it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from cooperator.crd import Condition, Connector, Worker, compile_desired
from cooperator.model import Desired
from cooperator.pool import Action, Node, Pod, PoolDesired

if TYPE_CHECKING:
    # A client of Kubernetes raises PlatformError; a command that reads a status must not import a leader.
    from cooperator.host.known import Leader
    from cooperator.host.phases import MemberIncarnation
    from cooperator.host.status import WorkerFacts
    from cooperator.host.stock import Incarnation
    from cooperator.leader.service import LeaderService
    from cooperator.leader.settings import ServiceSettings

_IDS_SHOWN: Final = 4


class PlatformError(Exception):
    """The platform refused something or does not answer. The text is for users; the loop tries again."""


class Goal(StrEnum):
    """``RUN``: as the manifest says. ``HALT``: down temporarily, with its tasks held. ``REMOVE``: all members
    end. ``ORPHAN``: members run on, without a leader of ours."""

    RUN = "run"
    HALT = "halt"
    REMOVE = "remove"
    ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The desired state of one Worker, from its resources.

    ``connectors`` may be started, but for those whose names are ``withheld``, since another one has their
    directory. ``ending``: Connectors that are being deleted. ``kept``: Kafka names of Connectors that cannot
    be read; they run on.
    """

    worker: Worker
    connectors: tuple[Connector, ...] = ()
    goal: Goal = Goal.RUN
    withheld: frozenset[str] = frozenset()
    ending: tuple[Connector, ...] = ()
    kept: frozenset[str] = frozenset()

    @property
    def started(self) -> tuple[Connector, ...]:
        """A removed Worker has no connectors, so that its members end without reassigning tasks."""
        return () if self.goal is Goal.REMOVE else self.connectors

    def terms(self) -> object:
        """Everything that the leader's work depends on; equal while none of it changes."""
        parts = (
            tuple((c.metadata.name, c.metadata.creation_timestamp, c.spec) for c in connectors)
            for connectors in (self.started, self.ending)
        )
        return self.worker.spec, self.withheld, self.kept, *parts

    def desired(self, revision: int) -> Desired:
        return compile_desired(self.worker, self.started, revision, self.ending, self.kept, self.withheld)


@dataclass(frozen=True, slots=True)
class Causes:
    """The ids of the events that led to an observation, for log lines and the causes of rounds.

    ``step``: all of them; ``resources``: those of Workers and Connectors; ``members``: by identity, the last
    event of its pod. Empty where the platform has no events.
    """

    step: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    members: Mapping[str, str] = field(default_factory=dict)


def event_of(ids: Iterable[str]) -> str:
    """The ids as one text; of many only the last, which are closest to what follows."""
    return ",".join(list(dict.fromkeys(ids))[-_IDS_SHOWN:])


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a Worker.

    * ``settings``: of its leader; None while they are unknown: then no leader is started, and a running one
      goes on.
    * ``pods``: with ended ones until they are removed. ``asked_at_ms``: when the platform was last asked for
      all of them (ms of the monotonic clock).
    * ``leader``: the given projection with members' incarnations in the pool's names.
    * ``ends``: of ends in the pool's names, all that are proven, in the members' own names.
    * ``incarnations``, ``conditions``: for statuses.
    """

    wanted: Wanted
    settings: ServiceSettings | None
    pool: PoolDesired
    pods: tuple[Pod, ...]
    leader: Leader
    ends: Callable[[frozenset[Incarnation]], frozenset[Incarnation]]
    asked_at_ms: int
    incarnations: Mapping[str, MemberIncarnation] = field(default_factory=dict)
    nodes: Mapping[str, Node] | None = None
    conditions: tuple[Condition, ...] = ()
    causes: Causes = field(default_factory=Causes)


class Platform(Protocol):
    """Where the members of one Worker run. Only the loop's thread calls it.

    Every method may raise: the step ends there, and the next one starts from a new observation.
    """

    def observe(self, leader: Leader) -> Observation | None:
        """Looks at resources and pods, and makes ready what they need.

        ``leader`` is its leader's projection, empty while there is none. Returns None when there is nothing
        to decide about.
        """
        ...

    def act(self, action: Action) -> None:
        """Carries out an action. It has no effect if it fails, and the pool decides again."""
        ...

    def publish(self, facts: WorkerFacts, leader: LeaderService | None) -> None:
        """Shows the last observation's Worker to users and members."""
        ...

    def removed(self) -> bool:
        """Takes what is left of the last observation's Worker away, if that is its goal and nothing runs.

        Returns whether the loop has nothing more to do. A goal of ORPHAN has handed the group back before.
        """
        ...
