"""Tracks how far a reader has come, and waits for it."""

import threading
import time
from collections.abc import Mapping

from cooperator.logs.errors import LogTimeout


class Progress:
    """Positions by partition: the offset before which everything has been processed. Thread-safe."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._condition = threading.Condition()
        self._positions: dict[int, int] = {}
        self._caught_up = False
        self._reader: threading.Thread | None = None

    def started(self, reader: threading.Thread | None) -> None:
        """Set the thread that moves the positions, and so must not wait for them; None: no thread does."""
        self._reader = reader

    def reached(self, partition: int, offset: int) -> None:
        with self._condition:
            if offset > self._positions.get(partition, -1):
                self._positions[partition] = offset
                self._condition.notify_all()

    def caught_up(self) -> None:
        """Record that the initial content has been processed; until then, every ``wait`` blocks."""
        with self._condition:
            self._caught_up = True
            self._condition.notify_all()

    def position(self, partition: int) -> int | None:
        with self._condition:
            return self._positions.get(partition)

    def start_over(self) -> None:
        with self._condition:
            self._positions.clear()
            self._caught_up = False

    def wait(self, ends: Mapping[int, int], deadline: float) -> None:
        """Return when every partition has reached its end in ``ends``.

        ``deadline``: by ``time.monotonic``. Raises LogTimeout, and RuntimeError on the reader's own thread.
        """
        if threading.current_thread() is self._reader:
            raise RuntimeError(f"topic {self._topic}: a callback of its reader cannot wait for the reader")
        with self._condition:
            timeout_s = max(0.0, deadline - time.monotonic())
            if not self._condition.wait_for(lambda: self._is_past(ends), timeout_s):
                read = {partition: self._positions.get(partition, 0) for partition in ends}
                raise LogTimeout(f"topic {self._topic}: only read up to {read} in time, not to {dict(ends)}")

    def _is_past(self, ends: Mapping[int, int]) -> bool:
        return self._caught_up and all(
            self._positions.get(partition, 0) >= end for partition, end in ends.items()
        )
