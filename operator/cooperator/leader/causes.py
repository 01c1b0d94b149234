"""The ids of the external events that caused a round. For people only; nothing is decided by them. Pure.

A caller that tells the leader of a change names the event behind it (``Pod/lake-1/4711``). The round that
follows is planned with that cause, and the planner notes it in the holds and moves that begin in it. A round
that ends a hold, minutes later or under another leader, therefore still knows which failure the hold began
with.
"""

import re
from collections.abc import Iterable
from typing import Final

from cooperator.model import Memory

HEARD_MS: Final = 10_000
"""Older events are not attributed to a rebalance."""
_EVENT: Final = re.compile(r"[A-Z]\w*/[^\s/,]+/\w+")
_MOST: Final = 4
_SEPARATOR: Final = ","


class Causes:
    """The causes that one leader knows."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}

    def hear(self, events: str, now_ms: int) -> None:
        """Note the events of a change reported to the leader; empty if unknown."""
        self._heard = {each: at for each, at in self._heard.items() if now_ms - at < HEARD_MS}
        self._heard.update(dict.fromkeys(ids(events), now_ms))

    def pending(self, now_ms: int) -> str:
        """Events that have not led to a round yet."""
        return joined(each for each, at in self._heard.items() if now_ms - at < HEARD_MS)

    def of_round(self, pending: str, before: Memory, after: Memory) -> str:
        """The events of a round between two memories: ``pending`` and the origins of its holds and moves.

        Only holds and moves that change in the round count.
        """
        ended = [
            hold.cause
            for identity, hold in before.holds.items()
            if (now := after.holds.get(identity)) is None or now.tasks != hold.tasks
        ]
        moved = [
            key.partition(":")[2] for key, tasks in before.moving.items() if after.moving.get(key) != tasks
        ]
        for each in ids(pending):
            self._heard.pop(each, None)
        return joined([*ids(pending), *(each for text in (*ended, *moved) for each in ids(text))])


def ids(text: str) -> list[str]:
    """The event ids in ``text``; none if it is a cause in words."""
    found = text.split(_SEPARATOR) if text else []
    return found if all(_EVENT.fullmatch(each) for each in found) else []


def joined(events: Iterable[str]) -> str:
    """Join events into one text without duplicates; only the first few, as every assignment carries them."""
    return _SEPARATOR.join(list(dict.fromkeys(events))[:_MOST])
