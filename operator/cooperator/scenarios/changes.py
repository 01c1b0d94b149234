"""The changes to a group that a "what if" question may ask about, and their validation.

Each kind of change carries the option of ``cooperator plan`` that requests it. All changes happen at once,
now.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from cooperator.model.text import counted, hinted
from cooperator.planner import View

MOST_JOINERS: Final = 1000


class ChangeError(ValueError):
    """A change that cannot be simulated; the message names the option, its value and the remedy."""


@dataclass(frozen=True, slots=True)
class _OfMember:
    identity: str
    option: ClassVar[str]
    verb: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.identity} {self.verb}"


class Leave(_OfMember):
    """The member ends and will not return; its host knows that."""

    option, verb = "--leave", "leaves for good"


class Die(_OfMember):
    """The member's process ends; whether it will return is unknown."""

    option, verb = "--die", "dies"


class Vanish(_OfMember):
    """The member becomes unreachable, and its end cannot be proven."""

    option, verb = "--vanish", "vanishes"


class Drain(_OfMember):
    """The member announces its departure, and leaves when it has handed everything over."""

    option, verb = "--drain", "drains"


@dataclass(frozen=True, slots=True)
class Restart(_OfMember):
    """The member's process ends, and its next incarnation joins ``after_ms`` later."""

    after_ms: int
    option = "--restart"

    def __str__(self) -> str:
        return f"{self.identity} dies and is back {self.after_ms / 1000:g} s later"


@dataclass(frozen=True, slots=True)
class Join:
    """``count`` new members join."""

    count: int
    option: ClassVar[str] = "--join"

    def __str__(self) -> str:
        return "a new member joins" if self.count == 1 else f"{self.count} new members join"


@dataclass(frozen=True, slots=True)
class Add:
    """A connector is created that will have ``tasks`` tasks."""

    connector: str
    tasks: int
    option: ClassVar[str] = "--add"

    def __str__(self) -> str:
        return f"connector {self.connector} is created with {counted(self.tasks, 'task')}"


@dataclass(frozen=True, slots=True)
class Resize:
    """A connector's number of tasks changes. ``affected``: numbers of its present tasks whose configuration
    changes; they stop everywhere before any of them starts again."""

    connector: str
    tasks: int
    affected: frozenset[int] = frozenset()
    option: ClassVar[str] = "--tasks-max"

    def __str__(self) -> str:
        return f"connector {self.connector} is changed to {counted(self.tasks, 'task')}"


@dataclass(frozen=True, slots=True)
class Delete:
    connector: str
    option: ClassVar[str] = "--delete"

    def __str__(self) -> str:
        return f"connector {self.connector} is deleted"


Change = Leave | Die | Vanish | Drain | Restart | Join | Add | Resize | Delete


def check(changes: Sequence[Change], view: View) -> None:
    """Raise ChangeError for the first change that cannot happen to the group of ``view``."""
    for problem in _problems(changes, view):
        raise ChangeError(problem)


def _problems(changes: Sequence[Change], view: View) -> Iterator[str]:
    identities = sorted({member.identity for member in view.members})
    for change in changes:
        match change:
            case Join(count) if not 1 <= count <= MOST_JOINERS:
                yield f"--join {count}: use a number from 1 to {MOST_JOINERS}"
            case Add(connector, tasks) if connector in view.tasks:
                yield (
                    f"--add {connector}: the connector already exists; use another name, or change its "
                    f"number of tasks with --tasks-max {connector}={tasks}"
                )
            case Add(connector, tasks) if not connector or tasks < 0:
                yield f"--add {connector}={tasks}: use NAME=TASKS with a number of at least 0"
            case Resize(connector, tasks) if tasks < 1:
                yield f"--tasks-max {connector}={tasks}: use a number of at least 1"
            case Restart(identity, after_ms) if after_ms < 0:
                yield f"--restart {identity}={after_ms / 1000:g}: use a number of seconds of at least 0"
        if isinstance(change, Resize | Delete) and change.connector not in view.tasks:
            known = ", ".join(sorted(view.tasks)) or "none"
            yield f"{change.option} {change.connector}: no such connector; " + hinted(
                change.connector, view.tasks, f"connectors are: {known}"
            )
        if isinstance(change, _OfMember) and change.identity not in identities:
            known = ", ".join(identities) or "none"
            yield f"{change.option} {change.identity}: no such member; members are: {known}"
    yield from _contradictions(changes)


def _contradictions(changes: Sequence[Change]) -> Iterator[str]:
    members = [change.identity for change in changes if isinstance(change, _OfMember)]
    connectors = [change.connector for change in changes if isinstance(change, Add | Resize | Delete)]
    for what, names in (("member", members), ("connector", connectors)):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"several options name the {what} {name}: use one of them"
