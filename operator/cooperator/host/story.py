"""Events line by line, and which of them belong to the story of one task or member. Pure.

The callers supply the lines: of a cluster's objects and Kafka's logs (``cli.kubectl``), or of a simulated
world (``tests/simulation``).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from cooperator.model import INSTANCE, TaskId

WORLD: Final = "-"
"""The source of events seen from outside."""
PLAN: Final = "plan"
"""The source of the leaders' reasons to assign, revoke and hold tasks."""


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """``who``: a member's name, ``WORLD`` or ``PLAN``.

    ``subjects``: the tasks and members that ``what`` is about; empty: everything of ``who``.
    """

    at_ms: int
    who: str
    what: str
    subjects: frozenset[str] = frozenset()


def task_named(name: str, instances: Collection[str] = ()) -> TaskId:
    """Parse a name: ``a`` is the instance of connector a, ``a-0`` its first task.

    ``instances``: known connectors, whose own names may end in a number.
    """
    connector, dash, number = name.rpartition("-")
    if name in instances or not (dash and number.isdecimal()):
        return TaskId(name, INSTANCE)
    return TaskId(connector, int(number))


def in_order(events: Iterable[StoryEvent], subject: str | None = None) -> list[StoryEvent]:
    """The lines by time: all of them, or those that concern ``subject``, a task or a member.

    A ``WORLD`` event without subjects concerns everybody; a task's story includes that of every member that
    ever had it.
    """
    lines = sorted(events, key=lambda line: line.at_ms)
    if subject is None:
        return lines
    involved = {line.who for line in lines if subject in line.subjects} - {WORLD, PLAN}
    return [line for line in lines if _concerns(line, subject, involved)]


def _concerns(line: StoryEvent, subject: str, involved: Collection[str]) -> bool:
    if subject in line.subjects:
        return True
    if line.who in (WORLD, PLAN):
        return line.who == WORLD and not line.subjects
    is_member = line.who == subject or line.who.startswith(f"{subject}-")
    return is_member or (line.who in involved and not line.subjects)
