"""Offsets of partitions."""

from collections.abc import Collection

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from cooperator.connectors.kafka_source import KafkaSourceOptions, offsets_of
from cooperator.connectors.microbatch.ranges import Partition


def first_offsets(options: KafkaSourceOptions, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Returns the offsets of the first records. Raises ``KafkaUnavailable``."""
    return _asked(options, partitions, OFFSET_BEGINNING)


def last_offsets(options: KafkaSourceOptions, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Returns the ends: with read_committed, last stable offsets. Raises ``KafkaUnavailable``."""
    return _asked(options, partitions, OFFSET_END)


def _asked(options: KafkaSourceOptions, partitions: Collection[Partition], end: int) -> dict[Partition, int]:
    places = {each: TopicPartition(each.topic, each.number) for each in partitions}
    found = offsets_of(options, list(places.values()), end)
    return {each: found[place] for each, place in places.items()}
