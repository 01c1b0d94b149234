"""The records that a shared reader delivers for one topic, and the progress of its follower."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import KafkaError, Message

from cooperator.logs.callbacks import SerialExecutor
from cooperator.logs.kafka.settings import error_text
from cooperator.logs.outages import Outages
from cooperator.logs.progress import Progress
from cooperator.logs.transport import Follower
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_OVERHEAD_BYTES: Final = 200
"""Approximate overhead of a message."""


class Subscription:
    """One topic for its ``Reader``, which owns the consumer and decides about it.

    The end of a partition is known from the broker's end-of-partition events, since a consumer's position
    does not count what transactions leave behind (markers, aborted records).
    """

    def __init__(self, topic: str, follower: Follower, outages: Outages, executor: SerialExecutor) -> None:
        self.topic: Final = topic
        self.progress: Final = Progress(topic)
        self.partitions: tuple[int, ...] = ()
        """The topic's partitions; the reader sets them, only while ``idle``."""
        self.broken = False
        """The follower has failed; everything read after that is void and must be read again."""
        self._follower = follower
        self._outages = outages
        self._executor = executor
        self._at_end: set[int] = set()

    # --- called by the reader; none of this blocks ----------------------------------------------------

    @property
    def idle(self) -> bool:
        """Everything that was dealt has been taken, and ``position`` is up to date."""
        return self._executor.idle

    def has_room(self, most: int, timeout_s: float) -> bool:
        """Return whether at most ``most`` bytes wait for the follower, now or within ``timeout_s``."""
        return self._executor.has_room(most, timeout_s)

    def position(self, partition: int) -> int | None:
        return self.progress.position(partition)

    def deal(self, messages: list[Message]) -> None:
        """Pass on the next records and end-of-partition events, in order."""
        weight = sum(len(message.value() or b"") + _OVERHEAD_BYTES for message in messages)
        self._executor.put(lambda: self._take(messages), weight)

    def start_over(self, error: KafkaError) -> None:
        """Read from the beginning: the broker lacks the next offset, so the topic is not the same one."""
        logger.warning("topic %s: reading from the beginning again: %s", self.topic, error_text(error))
        self._executor.put(self._start_over)

    def report(self, message: str, *, outage: bool = False) -> None:
        """See ``Outages.report``."""
        self._executor.put(lambda: self._outages.report(self.topic, message, outage=outage))

    def clear(self) -> None:
        """See ``Outages.clear``; it takes effect after earlier reports."""
        self._executor.put(lambda: self._outages.clear(self.topic))

    # --- one at a time, on a thread that may block ----------------------------------------------------

    def _take(self, messages: list[Message]) -> None:
        """Call the follower, then wake those that wait for the position: they must find its new state."""
        if self.broken:
            return
        batch: list[tuple[int, Record]] = []
        positions: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            if message.error() is None:
                batch.append((offset, _record(message)))
                positions[partition] = offset + 1
            else:
                positions[partition] = offset
                self._at_end.add(partition)
        with self._moving():
            if batch:
                self._follower.take(batch)
            for partition, position in positions.items():
                self.progress.reached(partition, position)
            if self._at_end.issuperset(self.partitions):
                self._follower.caught_up()
                self.progress.caught_up()

    def _start_over(self) -> None:
        with self._moving():
            self._at_end.clear()
            self.progress.start_over()
            self._follower.start_over()

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Mark this thread as the follower's: its callbacks cannot wait for their own progress."""
        self.progress.started(threading.current_thread())
        try:
            yield
        except Exception:
            logger.exception("the reader of topic %s retries after an error", self.topic)
            self.broken = True
        finally:
            self.progress.started(None)


def _record(message: Message) -> Record:
    key, value = message.key(), message.value()
    text = key if isinstance(key, str) else (key or b"").decode("utf-8", "replace")
    return Record(text, value.encode() if isinstance(value, str) else value)
