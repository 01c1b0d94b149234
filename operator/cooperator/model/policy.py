"""The scheduling policy of a Worker; stored in the leader log, so that a leading member follows it."""

from dataclasses import dataclass
from enum import StrEnum


class PolicyName(StrEnum):
    DEFAULT = "Default"
    KIP415 = "Kip415"
    EAGER = "Eager"


class Fencing(StrEnum):
    """The treatment of tasks of a departed member that keeps no lease (a stock worker).

    Nothing in the group shows whether such a member still runs its tasks after it left unnoticed.
    """

    STRICT = "Strict"
    """The tasks stay held until the member's end is proven or it is back."""
    BEST_EFFORT = "BestEffort"
    """The tasks move when their hold ends, as with Kafka's own leader; they may run twice for a while."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The user's choices for a Worker.

    ``scheduled_rebalance_max_delay_ms``: how long a departed member's tasks are held for it (KIP-415).
    ``lease_ms`` + ``lease_margin_ms``: after an unproven departure is noticed, its tasks never move earlier
    than this, whatever the hold. ``join_wait_ms``: how long balancing waits for expected joins.
    ``max_returns``: this many departures within ``return_window_ms`` get a hold, later ones do not (a crash
    loop cannot renew its hold forever). ``fencing`` applies to members without a lease. ``hung_after_ms``: a
    member that stays in one start or stop for this long is reported for replacement; 0: never.
    ``depart_warm_ms``: a departing member runs tasks with state on for this long while others learn them.
    ``reconciles``: the group leaves rounds as soon as all its members can.
    """

    name: PolicyName = PolicyName.DEFAULT
    assignor: str = "Sticky"
    scheduled_rebalance_max_delay_ms: int = 300_000
    lease_ms: int = 40_000
    lease_margin_ms: int = 5_000
    join_wait_ms: int = 30_000
    max_returns: int = 5
    return_window_ms: int = 3_600_000
    strict_spread: bool = False
    fencing: Fencing = Fencing.STRICT
    hung_after_ms: int = 0
    depart_warm_ms: int = 30_000
    reconciles: bool = False

    @property
    def fence_ms(self) -> int:
        """The length of an unproven absence after which a leased member certainly runs nothing any more."""
        return self.lease_ms + self.lease_margin_ms

    def fence_of_ms(self, leased: bool) -> int | None:
        """Return the same for any member. Without a lease the end is never certain without a proof (None,
        for STRICT), or counts as certain after the member's hold (BEST_EFFORT)."""
        if leased:
            return self.fence_ms
        return None if self.fencing is Fencing.STRICT else self.scheduled_rebalance_max_delay_ms
