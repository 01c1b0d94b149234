"""The config log: a snapshot that follows its topic."""

import logging
from collections.abc import Callable

from cooperator.logs.callbacks import call_all
from cooperator.logs.transport import Batch, TopicReader, Transport
from cooperator.model import ClusterConfig
from cooperator.wire import ConfigFold, RestartRecord, Unknown

logger = logging.getLogger(__name__)


class ConfigLog:
    """The state of the config topic; it is published only after the topic was read to its end once.

    Callbacks run on the reader's thread and must return soon; they must not wait for this log.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._topic = topic
        self._fold = ConfigFold()
        self._live = False
        self._snapshot = self._fold.snapshot()
        self._on_change: list[Callable[[ClusterConfig], None]] = []
        self._on_restart: list[Callable[[RestartRecord], None]] = []
        self._topic_reader: TopicReader = transport.topic_reader(topic, self)

    def snapshot(self) -> ClusterConfig:
        """Return the newest state; never blocks. Offset -1: nothing read yet."""
        return self._snapshot

    def read_to_end(self, timeout_ms: int) -> ClusterConfig:
        """Return the state with everything that was in the log at the time of the call.

        Raises LogTimeout, LogUnavailable.
        """
        self._topic_reader.read_to_end(timeout_ms)
        return self._snapshot

    def end(self, timeout_ms: int) -> int:
        """The offset after everything in the log, including aborted transactions, which readers of committed
        records do not count: no reader can be further. Raises LogUnavailable."""
        return self._topic_reader.end(timeout_ms)

    def read_to(self, offset: int, timeout_ms: int) -> ClusterConfig:
        """Return the state at ``offset`` (as returned by a write), or a later one. Raises LogTimeout.

        This is faster than ``read_to_end`` after the caller's own write.
        """
        self._topic_reader.read_to(offset, timeout_ms)
        return self._snapshot

    def on_change(self, callback: Callable[[ClusterConfig], None]) -> None:
        """Call ``callback`` with each newer state from now on."""
        self._on_change.append(callback)

    def on_restart(self, callback: Callable[[RestartRecord], None]) -> None:
        """Call ``callback`` with each restart request written from now on; older ones are ignored."""
        self._on_restart.append(callback)

    def close(self) -> None:
        self._topic_reader.close()

    # The topic reader calls these.

    def take(self, batch: Batch) -> None:
        restarts: list[RestartRecord] = []
        for offset, record in batch:
            decoded = self._fold.apply(record, offset)
            if isinstance(decoded, Unknown):
                logger.warning(
                    "%s: skipping record %d (%s): %s", self._topic, offset, record.key, decoded.reason
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
        # Keep the old state visible until the new one is complete: a partial one would look like deletions.
        self._fold = ConfigFold()
        self._live = False

    def _publish(self) -> None:
        snapshot = self._fold.snapshot()
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            call_all(self._on_change, snapshot)
