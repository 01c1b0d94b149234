"""The status log: the members' statuses of what they run."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from cooperator.logs.callbacks import call_all
from cooperator.logs.transport import Batch, TopicReader, Transport
from cooperator.model import TaskId, TaskStatus
from cooperator.model.trace import trimmed
from cooperator.wire import (
    DecodeError,
    Unknown,
    apply_status,
    decode_status,
    encode_status,
    encode_status_tombstone,
)

logger = logging.getLogger(__name__)

_MAX_TEXT: Final = 32_768  # characters of a trace or a progress: a record must fit the broker's limit


class StatusLog:
    """Reads and writes the status topic. Reading begins with the first use of a reading method.

    Callbacks run on the reader's thread and must return soon; they must not wait for this log.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._transport = transport
        self._topic = topic
        self._topic_writer = transport.topic_writer(topic)
        self._statuses: dict[TaskId, TaskStatus] = {}
        self._snapshot: Mapping[TaskId, TaskStatus] | None = {}
        self._on_change: list[Callable[[TaskStatus], None]] = []
        self._lock = threading.Lock()
        self._topic_reader: TopicReader | None = None

    def put(self, status: TaskStatus) -> None:
        """Write as soon as possible; never blocks. At least the newest status of each task arrives.

        A very long trace or progress loses its middle.
        """
        trace, progress = (trimmed(text, _MAX_TEXT) for text in (status.trace, status.progress))
        self._topic_writer.send(encode_status(replace(status, trace=trace, progress=progress)))

    def tombstone(self, task: TaskId) -> None:
        """Delete the task's status; written like ``put``."""
        self._topic_writer.send(encode_status_tombstone(task))

    def flush(self, timeout_ms: int) -> None:
        """Return when everything put before is written. Raises LogTimeout."""
        self._topic_writer.flush(timeout_ms)

    def snapshot(self) -> Mapping[TaskId, TaskStatus]:
        """Return the newest status of each task, as far as read; never waits for the broker."""
        self._reading()
        with self._lock:
            if self._snapshot is None:
                self._snapshot = dict(self._statuses)
            return self._snapshot

    def read_to_end(self, timeout_ms: int) -> Mapping[TaskId, TaskStatus]:
        """Return the statuses with everything that was in the log at the time of the call.

        Raises LogTimeout, LogUnavailable.
        """
        self._reading().read_to_end(timeout_ms)
        return self.snapshot()

    def on_change(self, callback: Callable[[TaskStatus], None]) -> None:
        """Call ``callback`` with each status read from now on that changes something (no tombstones)."""
        self._on_change.append(callback)
        self._reading()

    def close(self, timeout_ms: int = 5_000) -> None:
        """Write pending records as far as the time allows, and stop."""
        self._topic_writer.close(timeout_ms)
        with self._lock:
            topic_reader = self._topic_reader
        if topic_reader is not None:
            topic_reader.close()

    def _reading(self) -> TopicReader:
        with self._lock:
            if self._topic_reader is None:
                self._topic_reader = self._transport.topic_reader(self._topic, self)
            return self._topic_reader

    # The topic reader calls these.

    def take(self, batch: Batch) -> None:
        changed: list[TaskStatus] = []
        with self._lock:
            for offset, record in batch:
                try:
                    entry = decode_status(record)
                except DecodeError as error:
                    logger.warning("%s: skipping record %d: %s", self._topic, offset, error)
                    continue
                if apply_status(self._statuses, entry):
                    self._snapshot = None
                    if isinstance(entry, TaskStatus):
                        changed.append(entry)
                elif isinstance(entry, Unknown):
                    logger.debug("%s: skipping record %d (%s)", self._topic, offset, entry.key)
        for status in changed:
            call_all(self._on_change, status)

    def caught_up(self) -> None:
        """Do nothing: each status is valid by itself."""

    def start_over(self) -> None:
        with self._lock:
            self._statuses = {}
            self._snapshot = None
