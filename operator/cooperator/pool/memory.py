"""What a pool remembers from one decision to the next.

A host that has lost it goes on safely: proofs of ends become waits for leases, back-offs start anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cooperator.model import TaskId
from cooperator.pool.actions import Action


@dataclass(frozen=True, slots=True)
class LifeSeen:
    """The life that a pod was last seen in. ``stopping``: it had been told to end, so its end is no crash.
    ``joined``: it has been a member; None where it may have been, before anybody remembered.
    """

    uid: str
    incarnation: str
    started_ms: int
    stopping: bool = False
    joined: bool | None = None


@dataclass(frozen=True, slots=True)
class Crashes:
    """``count`` crashes in a row, the last of them seen at ``last_ms``."""

    count: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Asked:
    """An action that was asked for at ``at_ms`` and has not shown an effect."""

    action: Action
    at_ms: int


@dataclass(frozen=True, slots=True)
class Starting:
    """Tasks that were starting in a life when it was last seen."""

    incarnation: str
    tasks: frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """``slots``: the ordinals that the pool should have; None before the first decision.

    ``lives``: per identity with a pod. ``ended``: per identity, its last lives whose end is proven, oldest
    first. ``cut_off``: per identity, since when its node is unreachable and it is no member.
    ``rolling``: identities that are being replaced. ``shrink_since_ms``: since when fewer are wanted.
    ``starting`` and ``suspects``: what is known of tasks that may kill their members (``poison``).
    """

    slots: frozenset[int] | None = None
    lives: Mapping[str, LifeSeen] = field(default_factory=dict)
    ended: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    crashes: Mapping[str, Crashes] = field(default_factory=dict)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    cut_off: Mapping[str, int] = field(default_factory=dict)
    rolling: frozenset[str] = frozenset()
    shrink_since_ms: int | None = None
    starting: Mapping[str, Starting] = field(default_factory=dict)
    suspects: Mapping[TaskId, int] = field(default_factory=dict)
