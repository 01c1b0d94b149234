"""A member of the group as the leader sees it, and the share of work it is given."""

from dataclasses import dataclass
from enum import StrEnum

from cooperator.model.ids import Epoch, TaskId


class Warmth(StrEnum):
    """Whether what runs tasks at a member is up."""

    WARM = "Warm"
    """A task that is given to it starts at once."""
    WARMING = "Warming"
    """It is being started, and will say when it is up."""
    STALLED = "Stalled"
    """Its start has failed, or has taken longer than it should; it is WARM if that succeeds after all."""


@dataclass(frozen=True, slots=True)
class Member:
    """One worker process in the group, as it reported itself when it joined.

    ``identity`` is the pod's name and survives restarts; ``incarnation`` names one life of it (pod UID
    and container start); ``member_id`` is the broker's, new at each join from scratch.
    ``owned`` is everything the member has not let go of, in the order reported: running, starting and
    still stopping. ``stopping`` is the part of it that was revoked and has not stopped yet: it occupies
    its slot, and starts nowhere else until the member has rejoined without it.
    ``applied`` is the epoch of the last share the member has taken up; None for stock workers.
    ``draining``: the member announced its departure and lets everything go.
    ``warmth``: of its runtime; of whoever says nothing, such as a stock worker, nothing is waited for.
    ``url``: where it serves; a stock worker keeps no lease.
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

    @property
    def worker_id(self) -> str:
        """How it signs its statuses: a stock worker by host and port."""
        address = self.url.partition("//")[2].rstrip("/")
        return self.identity if self.is_agent or not address else address

    def having(
        self, owned: tuple[TaskId, ...], stopping: frozenset[TaskId], applied: Epoch | None
    ) -> "Member":
        """The same member with these; ``replace`` takes several times as long."""
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
        )


@dataclass(frozen=True, slots=True)
class Share:
    """What one round changes for one member: what is new for it, and what it must let go (KIP-415).

    What is in neither goes on running untouched.
    """

    assigned: tuple[TaskId, ...] = ()
    revoked: tuple[TaskId, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.assigned and not self.revoked
