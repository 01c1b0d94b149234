"""A leader's settings and its state."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from cooperator.leader import absences
from cooperator.leader.causes import Causes
from cooperator.leader.group_record import GroupRecord
from cooperator.leader.history import History
from cooperator.leader.learner_reports import LearnerReports
from cooperator.leader.regroup import Regroup
from cooperator.leader.stock.members import Hung
from cooperator.model import ClusterConfig, Desired, Member, Memory, Policy, TaskId
from cooperator.planner.assignors import BUILT_IN
from cooperator.planner.plan import Plan
from cooperator.planner.problem import Assignor
from cooperator.planner.view import Facts
from cooperator.reconciliation import ReconciledGroup
from cooperator.wire import ConfigRecord
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
    * ``max_group_bytes``: the room for members in a group's record, until the broker's limit has been read.
    * ``stock_pool``: see ``ownership.is_of_pool``.
    * ``assignors``: those that a policy may choose, by name.
    * ``revocation_timeout_ms``: a member that has not released a task after this is overdue.
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
    revocation_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Sent:
    """The answer of a round: its plan, and the memory that must be durable before the plan is sent.

    ``facts``: those that it was planned with.
    """

    plan: Plan
    memory: Memory
    facts: Facts


@dataclass(frozen=True, slots=True)
class RefusedRecords:
    """Records of a connector that the broker refused; retried at ``again_ms``."""

    records: tuple[ConfigRecord, ...]
    reason: str
    again_ms: int


@dataclass(slots=True)
class LeaderState:
    """The machine's state. Shells and projections read it; only the machine writes it, in ``handle``.

    * ``in_round``: members join, or their assignments are on their way; also from taking the lead until its
      first round has been answered.
    * ``saved``: the memory known to be in the leader log, except for its generation; None: not known.
    * ``planned_with``: the memory before the present round; ``planned``: the configuration of the last one.
    * ``is_new``: no round was planned in this tenure.
    * ``sent``: for the present generation; None: its members were sent nothing new.
    * ``commit_is_late``: the last round was planned with a commit that a member had not read; the next one is
      for it.
    * ``behind_ms``: when members had last read more than the leader can.
    * ``wake_at_ms``: the last ``WakeAt``.
    * ``held_down_by``: members that may be why the group does not speak the newest protocol.
    * ``handing_back``: the layout is being made even, so that stock workers can go on without this leader.
    * ``orphans``: connectors that outlive their resource, as far as the leader log is known to say so.
    * ``evicted``: members that were removed to take the lead.
    * ``awaited``: identities of evicted members that are not back, and until when (ms) they are awaited.
    * ``returning``: members that may come back from before this tenure and have not yet, by identity with
      their incarnations; empty after ``returning_until_ms``.
    * ``has_completed``: a round of this tenure is complete.
    * ``relocated``: identities of stock workers that are back at another address, with each earlier address
      and until when (ms) a worker at it may come back (see ``identities``).
    * ``has_memory``: whether there was a memory when the lead was taken.
    * ``trouble``: the last failure of a round or a log.
    * ``unwritten``: why a write is due that has failed; empty: none is.
    * ``refused``: by connector, what the broker takes no record of.
    * ``record``: the group's record in the last round, before its assignments; ``max_group_bytes``: how large
      it may be. ``limit_read_ms``: when the broker's limit was last read in this tenure;
      ``limit_in_doubt``: a round or an instruction has failed since then.
    * ``refused_tasks``: tasks that are not assigned, as they do not fit into the record; ``refusal``: the
      same as a text for users, or that not even the members' reports fit; empty: everything fits.
    * ``adopts``: the group was adopted, so members that the host does not expect are legitimate.
    * ``learners``: what members report of the tasks that they learn.
    * ``group``: the group while it reconciles without rounds; None: it is in rounds. ``may_reconcile``: it
      can leave rounds. ``is_blind``: the members of the last round have not said what they run.
    * ``avoided``: the members that the last layout of a group without rounds gave new tasks only where there
      were no others.
    * ``unreached``: a member that did not reach the leader, for which the group is in rounds.
    * ``is_joining``: the leader's JoinGroup is on its way.
    * ``is_idle``: all events that have arrived are handled, as far as is known.
    * ``topic_refusal``: why nothing is planned, as the config topic is not the group's; empty: it is.
    """

    adopts: bool = False
    policy: Policy = field(default_factory=Policy)
    config: ClusterConfig = field(default_factory=ClusterConfig)
    desired: Desired | None = None
    facts: Facts = field(default_factory=Facts)
    memory: Memory = field(default_factory=Memory)
    saved: Memory | None = None
    planned_with: Memory = field(default_factory=Memory)
    planned: ClusterConfig = field(default_factory=ClusterConfig)
    leading: bool = False
    is_new: bool = False
    in_round: bool = False
    generation: int = -1
    completed: int = -1
    sent: Sent | None = None
    commit_is_late: bool = False
    behind_ms: int | None = None
    wake_at_ms: int | None = None
    leader_id: str = ""
    protocol: str = ""
    members: tuple[Member, ...] = ()
    evicted: tuple[Member, ...] = ()
    has_memory: bool = True
    awaited: dict[str, int] = field(default_factory=dict)
    returning: Mapping[str, str] = field(default_factory=dict)
    returning_until_ms: int = 0
    has_completed: bool = False
    relocated: dict[str, dict[str, int]] = field(default_factory=dict)
    regroups: dict[str, Regroup] = field(default_factory=dict)
    plan: Plan | None = None
    trouble: str = ""
    unwritten: str = ""
    refused: dict[str, RefusedRecords] = field(default_factory=dict)
    record: GroupRecord = field(default_factory=GroupRecord)
    max_group_bytes: int = 1_000_000
    limit_read_ms: int | None = None
    limit_in_doubt: bool = False
    refused_tasks: tuple[TaskId, ...] = ()
    refusal: str = ""
    topic_refusal: str = ""
    group: ReconciledGroup | None = None
    may_reconcile: bool = False
    is_blind: bool = False
    unreached: str = ""
    avoided: frozenset[str] = frozenset()
    is_joining: bool = False
    is_idle: bool = False
    hung: tuple[Hung, ...] = ()
    held_down_by: tuple[str, ...] = ()
    handing_back: bool = False
    orphans: tuple[str, ...] = ()
    learners: LearnerReports = field(default_factory=LearnerReports)
    history: History = field(default_factory=History)
    causes: Causes = field(default_factory=Causes)

    @property
    def is_durable(self) -> bool:
        """Whether the leader log says what ``memory`` does."""
        # The generation alone decides nothing: a round that changed nothing is not written.
        memory, saved = self.memory, self.saved
        # Compare task counts first: most changes alter them, and they are cheaper to compare than the tasks.
        if saved is None or _sizes(memory.given) != _sizes(saved.given):
            return False
        return replace(memory, generation=saved.generation) == saved

    @property
    def is_known(self) -> bool:
        """Whether ``members`` are those of the group, with what they run."""
        return self.leading and self.has_completed and not self.returning and not self.is_blind

    @property
    def unexpected(self) -> frozenset[str]:
        """Identities of members that the host does not expect; they get no tasks."""
        facts = self.facts
        if facts.expected is None or self.adopts:
            return frozenset()
        ours = facts.expected | facts.leaving | facts.gone | facts.returning | facts.cordoned
        return frozenset(member.identity for member in self.members) - ours

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
            # The tasks of an agent's earlier incarnation are unknown, so no fence can hold them back.
            for_ms = max(for_ms, self.policy.fence_ms)
        self.awaited = dict.fromkeys(absences.awaited(self.memory, reported, unread), now_ms + for_ms)
        # A leader before may have evicted members, who are not back yet for this one to see.
        holds = self.memory.holds
        long_gone = {i for i, hold in holds.items() if hold.since_ms + for_ms <= now_ms}
        last = (self.memory.given.keys() | holds.keys()) - long_gone - {absences.UNKNOWN}
        self.returning = {i: self.memory.incarnations.get(i, "") for i in last} | {
            member.identity: member.incarnation for member in self.evicted
        }
        self.returning_until_ms = now_ms + for_ms

    def still_away(self, members: Collection[Member], now_ms: int) -> tuple[Member, ...]:
        """The evicted that are none of ``members``. The others are awaited no longer, unless one of those
        that are away may be they: see ``absences.place``."""
        here = {member.identity for member in members}
        self.returning = {
            identity: incarnation
            for identity, incarnation in self.returning.items()
            if now_ms < self.returning_until_ms
            and identity not in here
            and (identity, incarnation) not in self.facts.ended
        }
        away = absences.not_back(self.evicted, members, self.facts.ended, self.has_memory)
        places = set(map(absences.place, away))
        identities = {member.identity for member in self.evicted if absences.place(member) in places}
        self.awaited = {i: at for i, at in self.awaited.items() if at > now_ms and i in identities}
        return away


def _sizes(given: Mapping[str, Collection[TaskId]]) -> dict[str, int]:
    return {identity: len(tasks) for identity, tasks in given.items()}
