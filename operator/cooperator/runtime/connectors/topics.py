"""What connectors ask Kafka about topics, and the options by which they find it."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from cooperator.runtime.connectors.access import KafkaOptions, of_librdkafka

log = logging.getLogger(__name__)

_TIMEOUT_S = 5.0


class KafkaUnavailable(ConnectionError):
    """Kafka gives no answer, or not the one that was hoped for; the message says where and what."""


@contextmanager
def reaching(options: KafkaOptions) -> Iterator[None]:
    """What the client raises inside, in words."""
    try:
        yield
    except KafkaException as error:
        detail: KafkaError = error.args[0]
        raise KafkaUnavailable(f"Kafka at {options.bootstrap_servers}: {detail.str()}") from error


def client_config(options: KafkaOptions) -> dict[str, Any]:
    """Properties of every client of confluent-kafka."""
    return {**of_librdkafka(options), "client.id": "cooperator"}


@contextmanager
def _asking(client: Mapping[str, Any]) -> Iterator[AdminClient]:
    """A client for requests, which end with it. That brokers did not let it in is told, where its requests
    only time out."""
    refused: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            refused.append(error)

    # Each try to connect would be a line of the log, many in a second: the error says it once.
    settings: dict[str, Any] = {**client, "error_cb": note, "log_level": 0}
    admin = AdminClient(settings)
    try:
        yield admin
    except KafkaException as error:
        admin.poll(0)
        if refused:
            raise KafkaException(refused[-1]) from error
        raise


def partition_counts(client: Mapping[str, Any], topics: Iterable[str]) -> dict[str, int]:
    """The number of partitions of each topic; 0: it does not exist (asking does not create it)."""

    def count(future: Any) -> int:
        try:
            return len(future.result().partitions)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0
            raise

    with _asking(client) as admin:
        futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_TIMEOUT_S)
        return {topic: count(future) for topic, future in futures.items()}


def matching_topics(client: Mapping[str, Any], wanted: Callable[[str], bool]) -> dict[str, int]:
    """The topics whose names are ``wanted``, sorted by name, and their numbers of partitions."""
    with _asking(client) as admin:
        found = admin.list_topics(timeout=_TIMEOUT_S).topics
    return {
        name: len(found[name].partitions) for name in sorted(found) if wanted(name) and found[name].partitions
    }


def grow_topic(client: Mapping[str, Any], topic: str, partitions: int) -> None:
    """Adds partitions until there are as many, where there are fewer."""
    if 0 < partition_counts(client, [topic])[topic] < partitions:
        with _asking(client) as admin:
            wanted = [NewPartitions(topic, partitions)]
            admin.create_partitions(wanted, request_timeout=_TIMEOUT_S)[topic].result()
        log.info("topic %s has %d partitions now", topic, partitions)


def ensure_topic(
    client: Mapping[str, Any],
    topic: str,
    partitions: int,
    replication: int,
    config: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> None:
    """Creates the topic unless it exists. ``replication`` -1: as the broker's default."""
    new = NewTopic(
        topic, num_partitions=partitions, replication_factor=replication, config=dict(config or {})
    )
    try:
        with _asking(client) as admin:
            admin.create_topics([new], request_timeout=timeout_s)[topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    else:
        log.info("created topic %s with %d partitions", topic, partitions)
