"""The fencing writer: Kafka transactions under one transactional id."""

import logging
import threading
import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cooperator.logs.errors import LogUnavailable, RecordTooLarge, WriterFenced
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.settings import error_text
from cooperator.logs.kafka.topics import count_partitions, remaining_s
from cooperator.wire import Record

logger = logging.getLogger(__name__)

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FATAL}
)
_CLOSE_S: Final = 1.0
_POLL_S: Final = 0.1


class _Open(Enum):
    """The work that an earlier transaction still needs before the next one."""

    NOTHING = auto()
    COMMIT = auto()
    """It is unknown whether it was committed; committing again tells."""
    ABORT = auto()


class KafkaTransactor:
    """A Transactor. A tenure is one producer instance, from ``open`` to ``close``.

    After a time-out the instance is kept: a new one would fence a successor that has taken over meanwhile.
    Every fatal error of the instance is raised as WriterFenced.
    """

    def __init__(self, clients: Clients, transactional_id: str, timeout_ms: int) -> None:
        self._clients = clients
        self._id = transactional_id
        self._timeout_s = timeout_ms / 1000
        self._producer: Producer | None = None
        self._open = _Open.NOTHING
        self._lock = threading.Lock()

    def open(self) -> None:
        with self._lock:
            self._discard()
            timeout_ms = int(self._timeout_s * 1000)
            producer = self._clients.producer(
                self._on_error,
                {
                    "transactional.id": self._id,
                    # A writer that dies in a transaction blocks all readers for at most this long.
                    "transaction.timeout.ms": timeout_ms,
                    # An absent broker is noticed early enough to abort within the same call.
                    "message.timeout.ms": max(1_000, timeout_ms * 6 // 10),
                    "queue.buffering.max.messages": 1_000_000,
                },
            )
            try:
                producer.init_transactions(self._timeout_s)
            except KafkaException as error:
                raise LogUnavailable(f"writer {self._id} cannot be opened: {error_text(error)}") from error
            self._producer = producer

    def write(self, topic: str, records: Sequence[Record]) -> int:
        with self._lock:
            producer = self._producer
            if producer is None:
                raise WriterFenced(f"writer {self._id} is not open: open it when the lead is taken")
            deadline = time.monotonic() + self._timeout_s
            while True:
                try:
                    self._look_up(topic, deadline)
                    self._settle(producer, deadline)
                    return self._transact(producer, topic, records, deadline)
                except KafkaException as error:
                    aborted = self._abort_after(producer, error, deadline)
                    if not aborted or time.monotonic() > deadline:
                        raise LogUnavailable(f"writer {self._id}: {error_text(error)}") from error
                    # Nothing was written, and this is still the only writer: try again.

    def close(self) -> None:
        with self._lock:
            self._discard()

    def _look_up(self, topic: str, deadline: float) -> None:
        """Look up the topic before each transaction: a round trip that prevents two problems.

        A producer that writes to a missing topic makes the broker create it, uncompacted. And a transaction
        begun while the broker is away can break the producer for good: librdkafka then ends a transaction
        that never began at the broker, and treats the refusal (INVALID_TXN_STATE) as fatal.
        """
        with self._clients.sharing() as shared:
            admin = shared.admin()
            try:
                found = count_partitions(admin, topic, remaining_s(deadline))
            except KafkaException:
                # A client that met a starting broker may know no controller, and look for none for minutes.
                shared.renew_admin(admin)
                raise
        if found is None:
            raise LogUnavailable(f"topic {topic} does not exist yet")

    def _transact(self, producer: Producer, topic: str, records: Sequence[Record], deadline: float) -> int:
        after = -1

        def delivered(_error: KafkaError | None, message: Message) -> None:
            nonlocal after
            after = max(after, (message.offset() or 0) + 1)

        producer.begin_transaction()
        self._open = _Open.ABORT
        for record in records:
            producer.produce(topic, record.value, record.key, on_delivery=delivered)
            producer.poll(0)
        # Not flush(): on a fatal error with reports to deliver, it raises something that is not an exception.
        while len(producer) and time.monotonic() < deadline:
            producer.poll(_POLL_S)
        self._open = _Open.COMMIT
        producer.commit_transaction(remaining_s(deadline))
        self._open = _Open.NOTHING
        return after

    def _settle(self, producer: Producer, deadline: float) -> None:
        """Commit or abort an earlier transaction."""
        if self._open is _Open.COMMIT:
            try:
                producer.commit_transaction(remaining_s(deadline))
                self._open = _Open.NOTHING
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._open = _Open.ABORT
        if self._open is _Open.ABORT:
            producer.abort_transaction(remaining_s(deadline))
            self._open = _Open.NOTHING

    def _abort_after(self, producer: Producer, failure: KafkaException, deadline: float) -> bool:
        """Return whether the failed transaction was aborted. Raises WriterFenced, RecordTooLarge."""
        self._check_final(failure)
        if failure.args[0].txn_requires_abort():
            self._open = _Open.ABORT
        if self._open is not _Open.ABORT:
            return False
        try:
            producer.abort_transaction(remaining_s(deadline))
        except KafkaException as error:
            self._check_final(error)
            return False
        self._open = _Open.NOTHING
        if failure.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
            raise RecordTooLarge(f"writer {self._id}: a record exceeds the limit: {error_text(failure)}")
        return True

    def _check_final(self, error: KafkaException) -> None:
        kafka_error: KafkaError = error.args[0]
        if kafka_error.fatal() or kafka_error.code() in _FENCED:
            self._producer = None
            self._open = _Open.NOTHING
            raise WriterFenced(f"writer {self._id} was replaced: {error_text(error)}") from error

    def _discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None and self._open is not _Open.NOTHING:
            # Otherwise readers would have to wait for the transaction's time-out.
            try:
                producer.abort_transaction(_CLOSE_S)
            except KafkaException as error:
                logger.debug("writer %s: could not abort: %s", self._id, error_text(error))
        self._open = _Open.NOTHING

    def _on_error(self, error: KafkaError) -> None:
        """Log only: the calls that fail report the errors."""
        logger.debug("writer %s: %s", self._id, error_text(error))
