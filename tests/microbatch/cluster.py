"""A Kafka cluster as tests see it: topics, records and transactions, and what readers find."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.topics import ensure_topic, partition_counts
from tests.harness.support import eventually


class Found(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Cluster:
    def __init__(self, servers: str) -> None:
        self.client: dict[str, Any] = {"bootstrap.servers": servers}
        self.java = {"bootstrap.servers": servers}
        self.admin = AdminClient(self.client)

    def create(self, topic: str, partitions: int = 1, **config: str) -> list[Partition]:
        """Creates a topic; settings have underscores for dots."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        ensure_topic(self.client, topic, partitions, 1, settings)
        eventually(lambda: partition_counts(self.client, [topic])[topic] == partitions)
        return [Partition(topic, number) for number in range(partitions)]

    def produce(self, partition: Partition, values: Iterable[bytes], key: bytes | None = None) -> None:
        producer = Producer(self.client)
        for value in values:
            producer.produce(partition.topic, value, key, partition.number)
        assert producer.flush(30) == 0

    def fill(self, partitions: Sequence[Partition], count: int) -> None:
        """Writes ``count`` records to each partition, whose values name their place."""
        producer = Producer(self.client)
        for partition in partitions:
            for number in range(count):
                producer.produce(partition.topic, f"{partition}:{number}", b"k", partition.number)
            producer.poll(0)
        assert producer.flush(60) == 0

    def transact(self, partition: Partition, values: Iterable[bytes], *, abort: bool = False) -> None:
        """Writes records and a marker in a transaction of their own."""
        records = list(values)
        end = self.end(partition) + len(records) + 1
        producer = self.transaction(f"test-{time.monotonic_ns()}", partition, records)
        if abort:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        # The broker answers before it has written the marker.
        eventually(lambda: self.end(partition) >= end, what="the marker is in the partition")

    def transaction(self, id: str, partition: Partition, values: Iterable[bytes]) -> Producer:
        """Returns a producer with an open transaction, whose records have arrived."""
        producer = Producer({**self.client, "transactional.id": id})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(partition.topic, value, partition=partition.number)
        assert producer.flush(30) == 0
        return producer

    def end(self, partition: Partition, *, committed: bool = False) -> int:
        """The high watermark, or the last stable offset."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = TopicPartition(partition.topic, partition.number)
        latest: OffsetSpec = OffsetSpec.latest()
        return int(self.admin.list_offsets({asked: latest}, isolation_level=level)[asked].result(30).offset)

    def delete_before(self, partition: Partition, offset: int) -> None:
        asked = TopicPartition(partition.topic, partition.number, offset)
        for future in self.admin.delete_records([asked]).values():
            future.result(30)

    def read(self, topic: str, *, committed: bool = True) -> list[Found]:
        """All records of a topic, by partition and offset."""
        consumer = Consumer(
            {
                **self.client,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
            }
        )
        found: list[Message] = []
        try:
            for number in range(partition_counts(self.client, [topic])[topic]):
                consumer.assign([TopicPartition(topic, number, 0)])
                while (message := consumer.poll(10)) is not None and message.error() is None:
                    found.append(message)
                assert message is not None, "no end of the partition within 10 s"
        finally:
            consumer.close()
        return [Found(each.partition(), each.offset(), each.key(), each.value()) for each in found]

    def last_values(self, topic: str) -> Mapping[bytes, bytes]:
        """The last committed value of each key."""
        return {each.key or b"": each.value or b"" for each in self.read(topic)}
