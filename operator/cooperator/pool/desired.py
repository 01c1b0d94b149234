"""The desired state of a pool, and the time limits of its lifecycle."""

from dataclasses import dataclass, field
from enum import StrEnum


class RollStrategy(StrEnum):
    HOLD = "Hold"
    """A pod is replaced in place: its tasks wait for it, and other pods are not affected."""
    DRAIN = "Drain"
    """A pod's tasks move away before it is replaced."""


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """Limits and delays of a pool.

    ``drain_timeout_ms``: a pod whose tasks do not move away is asked to end after this.
    ``kill_after_ms``: a pod that was asked to end is killed after this; None: the platform does it.
    ``backoff_initial_ms`` … ``backoff_max_ms``: pause before a pod is created again after its second,
    third, … crash (the first causes none); doubled each time, reset by an incarnation that lasts
    ``healthy_after_ms``.
    ``scale_down_delay_ms``: a smaller number of replicas must be stable this long before a pod leaves;
    ``scale_down_wait_max_ms``: how long a group that does not come to rest can delay that.
    ``stand_in_after_ms``: a pod that is stuck on a dead node gets a stand-in after this.
    ``ready_timeout_ms``: a pod that has not joined by then stops a roll and is reported.
    ``retry_ms``: an action without visible effect is requested again after this.
    ``poison_deaths``: a task that was starting at this many deaths is quarantined.
    ``trust_node_deletion``: a deleted Node object proves that its machine is gone (true on some clouds).
    """

    strategy: RollStrategy = RollStrategy.HOLD
    max_unavailable: int = 1
    drain_timeout_ms: int = 60_000
    kill_after_ms: int | None = None
    backoff_initial_ms: int = 10_000
    backoff_max_ms: int = 300_000
    healthy_after_ms: int = 600_000
    scale_down_delay_ms: int = 5_000
    scale_down_wait_max_ms: int = 900_000
    stand_in_after_ms: int = 300_000
    ready_timeout_ms: int = 600_000
    retry_ms: int = 10_000
    poison_deaths: int = 2
    trust_node_deletion: bool = False


@dataclass(frozen=True, slots=True)
class PoolDesired:
    """``replicas`` pods named ``name``-0, ``name``-1, … created from the template ``revision``."""

    name: str
    replicas: int
    revision: str
    policy: PoolPolicy = field(default_factory=PoolPolicy)

    def identity(self, ordinal: int) -> str:
        return f"{self.name}-{ordinal}"

    def ordinal(self, identity: str) -> int | None:
        """Return the ordinal of one of this pool's identities; None for any other name."""
        prefix, _, number = identity.rpartition("-")
        if prefix != self.name or not (number.isascii() and number.isdigit()):
            return None
        return int(number) if number == str(int(number)) else None
