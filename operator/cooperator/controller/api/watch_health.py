"""Whether what the API lists reaches the handlers. Pure.

A process may answer its health probe while its watches are dead. So each list is compared with what the
handlers have received: a handler must see each listed object in that version or a later one before long.
"""

from typing import Final

Key = tuple[str, tuple[str, str]]
"""(kind, (namespace, name))."""

PATIENCE_S: Final = 90.0
"""Longer than a silent watch is kept before it is reopened (a bookmark comes every minute)."""


class WatchHealth:
    """Versions are resource versions, which grow; times are seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._heard: dict[Key, int] = {}
        self._awaited: dict[Key, tuple[int, float]] = {}

    def heard(self, key: Key, version: int) -> None:
        """A handler has received the object in this version."""
        self._heard[key] = max(version, self._heard.get(key, -1))
        if key in self._awaited and self._awaited[key][0] <= version:
            del self._awaited[key]

    def listed(self, key: Key, version: int, now_s: float) -> None:
        """The API lists the object in this version. A version that is awaited already stays the awaited one:
        an object that changes all the time would never be late otherwise."""
        if self._heard.get(key, -1) < version:
            self._awaited.setdefault(key, (version, now_s))

    def gone(self, key: Key) -> None:
        """The object does not exist any more."""
        self._heard.pop(key, None)
        self._awaited.pop(key, None)

    def late(self, now_s: float) -> Key | None:
        """The object whose event is overdue for longest, or None while all is well."""
        if not self._awaited:
            return None
        key, (_, since_s) = min(self._awaited.items(), key=lambda each: each[1][1])
        return key if now_s - since_s > PATIENCE_S else None
