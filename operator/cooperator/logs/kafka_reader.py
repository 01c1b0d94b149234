"""One consumer for the topics of many groups: one thread, which outlives every trouble of the broker."""

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)

from cooperator.logs.kafka_settings import error_text, result_of

if TYPE_CHECKING:
    from cooperator.logs.kafka_clients import Shared
    from cooperator.logs.kafka_tail import KafkaTail

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_QUICK_POLL_S: Final = 0.01
_RETRY_S: Final = 1.0
_METADATA_TIMEOUT_S: Final = 3.0
_WARM_S: Final = 1.0
_BATCH: Final = 1_000
_BACKLOG_BYTES: Final = 4 * 2**20
_PATIENCE_S: Final = 0.25

# Single connections come and go; when none is left, the library says so, but not why.
_SINGLE_CONNECTION: Final = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT})
# A reader of assigned partitions needs no group coordinator.
_GROUP_ONLY: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})


@dataclass(eq=False)
class _Asked:
    """A question for a topic that is on its way. ``doubts``: what it can settle. ``admin``: whom was asked;
    without it there would be no answer."""

    answer: "Future[Any]"
    doubts: int
    admin: object = field(repr=False)


@dataclass(eq=False)
class _Topic:
    """A topic as the reader's thread knows it."""

    tail: "KafkaTail"
    partitions: tuple[int, ...] = ()
    assigned: bool = False
    paused: bool = False
    doubts: int = 0
    """How often it became doubtful whether the broker answers."""
    settled: int = 0
    asked: _Asked | None = None
    not_before: float = 0.0

    def places(self) -> list[TopicPartition]:
        return [TopicPartition(self.tail.topic, partition) for partition in self.partitions]


