"""Clients that keep an old epoch of a leader are replaced: brokers that were away refuse it for good."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cooperator.connectors import kafka_source, topics
from cooperator.connectors.files_target import KafkaToFilesOptions
from cooperator.connectors.kafka_log import Patience
from cooperator.connectors.microbatch.topic_reader import TopicReader
from cooperator.connectors.options import parse
from cooperator.connectors.topics import KafkaUnavailable


class StaleAdmin:
    """The first client is refused whenever it asks; later ones are answered."""

    made = 0

    @classmethod
    def none_yet(cls) -> type["StaleAdmin"]:
        cls.made = 0
        return cls

    def __init__(self, client: Any, logger: Any = None) -> None:
        StaleAdmin.made += 1
        self._is_stale = StaleAdmin.made == 1

    def list_offsets(self, places: Any, **more: Any) -> dict[Any, Future[Any]]:
        answers = {place: Future[Any]() for place in places}
        for answer in answers.values():
            if self._is_stale:
                answer.set_exception(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)))
            else:
                answer.set_result(type("Offsets", (), {"offset": 0}))
        return answers


class StaleConsumer:
    """As ``StaleAdmin``, of a consumer."""

    made = 0

    def __init__(self, settings: Mapping[str, Any], logger: Any = None) -> None:
        StaleConsumer.made += 1
        self._is_stale = StaleConsumer.made == 1

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        if self._is_stale:
            raise KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))
        return 0, 0

    def close(self) -> None:
        """Nothing is open."""


def test_a_reader_asks_with_another_client_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StaleConsumer, "made", 0)
    monkeypatch.setattr(topics, "Consumer", StaleConsumer)
    said: list[str] = []
    patience = Patience(threading.Event(), said.append, "broker:9092")
    reader = TopicReader({"bootstrap.servers": "broker:9092"}, "lake-positions", [0])
    assert reader.read(lambda ledger: ledger.units("copy"), patience) == frozenset()
    assert (StaleConsumer.made, said[-1]) == (2, "")


def test_the_lag_is_known_again_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka_source._admin.cache_clear()
    monkeypatch.setattr(kafka_source, "AdminClient", StaleAdmin.none_yet())
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
    kafka_source._admin.cache_clear()
