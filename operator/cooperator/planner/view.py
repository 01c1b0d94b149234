"""All inputs of one decision. Nothing else may influence a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cooperator.model import Member, Policy, StateReplicas, TaskId


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about identities that the host (Kubernetes, or the local pool) knows and a group does not.

    ``expected``: identities that should exist; None when the host knows nothing (a member leads).
    ``leaving``: announced departures; everything is moved away from these members first.
    ``gone``: identities that will not come back: no hold, their tasks move once their end is proven.
    ``ended``: (identity, incarnation) pairs whose end is proven. ``cordoned``: identities that get no new
    tasks. ``returning``: identities that come back after they go down (a roll, a restart): when such a member
    drains, its tasks are held for it instead of being moved. ``poisoned``: quarantined tasks, whose start has
    ended their member again and again. ``suspected``: those of them that only wait for their turn to start
    alone. ``zones``: (identity, zone) of members whose machine's zone is known;
    it overrides what a member reports itself. ``notices_ms``: (identity, ms) of departing members whose
    machine ends that long after it was announced.
    """

    expected: frozenset[str] | None = None
    leaving: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    ended: frozenset[tuple[str, str]] = frozenset()
    cordoned: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()
    poisoned: frozenset[TaskId] = frozenset()
    suspected: frozenset[TaskId] = frozenset()
    zones: frozenset[tuple[str, str]] = frozenset()
    notices_ms: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class View:
    """One snapshot for the planner.

    ``now_ms``: milliseconds since the epoch. ``generation``: the generation of the round being decided.
    ``members``: workers only; a leader that is not a worker is not among them.
    ``tasks``: number of tasks per connector name; the instance is always implied.
    ``suspended``: tasks that may run nowhere now (their configuration is about to change).
    ``unstarted``: tasks that were given to a member and, according to the status log, never started there:
    if that member departs, they are not held for it.
    ``awaited``: identities with an incarnation that is not back (another one may be a member), with the time
    (ms) until which nothing of theirs moves. The leader itself evicted it when it took the lead, or the
    member of that identity is at another address.
    ``cause``: id of the event behind the round.
    ``last_completed_generation``: the last round whose assignment the leader knows to be delivered.
    ``turns_eager``: this is the first round under the eager protocol. Stock workers have not stopped what
    they ran under the previous protocol, and cannot report it.
    ``stateful``: the connectors whose tasks have state, and how these move. ``behind_bytes``: per identity
    and incarnation, how far (bytes) it is behind on each task that it learns, by its last report if that
    still counts. ``cannot_learn``: likewise the tasks that it reports as impossible to learn there.
    """

    now_ms: int
    generation: int
    members: tuple[Member, ...]
    tasks: Mapping[str, int]
    policy: Policy = field(default_factory=Policy)
    facts: Facts = field(default_factory=Facts)
    weights: Mapping[str, float] = field(default_factory=dict)
    suspended: frozenset[TaskId] = frozenset()
    unstarted: frozenset[TaskId] = frozenset()
    awaited: Mapping[str, int] = field(default_factory=dict)
    cause: str = ""
    last_completed_generation: int = -1
    leader_id: str = ""
    turns_eager: bool = False
    stateful: Mapping[str, StateReplicas] = field(default_factory=dict)
    behind_bytes: Mapping[tuple[str, str], Mapping[TaskId, int]] = field(default_factory=dict)
    cannot_learn: Mapping[tuple[str, str], frozenset[TaskId]] = field(default_factory=dict)

    @property
    def barred(self) -> frozenset[TaskId]:
        """Tasks that must not start anywhere now."""
        return self.suspended | self.facts.poisoned
