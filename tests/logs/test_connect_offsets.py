"""Offsets of stock connectors, read and changed on a real broker."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cooperator.local.broker import EmbeddedBroker
from cooperator.logs.connect_offsets import ConnectOffsets, GroupInUse
from tests.harness.support import eventually

pytestmark = pytest.mark.real


def topic_of(broker: EmbeddedBroker, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == 2, 60)
    return name


def test_offsets_of_a_sinks_group_are_read_moved_and_deleted(broker: EmbeddedBroker, unique: str) -> None:
    topic, group = topic_of(broker, unique), f"connect-{unique}"
    offsets = ConnectOffsets(broker.bootstrap_servers, {})
    assert offsets.sink(group) == {}

    offsets.write_sink(group, {(topic, 0): 5, (topic, 1): 7})
    assert offsets.sink(group) == {(topic, 0): 5, (topic, 1): 7}
    offsets.write_sink(group, {(topic, 0): None})
    assert offsets.sink(group) == {(topic, 1): 7}
    offsets.forget_sink(group)
    assert offsets.sink(group) == {}


def test_offsets_of_a_sinks_group_with_members_are_not_changed(broker: EmbeddedBroker, unique: str) -> None:
    topic, group = topic_of(broker, unique), f"connect-{unique}"
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])

        def joined() -> bool:
            consumer.poll(0.2)
            return bool(consumer.assignment())

        eventually(joined, 60, "the consumer is in its group")
        consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        offsets = ConnectOffsets(broker.bootstrap_servers, {})
        with pytest.raises(GroupInUse):
            offsets.write_sink(group, {(topic, 0): 1})
        with pytest.raises(GroupInUse):
            offsets.forget_sink(group)
        assert offsets.sink(group) == {(topic, 0): 3}
    finally:
        consumer.close()


def test_offsets_of_a_source_keep_the_keys_that_its_worker_wrote(broker: EmbeddedBroker, unique: str) -> None:
    """Java's converter puts no space after a comma; another key would belong to another partition."""
    topic = topic_of(broker, unique)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, key=b'["a",{"file":"x","n":1}]', value=b'{"position":14}', partition=1)
    producer.produce(topic, key=b'["b",{"file":"x"}]', value=b'{"position":1}', partition=0)
    assert producer.flush(30) == 0

    offsets = ConnectOffsets(broker.bootstrap_servers, {})
    offsets.write_source(topic, "a", [({"n": 1, "file": "x"}, {"position": 2})])
    assert offsets.source(topic, "a") == [({"file": "x", "n": 1}, {"position": 2})]
    offsets.write_source(topic, "a", [({"file": "x", "n": 1}, None)])
    assert offsets.source(topic, "a") == []
    assert offsets.source(topic, "b") == [({"file": "x"}, {"position": 1})]
