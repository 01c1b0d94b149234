"""One consumer for the topics of many groups, on one thread that survives every broker outage."""

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from cooperator.logs.kafka.connection import Connection
from cooperator.logs.kafka.look import Look
from cooperator.logs.kafka.settings import error_text
from cooperator.logs.kafka.subscription import Subscription
from cooperator.logs.kafka.topics import ask_partitions, partitions_of
from cooperator.logs.silence import Silence
from cooperator.supervision import close_aside, supervised, turn

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.05
_QUICK_POLL_S: Final = 0.01
_RETRY_S: Final = 1.0
_METADATA_TIMEOUT_S: Final = 3.0
_WARM_S: Final = 1.0
_BATCH: Final = 1_000
_BACKLOG_BYTES: Final = 4 * 2**20
_PATIENCE_S: Final = 0.25
_CLOSED_S: Final = 20.0
"""More than the time after which a consumer that does not close is abandoned."""
_QUIET_S: Final = 10.0
"""Interval between checks of silent partitions."""

# Single connections come and go; when none is left, the library reports that, but not why.
_SINGLE_CONNECTION: Final = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT})
# A reader of assigned partitions needs no group coordinator.
_GROUP_ONLY: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})


@dataclass(eq=False)
class _Asked:
    """A pending request about a topic. ``doubts``: the count that its answer settles. ``admin``: the client,
    kept because there would be no answer without it."""

    answer: "Future[Any]"
    doubts: int
    admin: object = field(repr=False)


@dataclass(eq=False)
class _Topic:
    """A topic as the reader's thread knows it."""

    subscription: Subscription
    partitions: tuple[int, ...] = ()
    assigned: bool = False
    paused: bool = False
    doubts: int = 0
    """Number of times that it became doubtful whether the broker still answers."""
    settled: int = 0
    asked: _Asked | None = None
    not_before: float = 0.0
    silences: dict[int, Silence] = field(default_factory=dict)
    """By partition."""

    @property
    def hears(self) -> bool:
        """Whether new records would be fetched, and all fetched records have been taken."""
        return self.assigned and not self.paused and self.subscription.idle

    def quiet(self) -> list[int]:
        """Return partitions that could have received records since the last call, but did not."""
        hears = self.hears and self.doubts == self.settled
        quiet = []
        for partition in self.partitions:
            silence = self.silences.setdefault(partition, Silence())
            if not hears:
                silence.disturb()
            elif silence.is_quiet(self.position(partition)):
                quiet.append(partition)
        return quiet

    def position(self, partition: int) -> int:
        """Return the offset to take next; -1 while nothing is known about the partition."""
        position = self.subscription.position(partition)
        return -1 if position is None else position

    def places(self) -> list[TopicPartition]:
        return [TopicPartition(self.subscription.topic, partition) for partition in self.partitions]


