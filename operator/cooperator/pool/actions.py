"""What a decision asks of the host, one value a kind."""

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
    """Mark this life as leaving (``Mark``); the process is not told, its tasks are moved by the leader."""

    identity: str
    incarnation: str
    reason: MarkReason


@dataclass(frozen=True, slots=True)
class UnDrain:
    """Take the mark off: it stays."""

    identity: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Tell this life to end in order (SIGTERM; a deletion with grace period)."""

    identity: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End this life at once (SIGKILL): it was told to end and does not."""

    identity: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Clear away what is left of a life that has ended, so that its name is free."""

    identity: str
    incarnation: str


Action: TypeAlias = Create | Drain | UnDrain | Delete | Kill | Remove
