"""The state that the leader keeps between rounds, as a value stored in the leader log.

A new leader, be it the restarted operator or a member, continues with the memory of the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model.ids import TaskId
from cooperator.model.state_replicas import Warmup


class HoldReason(StrEnum):
    """The reason why lost tasks wait instead of moving at once."""

    DEPARTED = "Departed"
    """The member is gone and is expected back within the delay."""
    UNPROVEN = "Unproven"
    """The member is gone, but its end is not proven: its lease may still be valid."""
    EVICTED = "Evicted"
    """The leader evicted the member to take the lead, and it has not rejoined yet."""
    UNFENCED = "Unfenced"
    """The member is gone and kept no lease: its tasks stay held until its end is proven or it is back."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The lost tasks of one departed identity, held unassigned.

    They move at ``max(deadline_ms, not_before_ms)`` unless the same identity is back earlier.
    ``deadline_ms`` is the end of scheduled.rebalance.max.delay.ms, counted from this identity's own
    departure; ``not_before_ms`` is the time by which the last holder's end is certain (its lease has
    run out; 0 when it is proven). All times are milliseconds since the epoch.
    ``blanket``: the leader does not know all that the member ran (it was evicted by a leader without memory
    of it, or after others had led). No unreported task starts anywhere until the member is back, or its
    tasks have certainly ended.
    """

    tasks: frozenset[TaskId]
    since_ms: int
    deadline_ms: int
    not_before_ms: int = 0
    incarnation: str = ""
    reason: HoldReason = HoldReason.DEPARTED
    cause: str = ""
    blanket: bool = False

    @property
    def until_ms(self) -> int:
        return max(self.deadline_ms, self.not_before_ms)

    @property
    def blanket_until_ms(self) -> int:
        """The time before which no unreported task starts; 0 unless ``blanket``. A hold that only gives the
        member time to return, and does not wait for its end, covers only the tasks it is known to have run.
        """
        if not self.blanket:
            return 0
        return self.until_ms if self.reason is HoldReason.EVICTED else self.not_before_ms


@dataclass(frozen=True, slots=True)
class Unstopped:
    """Tasks revoked from one incarnation of an identity that are not known to have stopped there.

    ``gone_since_ms``: when (ms) that incarnation was first missing from the group without a proof of its
    end; None while it is a member. Its tasks start nowhere before its lease has expired. ``leased``: whether
    it keeps a lease at all (see ``Fencing``).
    """

    identity: str
    incarnation: str
    tasks: frozenset[TaskId]
    gone_since_ms: int | None = None
    leased: bool = True


@dataclass(frozen=True, slots=True)
class Kip415Memory:
    """The state of Kafka's own leader, for the policy that reproduces it (docs/protocol.md, section 2)."""

    previous_generation: int = -1
    previous_members: tuple[str, ...] = ()
    previous_assignment: frozenset[TaskId] = frozenset()
    previous_revocation: frozenset[TaskId] = frozenset()
    scheduled_rebalance_ms: int = 0
    delay_ms: int = 0
    candidates: tuple[str, ...] = ()
    revoked_in_previous: bool = False
    successive_revoking_rebalances: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """The leader's memory after a round.

    ``term``: how often the lead was taken. ``generation``: the generation of the last round planned.
    ``given``: per identity, the tasks it should run after that round (without revoked ones).
    ``incarnations``: per identity, the incarnation to which these were given. ``former``: per identity, a few
    of its earlier incarnations, oldest first; a former incarnation that reappears is not a new member.
    ``holds``: per departed identity. ``returns``: per identity, the times (ms) of its recent departures, for
    the crash budget. ``joins``: per expected identity that is not a member yet, when (ms) the wait for it
    began. ``unstopped``: tasks revoked from an incarnation and not yet known to have ended there.
    ``moving``: tasks that were revoked and are not assigned again yet, by ``"<why>:<cause>"``.
    ``stock``: stock workers were members in that round, or before, and somebody is missing since; such a
    worker leaves no memory if it leads next.
    ``leaseless``: the identities in ``incarnations`` that are stock workers. ``managed``: connectors that
    were desired, and are deleted when they no longer are; an adopted group has others, too.
    ``orphans``: connectors that are, or were last, desired with ``orphan``, and so outlive their resource.
    ``addresses``: per identity of a stock worker, the host and port at which it serves.
    ``warmups``: of tasks with state that are to move. ``standbys``: per identity, the tasks that it learns in
    case their member dies. ``departing``: per departing identity that still runs tasks with state, when (ms)
    it was first seen to depart.
    """

    term: int = 0
    generation: int = -1
    given: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    incarnations: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    returns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joins: Mapping[str, int] = field(default_factory=dict)
    unstopped: tuple[Unstopped, ...] = ()
    moving: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    stock: bool = False
    leaseless: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    kip415: Kip415Memory | None = None
    warmups: tuple[Warmup, ...] = ()
    standbys: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    departing: Mapping[str, int] = field(default_factory=dict)
