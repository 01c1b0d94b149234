"""Follows one Kafka topic through the shared reader."""

import threading
import time
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient

from cooperator.logs.errors import LogUnavailable
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.settings import error_text, result_of
from cooperator.logs.kafka.subscription import Subscription
from cooperator.logs.kafka.topics import ask_ends, count_partitions, remaining_s
from cooperator.logs.outages import Outages
from cooperator.logs.transport import Follower

_AGAIN_S: Final = 0.1
_ANSWER_S: Final = 5.0
"""A request is waited for longer than its time-out, by so much."""


class KafkaTopicReader:
    """A TopicReader of all partitions of one topic."""

    def __init__(self, clients: Clients, topic: str, follower: Follower, outages: Outages) -> None:
        self.topic: Final = topic
        self._clients = clients
        self._outages = outages
        self._released = threading.Lock()
        self._shared = clients.acquire()
        self._executor = self._shared.callbacks.executor()
        self.subscription: Final = Subscription(topic, follower, outages, self._executor)
        self._reader = self._shared.follow(self.subscription)

    def read_to_end(self, timeout_ms: int) -> None:
        deadline = time.monotonic() + timeout_ms / 1000
        self.subscription.progress.wait(self._end_offsets(deadline), deadline)

    def end(self, timeout_ms: int) -> int:
        return self._end_offsets(time.monotonic() + timeout_ms / 1000)[0]

    def read_to(self, offset: int, timeout_ms: int) -> None:
        self.subscription.progress.wait({0: offset}, time.monotonic() + timeout_ms / 1000)

    def close(self) -> None:
        self._executor.close()
        if self._released.acquire(blocking=False):
            self._shared.unfollow(self._reader, self.subscription)
            self._outages.clear(self.topic)
            self._clients.release(self._shared)

    def _end_offsets(self, deadline: float) -> dict[int, int]:
        """Return the offset after the last record of each partition, including open transactions.

        The reader gets there only when these have ended, so nothing written before the call is missed.
        """
        while True:
            admin = self._shared.admin()
            try:
                partitions = self.subscription.partitions or range(self._count_partitions(admin, deadline))
                answers = ask_ends(
                    admin,
                    [(self.topic, partition) for partition in partitions],
                    IsolationLevel.READ_UNCOMMITTED,
                    remaining_s(deadline),
                )
                return {
                    partition: result_of(answer, remaining_s(deadline) + _ANSWER_S).offset
                    for (_, partition), answer in answers.items()
                }
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
