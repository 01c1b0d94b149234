"""What is wrong with the logs now, said once to whoever shows it."""

import threading
from collections.abc import Callable

from cooperator.logs.callbacks import call_all

OnTrouble = Callable[[str], None]
"""Called from any thread with what is wrong, when that changes; with "" when nothing is any more."""


class Troubles:
    """Gathers the troubles of several clients into the one that is told: the oldest that goes on."""

    def __init__(self, on_trouble: OnTrouble | None = None) -> None:
        self._callbacks = [] if on_trouble is None else [on_trouble]
        self._current: dict[str, str] = {}
        self._outages: dict[str, str] = {}
        self._told = ""
        self._lock = threading.Lock()

    def report(self, source: str, message: str, *, outage: bool = False) -> None:
        """``source`` has this trouble from now on. ``outage``: it is everybody's, the broker is away."""
        self._set(source, message, outage)

    def clear(self, source: str) -> None:
        """``source`` has no trouble any more."""
        self._set(source, None, False)

    def of(self, source: str) -> str | None:
        """The source's trouble."""
        with self._lock:
            return self._current.get(source)

    def outage(self) -> str | None:
        """That the broker is away, in the words of whoever noticed first; None when nobody says so."""
        with self._lock:
            return next(iter(self._outages.values()), None)

    def _set(self, source: str, message: str | None, outage: bool) -> None:
        # Told under the lock: the last word must be the newest.
        with self._lock:
            if message is not None and outage:
                self._outages[source] = message
            else:
                self._outages.pop(source, None)
            if message is None:
                self._current.pop(source, None)
            else:
                self._current[source] = message
            first = next(iter(self._current.values()), "")
            if first != self._told:
                self._told = first
                call_all(self._callbacks, first)
