"""Checks whether the broker has records that a reader has not received."""

from collections.abc import Sequence
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient

from cooperator.logs.kafka.settings import result_of
from cooperator.logs.kafka.topics import ask_ends, ask_partitions, partitions_of

Place = tuple[str, int]
"""A topic and a partition number."""

_TIMEOUT_S: Final = 10.0
"""Longer than for requests whose failure is reported: a busy broker may be slow to answer."""


class Look:
    """One request for the ends of many partitions, and one for the partitions of their topics.

    An end excludes open transactions, since a reader of committed records does not get beyond them.
    """

    def __init__(self, admin: AdminClient, places: Sequence[Place]) -> None:
        self.admin = admin
        self._ends = ask_ends(admin, places, IsolationLevel.READ_COMMITTED, _TIMEOUT_S)
        self._described = ask_partitions(admin, {topic for topic, _ in places}, _TIMEOUT_S)

    @property
    def is_over(self) -> bool:
        ends, described = self._ends.values(), self._described.values()
        return all(each.done() for each in ends) and all(each.done() for each in described)

    def ends(self) -> dict[Place, int | None]:
        """Return the offsets after the last readable records; None where the broker gave none."""
        ends: dict[Place, int | None] = {}
        for place, answer in self._ends.items():
            try:
                ends[place] = result_of(answer).offset
            except KafkaException:
                ends[place] = None
        return ends

    def partitions(self, topic: str) -> tuple[int, ...] | None:
        """Return the sorted partition numbers of the topic; None when the broker did not say."""
        try:
            return partitions_of(self._described[topic])
        except KafkaException:
            return None
