"""The current outages of the logs, each reported once."""

import threading
from collections.abc import Callable

from cooperator.logs.callbacks import call_all

OnOutage = Callable[[str], None]
"""Called from any thread with the current outage whenever it changes; with "" once there is none."""


class Outages:
    """Combines the outages of several clients into the one that is reported: the oldest that persists."""

    def __init__(self, on_outage: OnOutage | None = None) -> None:
        self._callbacks = [] if on_outage is None else [on_outage]
        self._current: dict[str, str] = {}
        self._outages: dict[str, str] = {}
        self._reported = ""
        self._lock = threading.Lock()

    def report(self, source: str, message: str, *, outage: bool = False) -> None:
        """Record a problem of ``source``. ``outage``: the broker is away, which affects all sources."""
        self._set(source, message, outage)

    def clear(self, source: str) -> None:
        """Clear the problem of ``source``."""
        self._set(source, None, False)

    def of(self, source: str) -> str | None:
        """Return the problem of ``source``; None if it has none."""
        with self._lock:
            return self._current.get(source)

    def outage(self) -> str | None:
        """Return the first report that the broker is away; None if no source reports that."""
        with self._lock:
            return next(iter(self._outages.values()), None)

    def _set(self, source: str, message: str | None, outage: bool) -> None:
        # Callbacks run under the lock, so that the last report is the newest.
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
            if first != self._reported:
                self._reported = first
                call_all(self._callbacks, first)
