"""A group at one moment, as a value and as a file: the starting point of a "what if" question.

The file is JSON: the fields of ``Snapshot`` and of the values in it, by name. A task is
``["connector", number]`` (-1: the instance), an epoch ``[term, generation]``, a set a sorted list; times are
milliseconds since the epoch. New fields do not change the version; a reader ignores fields it does not know.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from cooperator.model import Kip415Memory, Memory
from cooperator.planner import View

FORMAT: Final = "cooperator-plan/1"


class SnapshotError(ValueError):
    """A file that is not a snapshot; the message names the field and the remedy."""


class LedBy(StrEnum):
    """The kind of leader, whose rules and knowledge decide."""

    OPERATOR = "operator"
    """The operator, whose host tells it which members come, go and have ended."""
    MEMBER = "member"
    """One of cooperator's members, while the operator is away: it plans the same way, without facts from a
    host."""
    STOCK = "stock"
    """A Kafka Connect worker."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``view`` and ``memory``: the leader's inputs for a round at this moment.

    ``units``: per connector whose tasks name their units, the units of task 0, 1, …; ``classes``: per
    connector its class, where known. ``notes``: what could not be observed.
    """

    group: str
    led_by: LedBy
    view: View
    memory: Memory = field(default_factory=Memory)
    units: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def fresh_memory(view: View) -> Memory:
    """Return a leader's memory of a group at rest in the state of ``view``: everything that runs was
    assigned."""
    return Memory(
        generation=view.generation,
        given={member.identity: frozenset(member.owned) for member in view.members},
        incarnations={member.identity: member.incarnation for member in view.members},
        kip415=Kip415Memory(
            previous_generation=view.generation,
            previous_members=tuple(member.member_id for member in view.members),
            previous_assignment=frozenset(task for member in view.members for task in member.owned),
        ),
    )


_ADAPTER: Final = TypeAdapter(Snapshot)


def to_json(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON; equal snapshots give equal texts."""
    return json.dumps({"format": FORMAT, **_plain(snapshot)}, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str, source: str) -> Snapshot:
    """Parse a snapshot. ``source``: the name of the file, for errors. Raises SnapshotError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SnapshotError(
            f"{source}: not valid JSON: {error}; write it with `cooperator plan --save`"
        ) from None
    written = value.get("format") if isinstance(value, dict) else None
    if written != FORMAT:
        raise SnapshotError(
            f"{source}: format is {written!r}, not {FORMAT!r}; write it with `cooperator plan --save`"
        )
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SnapshotError(
            f"{source}: {where}: {first['msg']}; write it with `cooperator plan --save`"
        ) from None


def _plain(value: Any) -> Any:
    match value:
        case StrEnum():
            return value.value
        case tuple():
            return [_plain(each) for each in value]
        case frozenset():
            return [_plain(each) for each in sorted(value)]
        case Mapping():
            return {name: _plain(value[name]) for name in sorted(value)}
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value
