"""Reads partitions of the topic of positions, each time from where the last reading ended."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.microbatch.positions import Ledger
from cooperator.connectors.topics import end_offsets
from cooperator.log_lines import LibrdkafkaLog
from cooperator.supervision import closing_aside

T = TypeVar("T")

log = logging.getLogger(__name__)

_READ_S = 0.03
_LOCK_S = 0.2
_WAITS_S = 2.0
"""Waits for open transactions are shown once they take longer."""
_HANGS_S = 120.0
"""Then with the way out: brokers end a transaction by themselves within its time limit and 10 s."""


class TopicReader:
    """Folds the committed records of some partitions of a topic. Thread-safe: tasks of a member share one.

    A reading asks for the ends of the partitions (high watermarks) and reads up to them, so it has everything
    that was acknowledged, or committed to its end, before it began. It waits for transactions that are open
    below these ends, at most for their time limit. Consumers exist only while there is something to read.
    """

    def __init__(self, client: Mapping[str, Any], topic: str, partitions: Collection[int]) -> None:
        self._client = dict(client)
        self._topic = topic
        self._next = dict.fromkeys(partitions, 0)
        self._ledger = Ledger()
        self._lock = threading.Lock()
        self._clock = itertools.count()
        self._began = -1

    def read(self, ask: Callable[[Ledger], T], patience: Patience) -> T:
        """Returns what ``ask`` finds. Raises ``Cancelled``, and what ``ask`` raises.

        Callers that wait for another's reading share the next one.
        """
        called = next(self._clock)
        while not self._lock.acquire(timeout=_LOCK_S):
            patience.check()
        try:
            if self._began < called:
                began = next(self._clock)
                self._catch_up(self._ends(patience), patience)
                self._began = began
            return ask(self._ledger)
        finally:
            self._lock.release()

    def _ends(self, patience: Patience) -> dict[int, int]:
        def ask(timeout_s: float) -> dict[int, int]:
            return end_offsets(self._client, f"{self._topic}-reader", self._topic, self._next, timeout_s)

        return patience.until_done(ask)

    def _catch_up(self, ends: Mapping[int, int], patience: Patience) -> None:
        if any(ends[number] < offset for number, offset in self._next.items()):
            log.warning("topic %s was recreated: it ends before what was read of it", self._topic)
            self._next = dict.fromkeys(self._next, 0)
            self._ledger = Ledger()
        behind = {number for number, offset in self._next.items() if offset < ends[number]}
        if not behind:
            return
        consumer = Consumer(
            {
                **self._client,
                "group.id": f"{self._topic}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "isolation.level": "read_committed",
            },
            logger=LibrdkafkaLog(log),
        )
        with closing_aside(consumer, f"consumer of {self._topic}"):
            consumer.assign([TopicPartition(self._topic, number, self._next[number]) for number in behind])
            self._consume(consumer, behind, ends, patience)

    def _consume(
        self, consumer: Consumer, behind: set[int], ends: Mapping[int, int], patience: Patience
    ) -> None:
        idle_since, said = time.monotonic(), ""
        while behind:
            messages = patience.until_done(lambda _: consumer.consume(1_000, _READ_S))
            if messages:
                idle_since = time.monotonic()
            elif text := self._waited(time.monotonic() - idle_since, behind):
                if text != said:
                    patience.say(text)
                said = text
            for message in messages:
                number, offset, error = message.partition(), message.offset(), message.error()
                if number is None or offset is None:
                    log.info("reading %s: %s", self._topic, error)
                elif error is None:
                    self._ledger.apply(message.key(), message.value())
                    self._next[number] = offset + 1
                elif error.code() != KafkaError._PARTITION_EOF:
                    log.info("reading %s: %s", self._topic, error)
                else:
                    self._next[number] = offset
                    if offset >= ends[number]:
                        behind.discard(number)
        if said:
            patience.say("")

    def _waited(self, idle_s: float, behind: Collection[int]) -> str:
        """Returns what is waited for; empty if that is not worth a word yet."""
        where = f"topic {self._topic}, partition {', '.join(map(str, sorted(behind)))}"
        if idle_s > _HANGS_S:
            return (
                f"a transaction in {where} does not end: brokers that were all away at its end may have lost "
                "it (KIP-664). Find it by kafka-transactions.sh find-hanging, and compare the rows before "
                "you abort it"
            )
        return f"waiting for open transactions in {where} to end" if idle_s > _WAITS_S else ""
