"""Following a Kafka topic: what a tail makes of what its reader has for it."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient

from cooperator.logs.errors import LogUnavailable
from cooperator.logs.kafka_clients import Clients
from cooperator.logs.kafka_settings import error_text, result_of
from cooperator.logs.kafka_topics import ask_ends, count_partitions, remaining_s
from cooperator.logs.progress import Progress
from cooperator.logs.transport import Follower
from cooperator.logs.trouble import Troubles
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 0.1
_OVERHEAD_BYTES: Final = 200
"""Of a message, roughly."""


class KafkaTail:
    """A Tail of one topic, all partitions of it.

    The consumer is its ``Reader``'s, as are the decisions about it; here is how far the follower has come.
    The end of a partition is known from the broker's end-of-partition events, since a consumer's position
    does not count what transactions leave behind (markers, aborted records).
    """

    def __init__(self, clients: Clients, topic: str, follower: Follower, troubles: Troubles) -> None:
        self.topic: Final = topic
        self.broken = False
        """The follower has failed, and what was read after that is void: it is to be read again."""
        self._clients = clients
        self._follower = follower
        self._troubles = troubles
        self._partitions: tuple[int, ...] = ()
        self._at_end: set[int] = set()
        self._progress = Progress(topic)
        self._released = threading.Lock()
        self._shared = clients.acquire()
        self._lane = self._shared.deliveries.lane()
        self._reader = self._shared.follow(self)

    def read_to_end(self, timeout_ms: int) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        self._progress.wait(self._end_offsets(deadline), deadline)

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self._progress.wait({0: offset}, time.monotonic() + timeout_ms / 1000)

    def close(self) -> None:
        self._lane.close()
        if self._released.acquire(blocking=False):
            self._shared.unfollow(self._reader, self)
            self._troubles.clear(self.topic)
            self._clients.release(self._shared)

    def _end_offsets(self, deadline: float) -> dict[int, int]:
        """The offset after the last record of each partition, those of open transactions included.

        The reader comes there only when these have ended, so nothing written before the call is missed.
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
                # A broker that has just started, or given the topic away, refuses at first.
                self._shared.renew_admin(admin)
                if time.monotonic() + _AGAIN_S > deadline:
                    # Another topic's reader may know of an outage before this one does.
                    troubles = self._troubles
                    detail = troubles.of(self.topic) or troubles.outage() or error_text(error)
                    raise LogUnavailable(f"topic {self.topic}: its end is not known: {detail}") from error
            time.sleep(_AGAIN_S)

    def _count_partitions(self, admin: AdminClient, deadline: float) -> int:
        count = count_partitions(admin, self.topic, remaining_s(deadline))
        if count is None:
            raise LogUnavailable(f"topic {self.topic} does not exist (yet)")
        return count

    # --- what the reader says; nothing of it waits ----------------------------------------------------

    @property
    def idle(self) -> bool:
        """All that was dealt has been taken, and ``position`` tells how far that was."""
        return self._lane.idle

    def has_room(self, most: int, timeout_s: float) -> bool:
        """Whether at most so many bytes wait for the follower, now or within ``timeout_s``."""
        return self._lane.has_room(most, timeout_s)

    def position(self, partition: int) -> int | None:
        return self._progress.position(partition)

    def reads(self, partitions: tuple[int, ...]) -> None:
        """All partitions of the topic, from now on; only while it is idle."""
        self._partitions = partitions

    def deal(self, messages: list[Message]) -> None:
        """The next records and ends of partitions, in order."""
        weight = sum(len(message.value() or b"") + _OVERHEAD_BYTES for message in messages)
        self._lane.put(lambda: self._take(messages), weight)

    def start_over(self, error: KafkaError) -> None:
        """The broker does not have the offset that was to be read next: the topic is not the one it was."""
        logger.warning("topic %s is read from its beginning again: %s", self.topic, error_text(error))
        self._lane.put(self._start_over)

    def report(self, message: str, *, outage: bool = False) -> None:
        """See ``Troubles.report``."""
        self._lane.put(lambda: self._troubles.report(self.topic, message, outage=outage))

    def clear(self) -> None:
        """See ``Troubles.clear``; it comes after what was reported before."""
        self._lane.put(lambda: self._troubles.clear(self.topic))

    # --- one at a time, on a thread that may wait -----------------------------------------------------

    def _take(self, messages: list[Message]) -> None:
        """The follower first, then whoever waits for the position: it must find what it waited for."""
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
        """For the follower, whose callbacks cannot wait for themselves."""
        self._progress.started(threading.current_thread())
        try:
            yield
        except Exception:
            logger.exception("the reader of topic %s reads the same again after an error", self.topic)
            self.broken = True
        finally:
            self._progress.started(None)


def _record(message: Message) -> Record:
    key, value = message.key(), message.value()
    text = key if isinstance(key, str) else (key or b"").decode("utf-8", "replace")
    return Record(text, value.encode() if isinstance(value, str) else value)
