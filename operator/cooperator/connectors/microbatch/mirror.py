"""Positions as offsets of a consumer group on the source's cluster, for tools that show lag.

They are never read back, so this is best effort: a group that has members, or missing rights, only cost a
line in the log.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.log_lines import LibrdkafkaLog
from cooperator.supervision import closing_aside

log = logging.getLogger(__name__)

_INTERVAL_S: Final = 10.0
_REFRESH_S: Final = 3_600.0
"""Brokers forget the offsets of a group without members after ``offsets.retention.minutes`` (7 days)."""
_ASK_MS: Final = 10_000


class _Answer(Protocol):
    def done(self) -> bool: ...

    def result(self) -> object: ...


Write = Callable[[Mapping[Partition, int]], _Answer]
"""Begins to write offsets, and returns at once."""


class Mirror:
    """Writes the positions of a task from time to time. It is for one thread."""

    def __init__(self, group: str, write: Write) -> None:
        self._group = group
        self._write = write
        self._asked: _Answer | None = None
        self._sent: Mapping[Partition, int] = {}
        self._sent_s = -_REFRESH_S
        self._said = ""

    def offer(self, positions: Mapping[Partition, int], now_s: float) -> None:
        """Writes the positions if they have moved or have to be refreshed; returns at once."""
        if self._asked is not None:
            if not self._asked.done():
                return
            self._note(self._asked)
            self._asked = None
        due_s = _INTERVAL_S if positions != self._sent else _REFRESH_S
        if positions and now_s >= self._sent_s + due_s:
            self._sent, self._sent_s = dict(positions), now_s
            try:
                self._asked = self._write(positions)
            except Exception as error:
                self._failed(error)

    def _note(self, answer: _Answer) -> None:
        try:
            answer.result()
            self._said = ""
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        # Otherwise they would be written again only once they have moved.
        self._sent = {}
        if str(error) != self._said:
            self._said = str(error)
            log.info("offsets of group %s are not mirrored: %s", self._group, error)


def mirror_to(group: str, client: Mapping[str, Any]) -> Mirror:
    """Returns a mirror to a consumer group of a cluster."""
    settings = {
        **client,
        "client.id": "cooperator-mirror",
        "group.id": group,
        "enable.auto.commit": False,
        "socket.timeout.ms": _ASK_MS,
        "reconnect.backoff.ms": 1_000,
    }

    def write(positions: Mapping[Partition, int]) -> _Answer:
        places = [TopicPartition(each.topic, each.number, offset) for each, offset in positions.items()]
        answer: Future[None] = Future()

        def commit() -> None:
            try:
                _commit(settings, places)
                answer.set_result(None)
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(target=commit, name="mirror", daemon=True).start()
        return answer

    return Mirror(group, write)


def _commit(settings: Mapping[str, Any], places: list[TopicPartition]) -> None:
    """Commits as a consumer that is no member, which brokers refuse while the group has members.

    librdkafka aborts the process if a broker comes back while an ``AdminClient`` waits for the group's
    coordinator (librdkafka's issue 3663).
    """
    with closing_aside(
        Consumer(dict(settings), logger=LibrdkafkaLog(log)), "consumer of a mirror"
    ) as consumer:
        for each in consumer.commit(offsets=places, asynchronous=False) or ():
            if each.error is not None:
                raise KafkaException(each.error)
