"""Connector offsets of stock workers: a compacted topic for sources, consumer groups for sinks.

A source's position is a record of the offset topic (key ``["connector", {partition}]``, value the offset,
both JSON without an envelope; no offset: a tombstone). A sink's position is what its consumer group has
committed. Each call creates its own clients, since users make such calls rarely.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from cooperator.logs.errors import LogUnavailable
from cooperator.logs.kafka.settings import Access, error_text, result_of
from cooperator.supervision import closing_aside
from cooperator.wire import DecodeError
from cooperator.wire.records import dump_json, parse_json

_TIMEOUT_S: Final = 15.0
_ANY: Final = -1
"""Lets the partitioner choose."""
_EMPTY: Final = frozenset({KafkaError.GROUP_ID_NOT_FOUND, KafkaError._NOENT})
_IN_USE: Final = frozenset(
    {KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
)

Entry = tuple[Mapping[str, Any], Mapping[str, Any] | None]
"""(partition, offset); offset None: forget the position."""


class GroupInUse(Exception):
    """A sink's consumer group has members, so its offsets cannot be changed."""


class ConnectOffsets:
    """The offsets of the Connect clusters at one address. All methods raise LogUnavailable."""

    def __init__(self, bootstrap_servers: str, security: Mapping[str, Any]) -> None:
        self._access = Access.of(bootstrap_servers, security)

    # --- sources ---

    def source(self, topic: str, connector: str) -> list[Entry]:
        """Return the positions of a source connector, in the order in which they were first written."""
        return [(partition, offset) for partition, offset, _, _ in self._read(topic, connector)]

    def write_source(self, topic: str, connector: str, entries: Sequence[Entry]) -> None:
        """Write these positions; all others stay. A known partition keeps the exact bytes of its key."""
        known = {_same(partition): (key, place) for partition, _, key, place in self._read(topic, connector)}
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failures.append(error)

        producer = self._access.producer(
            "cooperator-offsets", lambda error: None, {"enable.idempotence": True}
        )
        try:
            for partition, offset in entries:
                key, place = known.get(_same(partition), (dump_json([connector, partition], "key"), _ANY))
                value = None if offset is None else dump_json(offset, "offset")
                producer.produce(topic, key=key, value=value, partition=place, on_delivery=delivered)
            left = producer.flush(_TIMEOUT_S)
        except (KafkaException, BufferError) as error:
            raise LogUnavailable(f"{topic}: {error}") from None
        if failures or left:
            reason = (
                error_text(failures[0]) if failures else f"the broker did not answer within {_TIMEOUT_S:g} s"
            )
            raise LogUnavailable(f"{topic}: not all offsets of {connector} were written: {reason}")

    def _read(
        self, topic: str, connector: str
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any], bytes, int]]:
        found: dict[str, tuple[Mapping[str, Any], Mapping[str, Any], bytes, int]] = {}
        for key, value, place in self._records(topic):
            try:
                named = parse_json(key, "key")
                offset = None if value is None else parse_json(value, "offset")
            except DecodeError:
                continue
            if not (isinstance(named, list) and len(named) == 2 and named[0] == connector):
                continue
            if isinstance(offset, dict) and isinstance(named[1], dict):
                found[_same(named[1])] = (named[1], offset, key, place)
            else:
                found.pop(_same(named[1]), None)
        return list(found.values())

    def _records(self, topic: str) -> Iterator[tuple[bytes, bytes | None, int]]:
        """Yield all records that are in the topic now."""
        deadline = time.monotonic() + _TIMEOUT_S
        client = self._access.consumer("cooperator-offsets", lambda error: None)
        with closing_aside(client, f"consumer of {topic}") as consumer:
            try:
                places = self._places(consumer, topic)
                consumer.assign([TopicPartition(topic, place, OFFSET_BEGINNING) for place in places])
                while places:
                    message = consumer.poll(max(0.0, min(1.0, deadline - time.monotonic())))
                    if time.monotonic() > deadline:
                        raise LogUnavailable(f"{topic} could not be read to its end within {_TIMEOUT_S:g} s")
                    if message is None:
                        continue
                    error = message.error()
                    if error is not None:
                        if error.code() != KafkaError._PARTITION_EOF:
                            raise LogUnavailable(f"{topic}: {error_text(error)}")
                        places.discard(message.partition())
                        continue
                    if (key := message.key()) is not None:
                        yield _bytes(key), _bytes(message.value()), message.partition() or 0
            except KafkaException as error:
                raise LogUnavailable(f"{topic}: {error_text(error)}") from None

    def _places(self, consumer: Consumer, topic: str) -> set[int]:
        described = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if described.error is not None:
            if described.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return set()
            raise LogUnavailable(f"{topic}: {error_text(described.error)}")
        return set(described.partitions)

    # --- sinks ---

    def sink(self, group: str) -> dict[tuple[str, int], int]:
        """Return what a consumer group has committed, by topic and partition."""
        try:
            asked = [ConsumerGroupTopicPartitions(group)]
            with self._asking() as admin:
                answers = admin.list_consumer_group_offsets(asked, request_timeout=_TIMEOUT_S)
                found = _checked(result_of(answers[group]))
        except KafkaException as error:
            if error.args[0].code() in _EMPTY:
                return {}
            raise LogUnavailable(f"consumer group {group}: {error_text(error)}") from None
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def write_sink(self, group: str, offsets: Mapping[tuple[str, int], int | None]) -> None:
        """Commit these offsets for the group; None forgets one. Raises GroupInUse."""
        forgotten = {place for place, offset in offsets.items() if offset is None}
        wanted = {place: offset for place, offset in offsets.items() if offset is not None}
        if forgotten:
            # The client cannot delete single offsets: delete all, and commit the others again.
            wanted = {**{k: v for k, v in self.sink(group).items() if k not in forgotten}, **wanted}
            self.forget_sink(group)
        if wanted:
            places = [TopicPartition(*place, offset) for place, offset in sorted(wanted.items())]
            self._change(
                group,
                lambda admin: admin.alter_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group, places)], request_timeout=_TIMEOUT_S
                )[group],
            )

    def forget_sink(self, group: str) -> None:
        """Delete all offsets of the group. Raises GroupInUse."""
        self._change(
            group,
            lambda admin: admin.delete_consumer_groups([group], request_timeout=_TIMEOUT_S)[group],
        )

    def _change(self, group: str, ask: Callable[[AdminClient], "Future[Any]"]) -> None:
        try:
            with self._asking() as admin:
                _checked(result_of(ask(admin)))
        except KafkaException as error:
            code = error.args[0].code()
            if code in _EMPTY:
                return
            if code in _IN_USE:
                raise GroupInUse(group) from None
            raise LogUnavailable(f"consumer group {group}: {error_text(error)}") from None

    def _asking(self) -> AbstractContextManager[AdminClient]:
        return closing_aside(self._access.admin(lambda error: None), "client for requests about groups")


def _checked(answer: ConsumerGroupTopicPartitions | None) -> list[TopicPartition]:
    """Check each partition: a successful answer may still have failed for some. Raises KafkaException."""
    found = (answer.topic_partitions if answer is not None else None) or []
    for place in found:
        if place.error is not None:
            raise KafkaException(place.error)
    return found


def _same(partition: object) -> str:
    return json.dumps(partition, sort_keys=True)


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def kafka_cluster_id(bootstrap_servers: str, security: Mapping[str, Any]) -> str:
    """Return Kafka's cluster id; empty when the broker does not answer."""
    client = Access.of(bootstrap_servers, security).admin(lambda error: None)
    try:
        with closing_aside(client, "client for requests about the cluster") as admin:
            return str(result_of(admin.describe_cluster(request_timeout=5.0)).cluster_id or "")
    except KafkaException:
        return ""
