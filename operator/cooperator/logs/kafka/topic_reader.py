"""Follows one Kafka topic: processes what the shared reader delivers for it."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from cooperator.logs.errors import LogUnavailable
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.settings import error_text, result_of
from cooperator.logs.kafka.topics import ask_ends, count_partitions, remaining_s
from cooperator.logs.outages import Outages
from cooperator.logs.progress import Progress
from cooperator.logs.transport import Follower
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 0.1
_OVERHEAD_BYTES: Final = 200
"""Approximate overhead of a message."""


class KafkaTopicReader:
    """A TopicReader of all partitions of one topic.

    Its ``Reader`` owns the consumer and decides about it; this object tracks how far the follower has come.
    The end of a partition is known from the broker's end-of-partition events, since a consumer's position
    does not count what transactions leave behind (markers, aborted records).
    """

    def __init__(self, clients: Clients, topic: str, follower: Follower, outages: Outages) -> None:
        self.topic: Final = topic
        self.broken = False
        """The follower has failed; everything read after that is void and must be read again."""
        self._clients = clients
        self._follower = follower
        self._outages = outages
        self._partitions: tuple[int, ...] = ()
        self._at_end: set[int] = set()
        self._progress = Progress(topic)
        self._released = threading.Lock()
        self._shared = clients.acquire()
        self._executor = self._shared.callbacks.executor()
        self._reader = self._shared.follow(self)

    def read_to_end(self, timeout_ms: int) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        self._progress.wait(self._end_offsets(deadline), deadline)

    def end(self, timeout_ms: int) -> int:
        return self._end_offsets(time.monotonic() + timeout_ms / 1000)[0]

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self._progress.wait({0: offset}, time.monotonic() + timeout_ms / 1000)

    def close(self) -> None:
        self._executor.close()
        if self._released.acquire(blocking=False):
            self._shared.unfollow(self._reader, self)
            self._outages.clear(self.topic)
            self._clients.release(self._shared)

    def _end_offsets(self, deadline: float) -> dict[int, int]:
        """Return the offset after the last record of each partition, including open transactions.

        The reader gets there only when these have ended, so nothing written before the call is missed.
        """
        while True:
            admin = self._shared.admin()
            try:
                partitions = self._partitions or range(self._count_partitions(admin, deadline))
                answers = ask_ends(
                    admin,
                    [(self.topic, partition) for partition in partitions],
                    IsolationLevel.READ_UNCOMMITTED,
                    remaining_s(deadline),
                )
                return {partition: result_of(answer).offset for (_, partition), answer in answers.items()}
            except KafkaException as error:
                # A broker that has just started, or lost the topic's leadership, refuses at first.
                self._shared.renew_admin(admin)
                if time.monotonic() + _AGAIN_S > deadline:
                    # Another topic's reader may know of an outage before this one does.
                    outages = self._outages
                    detail = outages.of(self.topic) or outages.outage() or error_text(error)
                    raise LogUnavailable(f"topic {self.topic}: its end is unknown: {detail}") from error
            time.sleep(_AGAIN_S)

    def _count_partitions(self, admin: AdminClient, deadline: float) -> int:
        count = count_partitions(admin, self.topic, remaining_s(deadline))
        if count is None:
            raise LogUnavailable(f"topic {self.topic} does not exist yet")
        return count

    # --- called by the reader; none of this blocks ----------------------------------------------------

    @property
    def idle(self) -> bool:
        """Everything that was dealt has been taken, and ``position`` is up to date."""
        return self._executor.idle

    def has_room(self, most: int, timeout_s: float) -> bool:
        """Return whether at most ``most`` bytes wait for the follower, now or within ``timeout_s``."""
        return self._executor.has_room(most, timeout_s)

    def position(self, partition: int) -> int | None:
        return self._progress.position(partition)

    def reads(self, partitions: tuple[int, ...]) -> None:
        """Set the topic's partitions from now on; call this only while ``idle``."""
        self._partitions = partitions

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
                self._progress.reached(partition, position)
            if self._at_end.issuperset(self._partitions):
                self._follower.caught_up()
                self._progress.caught_up()

    def _start_over(self) -> None:
        with self._moving():
            self._at_end.clear()
            self._progress.start_over()
            self._follower.start_over()

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Mark this thread as the follower's: its callbacks cannot wait for their own progress."""
        self._progress.started(threading.current_thread())
        try:
            yield
        except Exception:
            logger.exception("the reader of topic %s retries after an error", self.topic)
            self.broken = True
        finally:
            self._progress.started(None)


def _record(message: Message) -> Record:
    key, value = message.key(), message.value()
    text = key if isinstance(key, str) else (key or b"").decode("utf-8", "replace")
    return Record(text, value.encode() if isinstance(value, str) else value)
