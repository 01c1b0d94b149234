"""The result of a decision: an assignment for every member, held tasks, and when to decide again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cooperator.model import Assignment, HoldReason, TaskId


class Why(StrEnum):
    """The reason for one assignment or revocation.

    A task that is assigned after a revocation carries the reason of the revocation.
    """

    CREATED = "Created"
    RETURNED = "Returned"
    HOLD_ENDED = "HoldEnded"
    STANDBY = "Standby"
    UNDELIVERED = "Undelivered"
    BALANCE = "Balance"
    DRAIN = "Drain"
    DELETED = "Deleted"
    DUPLICATE = "Duplicate"
    SUSPENDED = "Suspended"
    POISONED = "Poisoned"
    SUPERSEDED = "Superseded"


def reason_of(text: str) -> Why:
    """Return the reason of that name; Balance for that of a later release, whose leader revoked the task."""
    return Why(text) if text in {each.value for each in Why} else Why.BALANCE


@dataclass(frozen=True, slots=True)
class Reason:
    why: Why
    cause: str = ""


class SameReason(Mapping[TaskId, Reason]):
    """One reason for all of ``tasks``: after a cold start these are all tasks."""

    def __init__(self, tasks: frozenset[TaskId], reason: Reason) -> None:
        self.tasks, self.reason = tasks, reason

    def __getitem__(self, item: TaskId) -> Reason:
        if item not in self.tasks:
            raise KeyError(item)
        return self.reason

    def __contains__(self, item: object) -> bool:
        return item in self.tasks

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task that waits for ``identity``: until when (ms since the epoch), and why."""

    identity: str
    until_ms: int
    reason: HoldReason
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one round.

    ``assignments`` has an entry for every member id of the view. ``rejoin_at_ms``: when the leader must
    start a round on its own (end of a hold, limit of a wait); None when nothing is pending.
    ``delay_ms``: sent to the members; 0 except under Kip415, since the leader owns all timers.
    ``warnings``: hints to users about how the plan was made.
    ``revoking``: the plan revokes tasks, so the members' rejoin makes the next round.
    """

    assignments: Mapping[str, Assignment]
    held: Mapping[TaskId, HeldTask] = field(default_factory=dict)
    rejoin_at_ms: int | None = None
    delay_ms: int = 0
    assigned_why: Mapping[TaskId, Reason] = field(default_factory=dict)
    revoked_why: Mapping[TaskId, Reason] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def reasons(self) -> str:
        """The reasons of all changes, each once, as a text; empty if there are none."""
        whys = {why.why.value for why in (*self.assigned_why.values(), *self.revoked_why.values())}
        return ", ".join(sorted(whys))

    @property
    def is_empty(self) -> bool:
        return all(assignment.is_empty for assignment in self.assignments.values())

    @property
    def revoking(self) -> bool:
        return any(assignment.revoked for assignment in self.assignments.values())
