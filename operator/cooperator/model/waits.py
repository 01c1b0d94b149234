"""What a task waits for: from the part of it that waits to what users are shown."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cooperator.model.text import listed

_MOST: Final = 5
_NAMED: Final = 3
_LATEST_MS: Final = 253_402_300_799_000
"""The end of the year 9999: later moments cannot be written as dates."""


class Wait(NamedTuple):
    """Something that is waited for.

    ``text`` says what for, and the remedy where there is one. ``since_ms``: since the epoch, by the clock of
    the task's member. ``parts``: the units, or other parts of the task, that wait; empty for all of it.
    """

    text: str
    since_ms: int
    parts: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """The first parts, and how many more there are; empty for the whole task."""
        return listed(self.parts, _NAMED)


def grouped(waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """Returns one wait for each text, with its parts, the longest wait first."""
    found: dict[str, Wait] = {}
    for each in waits:
        known = found.setdefault(each.text, each)
        if known is not each:
            since_ms = min(known.since_ms, each.since_ms)
            found[each.text] = Wait(each.text, since_ms, (*known.parts, *each.parts))
    return tuple(sorted(found.values(), key=lambda each: (each.since_ms, each.text)))


def written(waits: Sequence[Wait]) -> list[dict[str, Any]]:
    """Returns the first waits for a report in JSON."""
    return [
        {"for": each.text, "since_ms": each.since_ms, "parts": list(each.parts)} for each in waits[:_MOST]
    ]


def read(report: Mapping[str, Any]) -> tuple[Wait, ...]:
    """Returns the waits of a report; what is none is left out."""
    entries = report.get("waits")
    if not isinstance(entries, list):
        return ()
    found = [_read(each) for each in entries[:_MOST] if isinstance(each, Mapping)]
    return tuple(each for each in found if each is not None)


def _read(entry: Mapping[str, Any]) -> Wait | None:
    text, since_ms, parts = entry.get("for"), entry.get("since_ms"), entry.get("parts", [])
    if not isinstance(text, str) or not text:
        return None
    if not isinstance(since_ms, int) or not 0 <= since_ms <= _LATEST_MS or not isinstance(parts, list):
        return None
    return Wait(text, since_ms, tuple(part for part in parts if isinstance(part, str)))


def names_a_wait(progress: str) -> bool:
    """Whether a task's progress, a report in JSON, names something that it waits for."""
    try:
        report = json.loads(progress)
    except (ValueError, RecursionError):
        return False
    return isinstance(report, dict) and bool(read(report))
