"""What the leader must remember between rounds, as a value that travels in the leader log.

A new leader, be it the restarted operator or a member, goes on with the memory of the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model.ids import TaskId


class HoldReason(StrEnum):
    """Why lost tasks wait instead of moving at once."""

    DEPARTED = "Departed"
    """The member is gone and is expected back within the delay."""
    UNPROVEN = "Unproven"
    """The member is gone, but its end is not proven: its lease may still run."""
    EVICTED = "Evicted"
    """The leader evicted the member to take the lead, and it has not rejoined yet."""
    UNFENCED = "Unfenced"
    """The member is gone and kept no lease: until its end is proven, or it is back, its tasks stay held."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The lost tasks of one departed identity, held unassigned.

    They move at ``max(deadline_ms, not_before_ms)`` unless the same identity is back earlier.
    ``deadline_ms`` is the end of scheduled.rebalance.max.delay.ms, counted from this identity's own
    departure; ``not_before_ms`` is the time by which the last holder's end is certain (its lease has
    run out; 0 when it is proven). All times are milliseconds since the epoch.
    ``blanket``: the leader does not know all that the member ran (it was evicted by a leader without memory
    of it, or after others had led): no unreported task starts anywhere before the member is back, or what
    it ran has certainly ended.
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
        """Until when nothing unreported starts; 0 when it is known what is held. A wait that is only for the
        member's sake, and not for its end, is for what it is known to have run."""
        if not self.blanket:
            return 0
        return self.until_ms if self.reason is HoldReason.EVICTED else self.not_before_ms


@dataclass(frozen=True, slots=True)
class Unstopped:
    """Tasks that one life of an identity was told to stop and has not been seen to have stopped.

    ``gone_since_ms``: when (ms) that life was first missing from the group without a proof of its end; None
    while it is a member. Its tasks start nowhere before its lease has run out. ``leased``: whether it keeps
    one at all (see ``Fencing``).
    """

    identity: str
    incarnation: str
    tasks: frozenset[TaskId]
    gone_since_ms: int | None = None
    leased: bool = True


@dataclass(frozen=True, slots=True)
class Kip415Memory:
    """The state that Kafka's own leader keeps, for the policy that reproduces it (protocol notes, 2)."""

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

    ``term``: how often the lead was taken. ``generation``: of the last round planned.
    ``given``: per identity, what it should be running after that round (revoked tasks are not in it).
    ``incarnations``: per identity, the life that was given it. ``former``: per identity, a few of its
    earlier lives, oldest first: one of them that shows up again is no newcomer. ``holds``: per departed
    identity. ``returns``: per identity, the times (ms) of its recent departures: the crash budget.
    ``joins``: per expected identity that is not a member yet, since when (ms) it is waited for.
    ``unstopped``: tasks revoked from a life and not yet known to have ended there.
    ``moving``: tasks that were revoked and are not assigned again yet, by ``"<why>:<cause>"``.
    ``stock``: stock workers were members then: one that leads next leaves no memory. ``leaseless``: those of
    ``incarnations`` that are lives of such workers, by identity. ``managed``: connectors that were desired;
    in a group that was adopted there are others, which are not ours to delete.
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
    kip415: Kip415Memory | None = None