class Reader:
    """Reads the topics of its tails, each from where its tail is; a tail has all news from here.

    Only the reader's own thread touches the consumer, and it calls nothing that is not the library's or this
    room's: what a tail does with its news is done elsewhere (``Deliveries``). A topic that is missing,
    refused or slowly taken is left out, asked for again, or paused, while the others are read on.
    """

    def __init__(self, shared: "Shared", group_id: str) -> None:
        self._shared = shared
        self._group_id = group_id
        self._tails: dict[str, KafkaTail] = {}
        self._topics: dict[str, _Topic] = {}
        self._detail = ""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        name = f"reader of {shared.access.bootstrap_servers}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._tails

    def follows(self, topic: str) -> bool:
        with self._lock:
            return topic in self._tails

    def add(self, tail: "KafkaTail") -> None:
        with self._lock:
            self._tails[tail.topic] = tail

    def remove(self, tail: "KafkaTail") -> None:
        with self._lock:
            del self._tails[tail.topic]

    def close(self) -> None:
        """When this returns the consumer is closed; it waits for the library only."""
        self._closing.set()
        self._thread.join()

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        consumer: Consumer | None = None
        while not self._closing.is_set():
            try:
                if consumer is None:
                    self._come_and_go(None)
                    consumer = self._shared.access.consumer(self._group_id, self._on_error)
                self._step(consumer)
                continue
            except KafkaException as error:
                for topic in self._topics.values():
                    self._say(topic, error.args[0])
            except Exception:
                logger.exception("the %s begins again after an error", self._thread.name)
            # Another one reads on from what the tails have taken.
            if consumer is not None:
                consumer.close()
                consumer = None
            for topic in self._topics.values():
                topic.assigned = topic.paused = False
            self._closing.wait(_RETRY_S)
        if consumer is not None:
            consumer.close()
        self._topics.clear()  # with the questions on their way, which keep their admin client

    def _step(self, consumer: Consumer) -> None:
        self._come_and_go(consumer)
        self._ask()
        self._hear(consumer)
        asking = any(topic.asked is not None for topic in self._topics.values())
        message = consumer.poll(_QUICK_POLL_S if asking else _POLL_S)
        if message is not None:
            self._deal(consumer, [message, *consumer.consume(_BATCH, timeout=0)])
        self._resume(consumer)
        self._shared.deliveries.watch()

    def _come_and_go(self, consumer: Consumer | None) -> None:
        with self._lock:
            wanted = dict(self._tails)
        for name, topic in list(self._topics.items()):
            if wanted.get(name) is not topic.tail:
                if consumer is not None:
                    self._unassign(consumer, topic)
                del self._topics[name]
        for name, tail in wanted.items():
            if name not in self._topics:
                self._topics[name] = _Topic(tail)
        if consumer is not None:
            for topic in self._topics.values():
                if topic.tail.broken and topic.tail.idle:
                    self._unassign(consumer, topic)
                    topic.tail.broken = False
                    topic.not_before = time.monotonic() + _RETRY_S

    def _ask(self) -> None:
        """For the topics that are to be read, and for those that are read from a broker in doubt."""
        now = time.monotonic()
        asking = [
            topic
            for topic in self._topics.values()
            if topic.asked is None
            and topic.not_before <= now
            and (topic.tail.idle if not topic.assigned else topic.doubts > topic.settled)
        ]
        if asking:
            admin = self._shared.admin()
            answers = admin.describe_topics(
                TopicCollection([topic.tail.topic for topic in asking]), request_timeout=_METADATA_TIMEOUT_S
            )
            for topic in asking:
                topic.asked = _Asked(answers[topic.tail.topic], topic.doubts, admin)

    def _hear(self, consumer: Consumer) -> None:
        for topic in self._topics.values():
            asked = topic.asked
            if asked is None or not asked.answer.done():
                continue
            topic.asked = None
            try:
                partitions = tuple(sorted(each.id for each in result_of(asked.answer).partitions))
            except KafkaException as error:
                self._refuse(topic, error.args[0])
                continue
            topic.settled = asked.doubts
            if topic.assigned and topic.partitions != partitions:
                self._unassign(consumer, topic)
            if not topic.assigned and topic.tail.idle:
                try:
                    # A consumer looks for the leaders of what it does not know once a second only.
                    consumer.list_topics(topic.tail.topic, timeout=_WARM_S)
                except KafkaException as error:
                    self._refuse(topic, error.args[0])
                    return  # The others can wait until there was a look at what has come.
                self._assign(consumer, topic, partitions)
            if topic.assigned and topic.settled == topic.doubts:
                topic.tail.clear()

    def _assign(self, consumer: Consumer, topic: _Topic, partitions: tuple[int, ...]) -> None:
        tail = topic.tail
        tail.reads(partitions)
        positions = {partition: tail.position(partition) for partition in partitions}
        consumer.incremental_assign(
            [
                TopicPartition(tail.topic, partition, OFFSET_BEGINNING if position is None else position)
                for partition, position in positions.items()
            ]
        )
        topic.partitions = partitions
        topic.assigned = True

    def _unassign(self, consumer: Consumer, topic: _Topic) -> None:
        """Nothing that was fetched for it before comes after this."""
        if topic.assigned:
            topic.assigned = topic.paused = False
            consumer.incremental_unassign(topic.places())

    def _deal(self, consumer: Consumer, messages: list[Message]) -> None:
        dealt: dict[str, list[Message]] = {}
        for message in messages:
            error = message.error()
            name = message.topic()
            if name in self._topics:
                dealt.setdefault(name, []).append(message)
            elif error is not None and not name:
                self._on_error(error)
        for name, each in dealt.items():
            self._give(consumer, self._topics[name], each)

    def _give(self, consumer: Consumer, topic: _Topic, messages: list[Message]) -> None:
        failure: KafkaError | None = None
        good: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                good.append(message)
            else:
                failure = error
        if good:
            topic.tail.deal(good)
        if failure is not None:
            self._unassign(consumer, topic)
            if failure.code() == KafkaError._AUTO_OFFSET_RESET:
                topic.tail.start_over(failure)
            else:
                self._refuse(topic, failure)
        elif not topic.paused and not topic.tail.has_room(_BACKLOG_BYTES, _PATIENCE_S):
            # Its follower is slow. What it has to take is left with the broker.
            consumer.pause(topic.places())
            topic.paused = True

    def _resume(self, consumer: Consumer) -> None:
        for topic in self._topics.values():
            if topic.paused and topic.tail.has_room(0, 0):
                consumer.resume(topic.places())
                topic.paused = False

    # --- trouble --------------------------------------------------------------------------------------

    def _on_error(self, error: KafkaError) -> None:
        """Called by the consumer while it is polled; what it says concerns the connections."""
        if error.code() in _GROUP_ONLY:
            return
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._detail = error_text(error)
        if error.code() not in _SINGLE_CONNECTION:
            for topic in self._topics.values():
                topic.doubts += 1
                topic.tail.report(self._unreachable(error), outage=True)

    def _refuse(self, topic: _Topic, error: KafkaError) -> None:
        """The broker gives nothing of the topic now."""
        topic.not_before = time.monotonic() + _RETRY_S
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            topic.tail.report(f"topic {topic.tail.topic} does not exist (yet)")
        else:
            self._say(topic, error)

    def _say(self, topic: _Topic, error: KafkaError) -> None:
        if error.code() in _SINGLE_CONNECTION:
            topic.doubts += 1
            topic.tail.report(self._unreachable(error), outage=True)
        else:
            topic.tail.report(f"topic {topic.tail.topic} cannot be read: {error_text(error)}")

    def _unreachable(self, error: KafkaError) -> str:
        """Says the same for each topic, so that it is told once."""
        detail = self._detail or error_text(error)
        return f"Kafka at {self._shared.access.bootstrap_servers} cannot be reached: {detail}"
