"""A leader's settings and its state."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cooperator.leader import absences
from cooperator.leader.observability.causes import Causes
from cooperator.leader.observability.history import Rebalance
from cooperator.leader.regroup import Regroup
from cooperator.leader.stock.members import Hung
from cooperator.model import ClusterConfig, Desired, Epoch, Member, Memory, Policy, TaskId
from cooperator.planner.assignors import BUILT_IN
from cooperator.planner.plan import Plan
from cooperator.planner.problem import Assignor
from cooperator.planner.view import Facts
from cooperator.wire.signature import DEFAULT_ALGORITHM


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """Settings of a leader.

    * ``url``: where members reach this leader.
    * ``awaited_ms``: how long to wait for members that were evicted to take the lead (a heartbeat and a
      rebalance time-out).
    * ``coalesce_ms``: changes within this time share a round.
    * ``owns_config``: connectors that are not desired are deleted.
    * ``group_id``, ``config_topic``: named in refusals.
    * ``max_group_bytes``: the broker stores a group, with metadata and assignments of all members, in one
      record, which must fit into ``message.max.bytes``.
    * ``stock_pool``: see ``ownership.is_of_pool``.
    * ``assignors``: those that a policy may choose, by name.
    """

    url: str
    awaited_ms: int = 35_000
    coalesce_ms: int = 250
    session_key_ttl_ms: int = 3_600_000
    session_key_algorithm: str = DEFAULT_ALGORITHM
    session_key_bytes: int = 32
    owns_config: bool = True
    max_group_bytes: int = 1_000_000
    stock_pool: str = ""
    group_id: str = ""
    config_topic: str = ""
    assignors: Mapping[str, Assignor] = field(default_factory=lambda: BUILT_IN, repr=False)


@dataclass(slots=True)
class LeaderState:
    """The machine's state. Shells and projections read it; only the machine writes it.

    * ``born``: for each identity whose present incarnation this leader has seen begin, that incarnation and
      the epoch of its first round.
    * ``owners``: the last identity that ran each task which nobody runs now.
    * ``busy_since_ms``: when the current activity began (ms since the epoch); None while there is none.
    * ``reasons``: number of rounds by cause.
    * ``held_down_by``: members that may be why the group does not speak the newest protocol.
    * ``handing_back``: the layout is being made even, so that stock workers can go on without this leader.
    * ``orphans``: connectors that outlive their resource, as far as the leader log is known to say so.
    * ``evicted``: members that were removed to take the lead.
    * ``awaited``: identities of evicted members that are not back, and until when (ms) they are awaited.
    * ``has_memory``: whether there was a memory when the lead was taken.
    * ``topic_refusal``: why nothing is planned, as the config topic is not the group's; empty: it is.
    """

    policy: Policy = field(default_factory=Policy)
    config: ClusterConfig = field(default_factory=ClusterConfig)
    desired: Desired | None = None
    facts: Facts = field(default_factory=Facts)
    memory: Memory = field(default_factory=Memory)
    leading: bool = False
    generation: int = -1
    completed: int = -1
    leader_id: str = ""
    protocol: str = ""
    members: tuple[Member, ...] = ()
    evicted: tuple[Member, ...] = ()
    has_memory: bool = True
    awaited: dict[str, int] = field(default_factory=dict)
    regroups: dict[str, Regroup] = field(default_factory=dict)
    plan: Plan | None = None
    trouble: str = ""
    refusal: str = ""
    topic_refusal: str = ""
    born: dict[str, tuple[str, Epoch]] = field(default_factory=dict)
    owners: dict[TaskId, str] = field(default_factory=dict)
    busy_since_ms: int | None = None
    hung: tuple[Hung, ...] = ()
    held_down_by: tuple[str, ...] = ()
    handing_back: bool = False
    orphans: tuple[str, ...] = ()
    rebalances: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=100))
    counters: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    causes: Causes = field(default_factory=Causes)

    @property
    def all_stock(self) -> bool:
        """Whether there are workers, and all of them are stock workers.

        While there are no members, as right after a take-over, the memory decides.
        """
        if not self.members:
            known = self.memory.incarnations.keys()
            return bool(known) and known <= set(self.memory.leaseless)
        return not any(member.is_agent for member in self.members)

    def await_evicted(
        self, reported: tuple[Member, ...], unread: tuple[Member, ...], now_ms: int, for_ms: int
    ) -> None:
        """Wait ``for_ms`` for those that were evicted to take the lead; see ``absences.awaited``."""
        unread += absences.still_missing(self.memory, (*reported, *unread))
        self.evicted = (*reported, *unread)
        self.has_memory = self.memory.generation >= 0
        if not self.has_memory:
            # What an earlier incarnation of an agent may run is not known, so that no fence keeps it back.
            for_ms = max(for_ms, self.policy.fence_ms)
        self.awaited = dict.fromkeys(absences.awaited(self.memory, reported, unread), now_ms + for_ms)

    def still_away(self, members: Collection[Member], now_ms: int) -> tuple[Member, ...]:
        """The evicted that are none of ``members``; the others are awaited no longer."""
        away = absences.not_back(self.evicted, members, self.facts.ended, self.has_memory)
        identities = {member.identity for member in away}
        self.awaited = {i: at for i, at in self.awaited.items() if at > now_ms and i in identities}
        return away

    def mark_busy(self, now_ms: int) -> None:
        """Note that a round is necessary."""
        if self.busy_since_ms is None:
            self.busy_since_ms = now_ms
