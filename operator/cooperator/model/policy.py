"""How a Worker wants its work scheduled; travels in the leader log, so that a leading member keeps to it."""

from dataclasses import dataclass
from enum import StrEnum


class PolicyName(StrEnum):
    DEFAULT = "Default"
    KIP415 = "Kip415"
    EAGER = "Eager"


class Fencing(StrEnum):
    """What becomes of the tasks of a departed member that keeps no lease (a stock worker).

    Nobody can tell whether one that left the group unseen still runs its tasks.
    """

    STRICT = "Strict"
    """They stay held until its end is proven, or it is back."""
    BEST_EFFORT = "BestEffort"
    """They move when their hold ends, as with Kafka's own leader: they may run twice for a while."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user chose for a Worker.

    ``scheduled_rebalance_max_delay_ms``: how long a departed member's tasks are held for it (KIP-415).
    ``lease_ms`` + ``lease_margin_ms``: an unproven departure never moves earlier than this after it was
    noticed, whatever the hold. ``join_wait_ms``: how long joins known to come are waited for before load
    is balanced. ``max_returns`` departures within ``return_window_ms`` are held for; later ones are not
    (a crash loop does not renew its hold for ever). ``fencing``: of members without a lease.
    ``hung_after_ms``: a member that has been in the midst of a start or a stop for so long is named to be
    replaced; 0: never.
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

    @property
    def fence_ms(self) -> int:
        """After so long an absence without a proof nothing of a member of ours can run any more."""
        return self.lease_ms + self.lease_margin_ms

    def fence_of_ms(self, leased: bool) -> int | None:
        """The same for any member: of one that keeps no lease it is never certain without a proof (None), or
        is taken for certain after its hold."""
        if leased:
            return self.fence_ms
        return None if self.fencing is Fencing.STRICT else self.scheduled_rebalance_max_delay_ms
