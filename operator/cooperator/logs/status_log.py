"""The status log: what members say of what they run."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from cooperator.logs.callbacks import call_all
from cooperator.logs.transport import Batch, Tail, Transport
from cooperator.model import TaskId, TaskStatus
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
    """Reads and writes the status topic. It is read from the first use of a reading method on.

    Callbacks run on the reader's thread and must return soon; they may not wait for this log.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._transport = transport
        self._topic = topic
        self._outlet = transport.outlet(topic)
        self._statuses: dict[TaskId, TaskStatus] = {}
        self._snapshot: Mapping[TaskId, TaskStatus] | None = {}
        self._on_change: list[Callable[[TaskStatus], None]] = []
        self._lock = threading.Lock()
        self._tail: Tail | None = None

    def put(self, status: TaskStatus) -> None:
        """Write as soon as possible; never blocks. Of each task at least the newest status arrives.

        A very long trace or progress is cut in its middle.
        """
        fitting = replace(status, trace=_cut(status.trace), progress=_cut(status.progress))
        self._outlet.send(encode_status(fitting))

    def tombstone(self, task: TaskId) -> None:
        """Forget the task's status; as ``put``."""
        self._outlet.send(encode_status_tombstone(task))

    def flush(self, timeout_ms: int) -> None:
        """Return when everything put before is written. Raises LogTimeout."""
        self._outlet.flush(timeout_ms)

    def snapshot(self) -> Mapping[TaskId, TaskStatus]:
        """The newest status of each task, as far as read; never waits for the broker."""
        self._reading()
        with self._lock:
            if self._snapshot is None:
                self._snapshot = dict(self._statuses)
            return self._snapshot

    def read_to_end(self, timeout_ms: int) -> Mapping[TaskId, TaskStatus]:
        """The statuses with all that was in the log at the time of the call.

        Raises LogTimeout, LogUnavailable.
        """
        self._reading().read_to_end(timeout_ms)
        return self.snapshot()

    def on_change(self, callback: Callable[[TaskStatus], None]) -> None:
        """Call with each status read from now on that changes something (not with tombstones)."""
        self._on_change.append(callback)
        self._reading()

    def close(self, timeout_ms: int = 5_000) -> None:
        """Write what is still to be written as far as the time allows, and stop."""
        self._outlet.close(timeout_ms)
        with self._lock:
            tail = self._tail
        if tail is not None:
            tail.close()

    def _reading(self) -> Tail:
        with self._lock:
            if self._tail is None:
                self._tail = self._transport.tail(self._topic, self)
            return self._tail

    # What follows is called by the tail.

    def take(self, batch: Batch) -> None:
        changed: list[TaskStatus] = []
        with self._lock:
            for offset, record in batch:
                try:
                    entry = decode_status(record)
                except DecodeError as error:
                    logger.warning("%s: record %d is passed over: %s", self._topic, offset, error)
                    continue
                if apply_status(self._statuses, entry):
                    self._snapshot = None
                    if isinstance(entry, TaskStatus):
                        changed.append(entry)
                elif isinstance(entry, Unknown):
                    logger.debug("%s: record %d (%s) is passed over", self._topic, offset, entry.key)
        for status in changed:
            call_all(self._on_change, status)

    def caught_up(self) -> None:
        """Nothing to do: a status stands for itself."""

    def start_over(self) -> None:
        with self._lock:
            self._statuses = {}
            self._snapshot = None


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
