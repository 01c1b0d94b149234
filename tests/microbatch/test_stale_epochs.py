"""Clients that keep an old epoch of a leader are replaced: brokers that were away refuse it for good."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from cooperator.connectors import kafka_source, topics
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.microbatch.topic_reader import TopicReader
from cooperator.connectors.options import parse
from cooperator.connectors.topics import KafkaUnavailable


class StaleConsumer:
    """The first client is refused whenever it asks; later ones are answered.

    Those of other threads, such as a shared Spark's, do not count.
    """

    counted = threading.local()

    def __init__(self, settings: Mapping[str, Any], logger: Any = None) -> None:
        self.counted.made = getattr(self.counted, "made", 0) + 1
        self._is_stale = self.counted.made == 1

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self._is_stale:
            raise KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))
        return [TopicPartition(each.topic, each.partition, 0) for each in asked]

    def close(self) -> None:
        """Nothing is open."""


def test_a_reader_asks_with_another_client_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaleConsumer, "counted", threading.local())
    monkeypatch.setattr(topics, "Consumer", StaleConsumer)
    said: list[str] = []
    patience = Patience(threading.Event(), said.append, "broker:9092")
    reader = TopicReader({"bootstrap.servers": "broker:9092"}, "lake-positions", [0])
    assert reader.read(lambda ledger: ledger.units("copy"), patience) == frozenset()
    assert (StaleConsumer.counted.made, said[-1]) == (2, "")


def test_the_lag_is_known_again_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka_source._consumer.cache_clear()
    monkeypatch.setattr(StaleConsumer, "counted", threading.local())
    monkeypatch.setattr(kafka_source, "Consumer", StaleConsumer)
    config = {
        "topics": "a",
        "bootstrap.servers": "stale:9092",
        "connector.class": "kafka-to-files",
        "path": "/a",
    }
    options = parse(KafkaToFilesOptions, config)
    with pytest.raises(KafkaUnavailable):
        kafka_source.partition_lag(options, {"a-0": '{"a":{"0":0}}'})
    assert kafka_source.partition_lag(options, {"a-0": '{"a":{"0":0}}'}) == 0
    kafka_source._consumer.cache_clear()
