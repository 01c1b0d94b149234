"""The actions that a decision asks the host to carry out."""

from dataclasses import dataclass
from typing import TypeAlias

from cooperator.pool.observed import MarkReason


@dataclass(frozen=True, slots=True)
class Create:
    """Make the pod ``identity`` from the template ``revision``."""

    identity: str
    revision: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Mark this incarnation as leaving (``MarkReason``). The process is not notified; the leader moves its
    tasks."""

    identity: str
    incarnation: str
    reason: MarkReason


@dataclass(frozen=True, slots=True)
class UnDrain:
    """Remove the mark: this incarnation stays."""

    identity: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Ask this incarnation to end gracefully (SIGTERM; a deletion with grace period)."""

    identity: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End this incarnation at once (SIGKILL): it did not end after it was asked to."""

    identity: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove what is left of an incarnation that has ended, so that its name is free."""

    identity: str
    incarnation: str


Action: TypeAlias = Create | Drain | UnDrain | Delete | Kill | Remove
