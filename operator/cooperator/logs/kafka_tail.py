"""Following a Kafka topic: one thread, which outlives every trouble of the broker."""

import logging
import threading
import time
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from cooperator.logs.errors import LogUnavailable
from cooperator.logs.kafka_clients import Clients, error_text
from cooperator.logs.kafka_topics import count_partitions, remaining_s
from cooperator.logs.progress import Progress
from cooperator.logs.transport import Follower
from cooperator.logs.trouble import Troubles
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.25
_RETRY_S: Final = 1.0
_AGAIN_S: Final = 0.1
_METADATA_TIMEOUT_S: Final = 3.0
_BATCH: Final = 1_000

# Single connections come and go; when none is left, the library says so, but not why.
_SINGLE_CONNECTION: Final = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT})
# A reader of assigned partitions needs no group coordinator.
_GROUP_ONLY: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})


class KafkaTail:
    """A Tail of one topic, all partitions of it.

    Only the tail's own thread touches the consumer. The end of a partition is known from the broker's
    end-of-partition events, since a consumer's position does not count what transactions leave behind
    (markers, aborted records).
    """

    def __init__(self, clients: Clients, topic: str, follower: Follower, troubles: Troubles) -> None:
        self._clients = clients
        self._topic = topic
        self._follower = follower
        self._troubles = troubles
        self._partitions: tuple[int, ...] = ()
        self._at_end: set[int] = set()
        self._assigned = False
        self._in_doubt = False
        self._detail = ""
        self._progress = Progress(topic)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self._progress.started(self._thread)
        self._thread.start()

    def read_to_end(self, timeout_ms: int) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        self._progress.wait(self._end_offsets(deadline), deadline)

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self._progress.wait({0: offset}, time.monotonic() + timeout_ms / 1000)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _end_offsets(self, deadline: float) -> dict[int, int]:
        """The offset after the last record of each partition, those of open transactions included.

        The reader comes there only when these have ended, so nothing written before the call is missed.
        """
        while True:
            admin = self._clients.admin()
            try:
                partitions = self._partitions or range(self._count_partitions(admin, deadline))
                futures = admin.list_offsets(
                    {
                        TopicPartition(self._topic, partition): OffsetSpec.latest()  # type: ignore[no-untyped-call]
                        for partition in partitions
                    },
                    isolation_level=IsolationLevel.READ_UNCOMMITTED,
                    request_timeout=remaining_s(deadline),
                )
                return {each.partition: future.result().offset for each, future in futures.items()}
            except KafkaException as error:
                # A broker that has just started, or given the topic away, refuses at first.
                self._clients.renew_admin()
                if time.monotonic() + _AGAIN_S > deadline:
                    # Another topic's reader may know of an outage before this one does.
                    troubles = self._troubles
                    detail = troubles.of(self._topic) or troubles.outage() or error_text(error)
                    raise LogUnavailable(f"topic {self._topic}: its end is not known: {detail}") from error
            time.sleep(_AGAIN_S)

    def _count_partitions(self, admin: AdminClient, deadline: float) -> int:
        count = count_partitions(admin, self._topic, remaining_s(deadline))
        if count is None:
            raise LogUnavailable(f"topic {self._topic} does not exist (yet)")
        return count

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        consumer: Consumer | None = None
        while not self._closing.is_set():
            try:
                if consumer is None:
                    consumer = self._clients.consumer(self._on_error)
                self._step(consumer)
                continue
            except KafkaException as error:
                self._on_failure(error)
            except LogUnavailable as error:
                self._troubles.report(self._topic, str(error))
            except Exception:
                logger.exception("the reader of topic %s reads the same again after an error", self._topic)
                self._assigned = False
            self._closing.wait(_RETRY_S)
        if consumer is not None:
            consumer.close()
        self._troubles.clear(self._topic)

    def _step(self, consumer: Consumer) -> None:
        if self._in_doubt or not self._assigned:
            consumer.poll(0)  # for the errors that say why
            partitions = self._list_partitions(consumer)
            self._in_doubt = False
            if not self._assigned:
                self._assign(consumer, partitions)
            self._troubles.clear(self._topic)
        message = consumer.poll(_POLL_S)
        if message is not None:
            self._take([message, *consumer.consume(_BATCH, timeout=0)])

    def _list_partitions(self, consumer: Consumer) -> tuple[int, ...]:
        """The topic's partitions; proof, too, that the broker answers.

        Raises KafkaException, LogUnavailable.
        """
        topic = consumer.list_topics(self._topic, timeout=_METADATA_TIMEOUT_S).topics[self._topic]
        if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(topic.error)
        if not topic.partitions:
            raise LogUnavailable(f"topic {self._topic} does not exist (yet)")
        return tuple(sorted(topic.partitions))

    def _assign(self, consumer: Consumer, partitions: tuple[int, ...]) -> None:
        positions = {partition: self._progress.position(partition) for partition in partitions}
        consumer.assign(
            [
                TopicPartition(self._topic, partition, OFFSET_BEGINNING if position is None else position)
                for partition, position in positions.items()
            ]
        )
        self._partitions = partitions
        self._assigned = True

    def _take(self, messages: list[Message]) -> None:
        """The follower first, then whoever waits for the position: it must find what it waited for."""
        batch: list[tuple[int, Record]] = []
        positions: dict[int, int] = {}
        failure: KafkaError | None = None
        for message in messages:
            error = message.error()
            partition, offset = message.partition() or 0, message.offset() or 0
            if error is None:
                batch.append((offset, _record(message)))
                positions[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                positions[partition] = offset
                self._at_end.add(partition)
            else:
                failure = error
        if batch:
            self._follower.take(batch)
        for partition, position in positions.items():
            self._progress.reached(partition, position)
        if self._at_end.issuperset(self._partitions):
            self._follower.caught_up()
            self._progress.caught_up()
        if failure is not None:
            self._assigned = False
            if failure.code() != KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(failure)
            self._start_over(failure)

    def _start_over(self, error: KafkaError) -> None:
        """The broker does not have the offset that was to be read next: the topic is not the one it was."""
        logger.warning("topic %s is read from its beginning again: %s", self._topic, error_text(error))
        self._at_end.clear()
        self._progress.start_over()
        self._follower.start_over()

    # --- trouble --------------------------------------------------------------------------------------

    def _on_error(self, error: KafkaError) -> None:
        """Called by the consumer while it is polled; what it says concerns the connections."""
        if error.code() in _GROUP_ONLY:
            return
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._detail = error_text(error)
        if error.code() not in _SINGLE_CONNECTION:
            self._in_doubt = True
            self._troubles.report(self._topic, self._unreachable(error), outage=True)

    def _on_failure(self, exception: KafkaException) -> None:
        error: KafkaError = exception.args[0]
        if error.code() in _SINGLE_CONNECTION:
            self._in_doubt = True
            self._troubles.report(self._topic, self._unreachable(error), outage=True)
        else:
            self._troubles.report(self._topic, f"topic {self._topic} cannot be read: {error_text(error)}")

    def _unreachable(self, error: KafkaError) -> str:
        """Says the same for each topic, so that it is told once."""
        detail = self._detail or error_text(error)
        return f"Kafka at {self._clients.bootstrap_servers} cannot be reached: {detail}"


def _record(message: Message) -> Record:
    key, value = message.key(), message.value()
    text = key if isinstance(key, str) else (key or b"").decode("utf-8", "replace")
    return Record(text, value.encode() if isinstance(value, str) else value)
