"""Which events of the world a round goes back to, by their ids: told to people, decided by nobody. Pure.

Whoever tells the leader of a change says by which event (``Pod/lake-1/4711``). The round that follows is
planned with that as its cause, which the planner notes in the holds and moves that begin in it. So a round
that ends a hold, minutes later or under another leader, still knows by which death it had begun.
"""

import re
from collections.abc import Iterable
from typing import Final

from cooperator.model import Memory

HEARD_MS: Final = 10_000
"""What has led to no round for so long is no cause of the next one."""
_EVENT: Final = re.compile(r"[A-Z]\w*/[^\s/,]+/\w+")
_MOST: Final = 4
_SEPARATOR: Final = ","


class Causes:
    """Of one leader."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}

    def hear(self, events: str, now_ms: int) -> None:
        """Something was told to the leader; ``events``: by which, empty if nobody knows."""
        self._heard.update(dict.fromkeys(ids(events), now_ms))

    def pending(self, now_ms: int) -> str:
        """Events that have led to no round yet."""
        self._heard = {each: at for each, at in self._heard.items() if now_ms - at < HEARD_MS}
        return joined(self._heard)

    def of_round(self, pending: str, before: Memory, after: Memory) -> str:
        """The events of a round with these ``pending`` ones, between two memories: also those by which the
        holds and moves had begun that go on in it."""
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
    """The events that ``text`` names, which may also be a cause in words: then none."""
    found = text.split(_SEPARATOR) if text else []
    return found if all(_EVENT.fullmatch(each) for each in found) else []


def joined(events: Iterable[str]) -> str:
    """As one text, each once; of many the first, since they travel with every share."""
    return _SEPARATOR.join(list(dict.fromkeys(events))[:_MOST])
