"""The config log as a value that follows its topic."""

import logging
from collections.abc import Callable

from cooperator.logs.callbacks import call_all
from cooperator.logs.transport import Batch, Tail, Transport
from cooperator.model import ClusterConfig
from cooperator.wire import ConfigFold, RestartRecord, Unknown

logger = logging.getLogger(__name__)


class ConfigLog:
    """What the config topic says, always as of a moment at which it had been read to its end once.

    Callbacks run on the reader's thread and must return soon; they may not wait for this log.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._topic = topic
        self._fold = ConfigFold()
        self._live = False
        self._snapshot = self._fold.snapshot()
        self._on_change: list[Callable[[ClusterConfig], None]] = []
        self._on_restart: list[Callable[[RestartRecord], None]] = []
        self._tail: Tail = transport.tail(topic, self)

    def snapshot(self) -> ClusterConfig:
        """The newest state; never blocks. Offset -1: nothing read yet."""
        return self._snapshot

    def read_to_end(self, timeout_ms: int) -> ClusterConfig:
        """The state with all that was in the log at the time of the call.

        Raises LogTimeout, LogUnavailable.
        """
        self._tail.read_to_end(timeout_ms)
        return self._snapshot

    def read_to(self, offset: int, timeout_ms: int) -> ClusterConfig:
        """The state at ``offset`` (as returned by a write), or a later one. Raises LogTimeout.

        Faster than ``read_to_end`` after an own write.
        """
        self._tail.read_to(offset, timeout_ms)
        return self._snapshot

    def on_change(self, callback: Callable[[ClusterConfig], None]) -> None:
        """Call with each newer state from now on."""
        self._on_change.append(callback)

    def on_restart(self, callback: Callable[[RestartRecord], None]) -> None:
        """Call with each restart request that is written from now on; older ones are history."""
        self._on_restart.append(callback)

    def close(self) -> None:
        self._tail.close()

    # What follows is called by the tail.

    def take(self, batch: Batch) -> None:
        restarts: list[RestartRecord] = []
        for offset, record in batch:
            decoded = self._fold.apply(record, offset)
            if isinstance(decoded, Unknown):
                logger.warning(
                    "%s: record %d (%s) is passed over: %s", self._topic, offset, record.key, decoded.reason
                )
            elif isinstance(decoded, RestartRecord):
                restarts.append(decoded)
        if self._live:
            self._publish()
            for restart in restarts:
                call_all(self._on_restart, restart)

    def caught_up(self) -> None:
        if not self._live:
            self._live = True
            self._publish()

    def start_over(self) -> None:
        # The old state is shown until the new one is complete: half a state would look like deletions.
        self._fold = ConfigFold()
        self._live = False

    def _publish(self) -> None:
        snapshot = self._fold.snapshot()
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            call_all(self._on_change, snapshot)
