"""Moves of tasks with state: learners, after Kafka Streams' warm-up and standby replicas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from cooperator.model.ids import TaskId
from cooperator.model.restart import RESERVED

LEARNERS_VALID_MS: Final = 30_000
"""A learner's report that is older says nothing: how far it is behind counts as unknown."""

_PREFIX: Final = f"{RESERVED}state.replicas."


@dataclass(frozen=True, slots=True)
class StateReplicas:
    """A connector with this has stateful tasks: they move to members that have caught up (KIP-441).

    ``standbys``: how many other members learn each task all the time. ``max_warmups``: a member begins to
    learn a task that is to move there while fewer warm-ups than this are under way in the whole group.
    ``acceptable_lag_bytes``: a member at most this far behind has caught up. ``warmup_timeout_ms``: a warm-up
    that takes longer is given up, and the task moves without it.
    """

    standbys: int = 0
    max_warmups: int = 2
    acceptable_lag_bytes: int = 10_000_000
    warmup_timeout_ms: int = 600_000

    def settings(self) -> dict[str, str]:
        """Return the settings of a connector's configuration that say this."""
        return {
            f"{_PREFIX}enabled": "true",
            f"{_PREFIX}standbys": str(self.standbys),
            f"{_PREFIX}max.warmups": str(self.max_warmups),
            f"{_PREFIX}acceptable.lag.bytes": str(self.acceptable_lag_bytes),
            f"{_PREFIX}warmup.timeout.ms": str(self.warmup_timeout_ms),
        }

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "StateReplicas | None":
        """Read a connector's configuration; None: its tasks move as those without state do.

        A value that is not a non-negative number counts as absent, as in ``AutoRestart.of``.
        """
        if config.get(f"{_PREFIX}enabled", "").lower() != "true":
            return None
        default = cls()

        def number(name: str, otherwise: int) -> int:
            text = config.get(_PREFIX + name, "")
            return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else otherwise

        return cls(
            standbys=number("standbys", default.standbys),
            max_warmups=number("max.warmups", default.max_warmups),
            acceptable_lag_bytes=number("acceptable.lag.bytes", default.acceptable_lag_bytes),
            warmup_timeout_ms=number("warmup.timeout.ms", default.warmup_timeout_ms),
        )


@dataclass(frozen=True, slots=True)
class Warmup:
    """The task is to move to ``identity``, which has been told to learn it at ``since_ms``.

    A restart of that member does not begin the time anew.
    """

    connector: str
    task: int
    identity: str
    since_ms: int

    @property
    def item(self) -> TaskId:
        return TaskId(self.connector, self.task)


class LearnerProgress(NamedTuple):
    """The progress of a member with a task that it learns.

    ``behind_bytes``: None while it is unknown. ``state_bytes``: the size of the task's state at its newest
    commit; 0 if unknown. ``problem``: why the state cannot be learned there; empty if it can.
    """

    behind_bytes: int | None
    state_bytes: int = 0
    problem: str = ""


class ToLearn(NamedTuple):
    """A task that a member is to learn, as ``role``: ``warmup`` or ``standby``."""

    task: TaskId
    role: str
    acceptable_lag_bytes: int
