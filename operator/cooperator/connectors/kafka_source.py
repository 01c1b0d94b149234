"""The common parts of connectors that read topics: the existing partitions, and a unit's stream of records.

A unit is a partition of a topic, ``<topic>-<number>``. Topics are listed, or matched repeatedly by a regular
expression, so that topics that are created later are read, too, from their beginning.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Self

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, TopicPartition
from pydantic import ValidationInfo, model_validator

from cooperator.connectors.access import KafkaOptions, of_java
from cooperator.connectors.options import TopicNames, is_running, option, refuse
from cooperator.connectors.patterns import check_pattern, matches
from cooperator.connectors.topics import (
    client_config,
    matching_topics,
    offsets_at,
    partition_counts,
    reaching,
)

_ASK_S = 5.0


class KafkaSourceOptions(KafkaOptions):
    topics: TopicNames = option("topics", (), expected="topics to read, separated by commas")
    topics_regex: str = option(
        "topics.regex",
        "",
        expected="an RE2 regular expression for complete topic names, instead of topics",
    )
    starting_offsets: Literal["earliest", "latest"] = option(
        "starting.offsets",
        "earliest",
        expected="earliest, or latest (skips the records that exist when the connector is created)",
    )
    max_offsets: int = option(
        "max.offsets.per.trigger", 100_000, expected="the maximum number of records in a batch", ge=1
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = option(
        "isolation.level", "read_committed", expected="read_committed or read_uncommitted"
    )
    fetch_max_wait_ms: int = option(
        "fetch.max.wait.ms",
        50,
        expected="milliseconds that the broker waits for records, 1 to 500",
        ge=1,
        le=500,
    )
    fail_on_data_loss: bool = option(
        "fail.on.data.loss",
        True,
        expected="true, or false (continues if records were deleted before they were read)",
    )

    @model_validator(mode="after")
    def _one_way_to_name_topics(self, info: ValidationInfo) -> Self:
        if self.topics and self.topics_regex:
            raise refuse("cannot be combined with topics", "use one of them", "topics.regex")
        if not self.topics and not self.topics_regex:
            raise refuse("names no topic", "set topics, separated by commas, or topics.regex", "topics")
        if not is_running(info):
            check_pattern("topics.regex", self.topics_regex, "orders[.].*")
        return self


def reads(options: KafkaSourceOptions, topic: str) -> bool:
    """Whether the connector reads the topic of that name."""
    if options.topics:
        return topic in options.topics
    return not topic.startswith("__") and matches(options.topics_regex, topic)


def source_partitions(options: KafkaSourceOptions, say: Callable[[str], None]) -> dict[str, int]:
    """Returns the existing topics to read, with their partition counts; reports missing ones by ``say``."""
    with reaching(options):
        client = client_config(options)
        if options.topics_regex:
            found = matching_topics(client, lambda topic: reads(options, topic))
            say("" if found else f"waiting for a topic that matches {options.topics_regex}")
            return found
        counts = partition_counts(client, options.topics)
    missing = [topic for topic in options.topics if not counts[topic]]
    say(f"waiting for the topics {', '.join(missing)}" if missing else "")
    return {topic: counts[topic] for topic in options.topics if counts[topic]}


def partition_units(counts: dict[str, int]) -> Sequence[str]:
    return [f"{topic}-{number}" for topic, count in counts.items() for number in range(count)]


def partition_lag(options: KafkaSourceOptions, ends: Mapping[str, str]) -> int:
    """Returns the number of records behind the units' ends, those of open transactions included.

    A unit without an end starts before or after the records that the topic holds (``starting.offsets``).
    """
    topics = {unit: unit.rpartition("-") for unit in ends}
    asked = {unit: TopicPartition(topic, int(number)) for unit, (topic, _, number) in topics.items()}
    latest = offsets_of(options, list(asked.values()), OFFSET_END, isolation_level="read_uncommitted")
    fresh = [unit for unit, end in ends.items() if not end]
    if options.starting_offsets == "earliest":
        first = offsets_of(options, [asked[unit] for unit in fresh], OFFSET_BEGINNING)
    else:
        first = offsets_of(options, [asked[unit] for unit in fresh], OFFSET_END)
    here = {unit: first[asked[unit]] for unit in fresh}
    for unit, (topic, _, number) in topics.items():
        if unit not in here:
            here[unit] = int(json.loads(ends[unit])[topic][number])
    return sum(max(0, latest[asked[unit]] - offset) for unit, offset in here.items())


def consumer_settings(options: KafkaSourceOptions) -> dict[str, str]:
    """Returns the properties of Java's consumers."""
    return {
        **of_java(options),
        "isolation.level": options.isolation_level,
        "fetch.max.wait.ms": str(options.fetch_max_wait_ms),
    }


def offsets_of(
    options: KafkaSourceOptions, partitions: list[TopicPartition], end: int, isolation_level: str = ""
) -> dict[TopicPartition, int]:
    """Returns an end of each partition (``offsets_at``). Raises ``KafkaUnavailable``.

    ``isolation_level``: that of the options unless it is given.
    """
    if not partitions:
        return {}
    settings = {**client_config(options), "isolation.level": isolation_level or options.isolation_level}
    with reaching(options):
        try:
            return offsets_at(_consumer(tuple(settings.items())), partitions, end, _ASK_S)
        except KafkaException:
            # A client keeps the leaders' epochs that it knows, and a broker that was away refuses them.
            _consumer.cache_clear()
            raise


@cache
def _consumer(settings: tuple[tuple[str, Any], ...]) -> Consumer:
    """The client is cached, because lag is queried often and a new client costs threads and connections."""
    own: dict[str, Any] = {
        "client.id": "cooperator-lag",
        "group.id": "cooperator-lag",
        "enable.auto.commit": False,
        # Its log is never polled and would pile up; its errors come with its answers.
        "log_level": 0,
    }
    return Consumer({**dict(settings), **own})