class Reader:
    """Reads the topics of its subscriptions, each from its own position, and passes everything on to them.

    Only the reader's own thread touches the consumer, and it calls only the library and this package:
    followers process what they get elsewhere (``CallbackThreads``). A topic that is missing, refused or
    slowly processed is left out, looked up again, or paused, while reading the others continues.
    """

    def __init__(self, shared: Connection, group_id: str) -> None:
        self._shared = shared
        self._group_id = group_id
        self._subscriptions: dict[str, Subscription] = {}
        self._topics: dict[str, _Topic] = {}
        self._detail = ""
        self._look: Look | None = None
        self._look_at = 0.0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        name = f"reader of {shared.access.bootstrap_servers}"
        self._thread = supervised(self._run, name)
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._subscriptions

    def follows(self, topic: str) -> bool:
        with self._lock:
            return topic in self._subscriptions

    def add(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions[subscription.topic] = subscription

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            del self._subscriptions[subscription.topic]

    def close(self) -> None:
        """Close the consumer, or abandon it, and end the thread."""
        self._closing.set()
        self._thread.join(_CLOSED_S)

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        consumer: Consumer | None = None
        while not self._closing.is_set():
            turn()
            try:
                if consumer is None:
                    self._come_and_go(None)
                    consumer = self._shared.access.consumer(self._group_id, self._on_error)
                if self._step(consumer):
                    continue
            except KafkaException as error:
                for topic in self._topics.values():
                    self._say(topic, error.args[0])
            except Exception:
                logger.exception("the %s restarts after an error", self._thread.name)
            # A new consumer continues from what the subscriptions have taken.
            if consumer is not None:
                self._close(consumer)
                consumer = None
            for topic in self._topics.values():
                topic.assigned = topic.paused = False
            self._closing.wait(_RETRY_S)
        if consumer is not None:
            self._close(consumer).wait(_CLOSED_S)
        # Drops pending requests, which keep their admin client alive.
        self._topics.clear()
        self._look = None

    def _close(self, consumer: Consumer) -> threading.Event:
        """Close a consumer without waiting: one that receives nothing any more may hang in its close, too."""
        return close_aside(consumer.close, f"consumer of the {self._thread.name}")

    def _step(self, consumer: Consumer) -> bool:
        """Do one iteration; return False if the consumer is stuck and must be replaced."""
        self._come_and_go(consumer)
        self._ask()
        self._hear(consumer)
        asking = any(topic.asked is not None for topic in self._topics.values())
        message = consumer.poll(_QUICK_POLL_S if asking else _POLL_S)
        if message is not None:
            self._deal(consumer, [message, *consumer.consume(_BATCH, timeout=0)])
        self._resume(consumer)
        self._shared.callbacks.watch()
        return not self._has_lost_any()

    def _come_and_go(self, consumer: Consumer | None) -> None:
        with self._lock:
            wanted = dict(self._subscriptions)
        for name, topic in list(self._topics.items()):
            if wanted.get(name) is not topic.subscription:
                if consumer is not None:
                    self._unassign(consumer, topic)
                del self._topics[name]
        for name, subscription in wanted.items():
            if name not in self._topics:
                self._topics[name] = _Topic(subscription)
        if consumer is not None:
            for topic in self._topics.values():
                if topic.subscription.broken and topic.subscription.idle:
                    self._unassign(consumer, topic)
                    topic.subscription.broken = False
                    topic.not_before = time.monotonic() + _RETRY_S

    def _ask(self) -> None:
        """Look up the topics that are not assigned yet, and those whose broker may not answer any more."""
        now = time.monotonic()
        asking = [
            topic
            for topic in self._topics.values()
            if topic.asked is None
            and topic.not_before <= now
            and (topic.subscription.idle if not topic.assigned else topic.doubts > topic.settled)
        ]
        if asking:
            admin = self._shared.admin()
            answers = ask_partitions(
                admin, [topic.subscription.topic for topic in asking], _METADATA_TIMEOUT_S
            )
            for topic in asking:
                topic.asked = _Asked(answers[topic.subscription.topic], topic.doubts, admin)

    def _hear(self, consumer: Consumer) -> None:
        for topic in self._topics.values():
            asked = topic.asked
            if asked is None or not asked.answer.done():
                continue
            topic.asked = None
            try:
                partitions = partitions_of(asked.answer)
            except KafkaException as error:
                self._refuse(topic, error.args[0])
                continue
            topic.settled = asked.doubts
            if topic.assigned and topic.partitions != partitions:
                self._unassign(consumer, topic)
            if not topic.assigned and topic.subscription.idle:
                try:
                    # A consumer looks up unknown partition leaders only once a second.
                    consumer.list_topics(topic.subscription.topic, timeout=_WARM_S)
                except KafkaException as error:
                    self._refuse(topic, error.args[0])
                    return  # The others can wait until the received records are processed.
                self._assign(consumer, topic, partitions)
            if topic.assigned and topic.settled == topic.doubts:
                topic.subscription.clear()

    def _assign(self, consumer: Consumer, topic: _Topic, partitions: tuple[int, ...]) -> None:
        subscription = topic.subscription
        subscription.partitions = partitions
        positions = {partition: subscription.position(partition) for partition in partitions}
        consumer.incremental_assign(
            [
                TopicPartition(
                    subscription.topic, partition, OFFSET_BEGINNING if position is None else position
                )
                for partition, position in positions.items()
            ]
        )
        topic.partitions = partitions
        topic.assigned = True
        for silence in topic.silences.values():
            silence.disturb()

    def _unassign(self, consumer: Consumer, topic: _Topic) -> None:
        """Unassign the topic: nothing fetched for it before arrives after this."""
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
            topic.subscription.deal(good)
        if failure is not None:
            self._unassign(consumer, topic)
            if failure.code() == KafkaError._AUTO_OFFSET_RESET:
                topic.subscription.start_over(failure)
            else:
                self._refuse(topic, failure)
        elif not topic.paused and not topic.subscription.has_room(_BACKLOG_BYTES, _PATIENCE_S):
            # Its follower is slow; leave further records with the broker.
            consumer.pause(topic.places())
            topic.paused = True

    def _resume(self, consumer: Consumer) -> None:
        for topic in self._topics.values():
            if topic.paused and topic.subscription.has_room(0, 0):
                consumer.resume(topic.places())
                topic.paused = False

    # --- silence --------------------------------------------------------------------------------------

    def _has_lost_any(self) -> bool:
        """Return whether two checks in a row find records in a partition that the consumer does not receive.

        There are reports of partitions that stay in this state after a broker's restart, forever and without
        an error.
        """
        now = time.monotonic()
        look = self._look
        if look is not None and look.is_over:
            self._look, self._look_at = None, now + _QUIET_S
            return self._judge(look)
        if look is None and now >= self._look_at:
            self._look_at = now + _QUIET_S
            quiet = [(name, each) for name, topic in self._topics.items() for each in topic.quiet()]
            self._look = Look(self._shared.admin(), quiet) if quiet else None
        return False

    def _judge(self, look: Look) -> bool:
        ends = look.ends()
        if None in ends.values():
            self._shared.renew_admin(look.admin)
        lost = False
        for (name, partition), end in ends.items():
            topic = self._topics.get(name)
            if topic is None or not topic.hears or partition not in topic.silences:
                continue
            if end is None or look.partitions(name) != topic.partitions:
                topic.doubts += 1
            position, silence = topic.position(partition), topic.silences[partition]
            if end is not None and silence.is_lost(position, end):
                lost = True
                silence.begin_anew()
                logger.warning(
                    "topic %s, partition %d: no record after offset %d, although the broker has %d: "
                    "continuing with a new consumer",
                    *(name, partition, max(0, position), end),
                )
        return lost

    # --- outages --------------------------------------------------------------------------------------

    def _on_error(self, error: KafkaError) -> None:
        """Handle an error of the consumer's connections. Called by the consumer while it is polled."""
        if error.code() in _GROUP_ONLY:
            return
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._detail = error_text(error)
        if error.code() not in _SINGLE_CONNECTION:
            for topic in self._topics.values():
                topic.doubts += 1
                topic.subscription.report(self._unreachable(error), outage=True)

    def _refuse(self, topic: _Topic, error: KafkaError) -> None:
        """Report that the broker does not serve the topic now, and retry later."""
        topic.not_before = time.monotonic() + _RETRY_S
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            topic.subscription.report(f"topic {topic.subscription.topic} does not exist yet")
        else:
            self._say(topic, error)

    def _say(self, topic: _Topic, error: KafkaError) -> None:
        if error.code() in _SINGLE_CONNECTION:
            topic.doubts += 1
            topic.subscription.report(self._unreachable(error), outage=True)
        else:
            topic.subscription.report(f"topic {topic.subscription.topic} cannot be read: {error_text(error)}")

    def _unreachable(self, error: KafkaError) -> str:
        """Return a text that is the same for all topics, so that it is reported once."""
        detail = self._detail or error_text(error)
        return f"Kafka at {self._shared.access.bootstrap_servers} cannot be reached: {detail}"
