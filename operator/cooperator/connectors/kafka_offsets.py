"""Offsets of connectors that read Kafka: a unit is a partition, its position the next record to read.

They have the format that Kafka Connect shows for its sinks: ``{"kafka_topic": …, "kafka_partition": …}``,
``{"kafka_offset": …}``.
"""

import json
from collections.abc import Sequence
from typing import Generic, TypeVar

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from cooperator.connectors.kafka_source import KafkaSourceOptions, offsets_of, reads
from cooperator.connectors.offsets.entries import Entry, Json, OffsetsError
from cooperator.connectors.offsets.sinks import Sink
from cooperator.connectors.offsets.sources import UnitPlace, Where, number
from cooperator.connectors.offsets.unit_log import read_unit
from cooperator.connectors.places import Place
from cooperator.connectors.topics import client_config, partition_counts, reaching

K = TypeVar("K", bound=KafkaSourceOptions)

_ENDS = {Where.EARLIEST: OFFSET_BEGINNING, Where.LATEST: OFFSET_END}


class KafkaOffsets(Generic[K]):
    """Positions of checkpoints of earlier releases. ``sink`` is the sink of the same connector."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def current(self, options: K, place: UnitPlace) -> list[Entry]:
        """Returns the positions of a unit; a batch in flight counts only if the sink has it."""
        found = read_unit(place.checkpoint, self._sink.at(options, place))
        text = found.ends[0] if found.ends else _initial(place)
        if text is None:
            return []
        return [
            entry_of(topic, int(partition), offset)
            for topic, partitions in json.loads(text).items()
            for partition, offset in partitions.items()
        ]

    def unit_of(self, options: K, partition: Json) -> str:
        """Returns the unit of a partition; raises ``OffsetsError`` if the connector has none for it."""
        topic, partition_number = partition.get("kafka_topic"), partition.get("kafka_partition")
        is_number = isinstance(partition_number, int) and not isinstance(partition_number, bool)
        if len(partition) != 2 or not isinstance(topic, str) or not is_number:
            form = '{"kafka_topic": "<name>", "kafka_partition": <number>}'
            raise OffsetsError(f"unknown partition {json.dumps(partition)}; write {form}")
        if not reads(options, topic):
            raise OffsetsError(f"partition {json.dumps(partition)}: the connector does not read {topic}")
        return f"{topic}-{partition_number}"

    def check(self, options: K, entries: Sequence[Entry]) -> None:
        """Raises ``OffsetsError`` when the topics have no such offsets."""
        for entry in entries:
            offset = number(entry, "kafka_offset")
            topic, partition = entry.partition["kafka_topic"], entry.partition["kafka_partition"]
            if not _exists(options, topic, partition):
                raise OffsetsError(f"partition {entry.key}: no such partition at {options.bootstrap_servers}")
            first, end = (_end(options, topic, partition, where) for where in Where)
            if not first <= offset <= end:
                raise OffsetsError(
                    f"partition {entry.key}: kafka_offset {offset} is out of range; use {first} (the first "
                    f"record) to {end} (the end)"
                )


def has_start(checkpoint: Place) -> bool:
    """Whether the checkpoint defines where its first batch begins."""
    return (checkpoint / "sources" / "0" / "0").exists()


def _initial(place: UnitPlace) -> str | None:
    try:
        text = (place.checkpoint / "sources" / "0" / "0").read_text()
    except FileNotFoundError:
        return None
    return text.partition("\n")[2]


def ends_at(options: KafkaSourceOptions, topic: str, partition: int, where: Where) -> int | None:
    """Returns the offset of an end of a partition; None if the connector does not read it, or it is gone."""
    if not reads(options, topic) or not _exists(options, topic, partition):
        return None
    return _end(options, topic, partition, where)


def entry_of(topic: str, partition: int, offset: int) -> Entry:
    return Entry({"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset})


def entry_at(options: KafkaSourceOptions, entry: Entry, where: Where) -> Entry:
    """Returns the end of the entry's partition; the entry itself if the partition is gone."""
    topic, partition = entry.partition["kafka_topic"], entry.partition["kafka_partition"]
    end = ends_at(options, topic, partition, where)
    return entry if end is None else entry_of(topic, partition, end)


def offset_of(entry: Entry) -> int | None:
    return None if entry.offset is None else number(entry, "kafka_offset")


def _exists(options: KafkaSourceOptions, topic: str, partition: int) -> bool:
    with reaching(options):
        return 0 <= partition < partition_counts(client_config(options), [topic])[topic]


def _end(options: KafkaSourceOptions, topic: str, partition: int, where: Where) -> int:
    """Returns Spark's value for that end: with read_committed, latest is the last stable offset."""
    place = TopicPartition(topic, partition)
    return offsets_of(options, [place], _ENDS[where])[place]
