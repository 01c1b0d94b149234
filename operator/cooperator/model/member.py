"""A member of the group as the leader sees it, and the assignment it gets."""

from dataclasses import dataclass
from enum import StrEnum

from cooperator.model.ids import Epoch, TaskId


class Warmth(StrEnum):
    """The state of a member's runtime, which runs its tasks."""

    WARM = "Warm"
    """The runtime is up: an assigned task starts at once."""
    WARMING = "Warming"
    """The runtime is starting; the member reports when it is up."""
    STALLED = "Stalled"
    """The runtime failed to start, or takes longer than it should; it is WARM if it comes up after all."""


@dataclass(frozen=True, slots=True)
class Member:
    """One worker process in the group, as it reported itself when it joined.

    ``identity`` is the pod's name and survives restarts; ``incarnation`` names one run of it (pod UID
    and container start); ``member_id`` is assigned by the broker, new at each join from scratch.
    ``owned`` is everything the member has not released, in the order reported: running, starting and
    still stopping. ``stopping`` is the part of it that was revoked and has not stopped yet: it occupies
    its slot, and starts nowhere else until the member has rejoined without it.
    ``applied`` is the epoch of the last assignment the member has applied; None for stock workers.
    ``draining``: the member announced its departure and releases everything.
    ``warmth``: the state of its runtime; members that do not report one, such as stock workers, count as
    warm. ``url``: where it serves. ``is_agent``: False for a stock worker, which keeps no lease.
    ``learns``: it can learn the state of tasks that others run.
    ``reconciles``: it offers reconciliation without rounds.
    """

    member_id: str
    identity: str
    incarnation: str
    owned: tuple[TaskId, ...] = ()
    stopping: frozenset[TaskId] = frozenset()
    draining: bool = False
    applied: Epoch | None = None
    is_agent: bool = True
    capacity: float = 1.0
    zone: str = ""
    warmth: Warmth = Warmth.WARM
    url: str = ""
    learns: bool = False
    reconciles: bool = False

    @property
    def worker_id(self) -> str:
        """The worker id in its status records; a stock worker's is host and port."""
        address = self.url.partition("//")[2].rstrip("/")
        return self.identity if self.is_agent or not address else address

    def having(
        self, owned: tuple[TaskId, ...], stopping: frozenset[TaskId], applied: Epoch | None
    ) -> "Member":
        """Return a copy with these values; ``replace`` takes several times as long."""
        return Member(
            self.member_id,
            self.identity,
            self.incarnation,
            owned,
            stopping,
            self.draining,
            applied,
            self.is_agent,
            self.capacity,
            self.zone,
            self.warmth,
            self.url,
            self.learns,
            self.reconciles,
        )


@dataclass(frozen=True, slots=True)
class Assignment:
    """The changes of one round for one member: newly assigned tasks, and tasks to revoke (KIP-415).

    Tasks in neither list keep running untouched.
    """

    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.assigned and not self.revoked
