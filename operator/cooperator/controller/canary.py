"""Whether what the API lists reaches the handlers. Pure.

A process may answer whoever asks for its health while its watches are dead. So each list is compared with
what handlers were told of: what is listed has to be heard of in that state, or in a later one, before long.
"""

from typing import Final

Key = tuple[str, tuple[str, str]]
"""Kind, and (namespace, name)."""

PATIENCE_S: Final = 90.0
"""Longer than a silent watch is kept before it is opened anew (a bookmark comes every minute)."""


class Canary:
    """Versions are resource versions, which grow; times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._heard: dict[Key, int] = {}
        self._awaited: dict[Key, tuple[int, float]] = {}

    def heard(self, key: Key, version: int) -> None:
        """A handler was told of the object in that state."""
        self._heard[key] = max(version, self._heard.get(key, -1))
        if key in self._awaited and self._awaited[key][0] <= version:
            del self._awaited[key]

    def listed(self, key: Key, version: int, now_s: float) -> None:
        """The API has the object in that state. What is awaited already is awaited as it was then: an object
        that changes all the time would never be late otherwise."""
        if self._heard.get(key, -1) < version:
            self._awaited.setdefault(key, (version, now_s))

    def gone(self, key: Key) -> None:
        """There is no such object any more."""
        self._heard.pop(key, None)
        self._awaited.pop(key, None)

    def late(self, now_s: float) -> Key | None:
        """What handlers should have heard of and have not, the longest; None when all is well."""
        if not self._awaited:
            return None
        key, (_, since_s) = min(self._awaited.items(), key=lambda each: each[1][1])
        return key if now_s - since_s > PATIENCE_S else None
