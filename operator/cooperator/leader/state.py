"""What a leader is told at its start, and all that it knows."""

from collections import deque
from dataclasses import dataclass, field

from cooperator.leader.causes import Causes
from cooperator.leader.history import Rebalance
from cooperator.leader.regroup import Regroup
from cooperator.leader.stock import Hung
from cooperator.model import ClusterConfig, Desired, Epoch, Member, Memory, Policy, TaskId
from cooperator.planner.plan import Plan
from cooperator.planner.view import Facts
from cooperator.wire.signature import DEFAULT_ALGORITHM


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """``url``: where members reach this leader. ``awaited_ms``: how long members that were evicted to
    take the lead are waited for (a heartbeat and a rebalance time-out). ``coalesce_ms``: changes within
    this time share a round. ``owns_config``: connectors that nobody desires are deleted.
    ``max_group_bytes``: the broker keeps a group, metadata and assignments of all members, in one record;
    it must fit into ``message.max.bytes``."""

    url: str
    awaited_ms: int = 35_000
    coalesce_ms: int = 250
    session_key_ttl_ms: int = 3_600_000
    session_key_algorithm: str = DEFAULT_ALGORITHM
    session_key_bytes: int = 32
    owns_config: bool = True
    max_group_bytes: int = 1_000_000


@dataclass(slots=True)
class LeaderState:
    """All that the machine knows. Shells and projections read it; only the machine writes it.

    ``born``: of identities whose present life this leader has seen begin, that life and its first round's
    epoch. ``owners``: of tasks that nobody runs, the identity that did. ``stirred_ms``: when what is going on
    began (ms since the epoch); None while nothing is. ``reasons``: how many rounds each cause has had.
    ``held_down_by``: who may be why the group does not speak the newest protocol. ``handing_back``: the
    layout is made even, for stock workers to go on without this leader.
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
    awaited: dict[str, int] = field(default_factory=dict)
    regroups: dict[str, Regroup] = field(default_factory=dict)
    plan: Plan | None = None
    trouble: str = ""
    refusal: str = ""
    born: dict[str, tuple[str, Epoch]] = field(default_factory=dict)
    owners: dict[TaskId, str] = field(default_factory=dict)
    stirred_ms: int | None = None
    hung: tuple[Hung, ...] = ()
    held_down_by: tuple[str, ...] = ()
    handing_back: bool = False
    rebalances: deque[Rebalance] = field(default_factory=lambda: deque(maxlen=100))
    counters: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    causes: Causes = field(default_factory=Causes)

    @property
    def all_stock(self) -> bool:
        """Whether there are workers, and every one of them is a stock worker."""
        return bool(self.members) and not any(member.is_agent for member in self.members)

    def stir(self, now_ms: int) -> None:
        """Something makes a round necessary."""
        if self.stirred_ms is None:
            self.stirred_ms = now_ms
