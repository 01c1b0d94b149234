"""Kafka requests about topics for connectors, and their client properties."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from cooperator.connectors.access import KafkaOptions, of_librdkafka
from cooperator.connectors.options import OptionError, Problem, resolved_options
from cooperator.connectors.references import Resolver, own_topics
from cooperator.log_lines import LibrdkafkaLog
from cooperator.supervision import closing_aside

log = logging.getLogger(__name__)

_TIMEOUT_S = 5.0
_ANSWERED_S = 90.0
"""Longer than the time-out of every request, after which the library answers by itself."""
FAILURE_S: Final = 10.0
"""For so long brokers that did not say their cluster's id are not asked again."""
_FORBIDDEN = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class KafkaUnavailable(ConnectionError):
    """Kafka does not answer, or answers with an error; the message names the brokers and the error."""


@contextmanager
def reaching(options: KafkaOptions) -> Iterator[None]:
    """Raises ``KafkaUnavailable``, with a readable message, for the client's errors."""
    try:
        yield
    except KafkaException as error:
        detail: KafkaError = error.args[0]
        raise KafkaUnavailable(f"Kafka at {options.bootstrap_servers}: {detail.str()}") from error


def refuse_own_topic(group_id: str, option: str, topic: str) -> None:
    """Raises ``OptionError`` for a target that is a topic of the Worker's own group."""
    if topic in own_topics(group_id):
        problem = "is a topic of the Worker's own group"
        raise OptionError([Problem(option, topic, problem, "use another topic")])


def client_config(options: KafkaOptions) -> dict[str, Any]:
    """Returns the properties of every confluent-kafka client."""
    return {**of_librdkafka(options), "client.id": "cooperator"}


@contextmanager
def _asking(client: Mapping[str, Any]) -> Iterator[AdminClient]:
    """Yields a client for requests and ends it afterwards.

    If brokers refused the connection, that error is raised in place of the requests' timeouts. That error's
    frames hold the client, and librdkafka's own thread may be the last one to hold the error: it would abort
    the process if it ended its client.
    """
    refused: list[KafkaError] = []

    def note(error: KafkaError) -> None:
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            refused.append(error)

    # Each connection attempt would log a line, many in a second: the error reports it once.
    settings: dict[str, Any] = {**client, "error_cb": note, "log_level": 0}
    with closing_aside(AdminClient(settings), "client for requests about topics") as admin:
        try:
            yield admin
        except KafkaException as error:
            admin.poll(0)
            if refused:
                raise KafkaException(refused[-1]) from error
            raise


class GroupCluster:
    """The Kafka cluster of a Worker's group. Its id is asked for once.

    A failure is remembered for ``FAILURE_S``, so that of many tasks that start while no broker answers only
    the first waits for the time-out. ``now`` is a monotonic clock, in seconds. Thread-safe: callers at the
    same time wait for one answer.
    """

    def __init__(self, resolver: Resolver, now: Callable[[], float] = time.monotonic) -> None:
        self._resolver = resolver
        self._now = now
        self._id = ""
        self._failure = ""
        self._failed_until = float("-inf")
        self._lock = threading.Lock()

    def id(self) -> str:
        """Returns the cluster's id; empty if no brokers are known. Raises ``KafkaUnavailable``."""
        with self._lock:
            if self._id or not self._resolver.bootstrap_servers:
                return self._id
            if self._now() < self._failed_until:
                raise KafkaUnavailable(self._failure)
            try:
                self._id = self._ask()
            except KafkaUnavailable as error:
                self._failure, self._failed_until = str(error), self._now() + FAILURE_S
                raise
            return self._id

    def _ask(self) -> str:
        config = {"connector.class": "cluster"}
        options, _, _ = resolved_options(KafkaOptions, config, self._resolver)
        with reaching(options), _asking(client_config(options)) as admin:
            return admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_ANSWERED_S).cluster_id or ""

    def id_if_known(self) -> str:
        """Like ``id``; empty if no broker answers. For checks that an outage must not turn into a failure."""
        try:
            return self.id()
        except KafkaUnavailable:
            return ""


def partition_counts(
    client: Mapping[str, Any], topics: Iterable[str], timeout_s: float = _TIMEOUT_S
) -> dict[str, int]:
    """Returns each topic's number of partitions; 0: it does not exist. The request does not create it."""

    def count(future: Any) -> int:
        try:
            return len(future.result(_ANSWERED_S).partitions)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0
            raise

    with _asking(client) as admin:
        futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_s)
        return {topic: count(future) for topic, future in futures.items()}


def end_offsets(
    client: Mapping[str, Any], group: str, topic: str, partitions: Iterable[int], timeout_s: float
) -> dict[int, int]:
    """Returns the ends (high watermarks) of a topic's partitions. Raises KafkaException.

    ``group`` names the client to the brokers; it becomes no member.
    """
    settings = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    consumer = Consumer({**client, **settings}, logger=LibrdkafkaLog(log))
    with closing_aside(consumer, f"consumer of the ends of {topic}"):
        places = [TopicPartition(topic, number) for number in partitions]
        found = offsets_at(consumer, places, OFFSET_END, timeout_s)
        return {place.partition: offset for place, offset in found.items()}


def offsets_at(
    consumer: Consumer, places: Iterable[TopicPartition], end: int, timeout_s: float
) -> dict[TopicPartition, int]:
    """Returns an end of each partition, by one request to each broker. Raises KafkaException.

    ``end``: ``OFFSET_BEGINNING``, or ``OFFSET_END``: for a consumer with read_committed, the last stable
    offset. A consumer asks, since librdkafka aborts the process if a broker comes back while an
    ``AdminClient`` lists offsets (librdkafka's issue 3663).
    """
    asked = [TopicPartition(place.topic, place.partition, end) for place in places]
    found: dict[TopicPartition, int] = {}
    try:
        for each in consumer.offsets_for_times(asked, timeout=timeout_s) if asked else ():
            if each.error is not None:
                raise KafkaException(each.error)
            found[TopicPartition(each.topic, each.partition)] = int(each.offset)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        reason = "a partition has no leader, or does not exist"
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, reason)) from error
    return found


def matching_topics(client: Mapping[str, Any], wanted: Callable[[str], bool]) -> dict[str, int]:
    """Returns the topics whose names are ``wanted``, sorted by name, with their partition counts."""
    with _asking(client) as admin:
        found = admin.list_topics(timeout=_TIMEOUT_S).topics
    return {
        name: len(found[name].partitions) for name in sorted(found) if wanted(name) and found[name].partitions
    }


def grow_topic(client: Mapping[str, Any], topic: str, partitions: int) -> None:
    """Adds partitions up to that number if the topic has fewer."""
    if 0 < partition_counts(client, [topic])[topic] < partitions:
        with _asking(client) as admin:
            wanted = [NewPartitions(topic, partitions)]
            admin.create_partitions(wanted, request_timeout=_TIMEOUT_S)[topic].result(_ANSWERED_S)
        log.info("topic %s has %d partitions now", topic, partitions)


class TopicMisconfigured(Exception):
    """The topic exists but cannot serve its purpose. The message names the setting and the remedy."""


def ensure_topic(
    client: Mapping[str, Any],
    topic: str,
    partitions: int,
    replication: int,
    config: Mapping[str, str] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> None:
    """Creates the topic unless it exists. ``replication`` -1 is the broker's default.

    Raises TopicMisconfigured if it exists and is to be compacted by ``config``, but is not.
    """
    new = NewTopic(
        topic, num_partitions=partitions, replication_factor=replication, config=dict(config or {})
    )
    try:
        with _asking(client) as admin:
            admin.create_topics([new], request_timeout=timeout_s)[topic].result(_ANSWERED_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        if "cleanup.policy" in (config or {}):
            _check_compacted(client, topic, timeout_s)
    else:
        log.info("created topic %s with %d partitions", topic, partitions)


def _check_compacted(client: Mapping[str, Any], topic: str, timeout_s: float) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        with _asking(client) as admin:
            asked = admin.describe_configs([resource], request_timeout=timeout_s)[resource]
            described = asked.result(_ANSWERED_S)
    except KafkaException as error:
        if error.args[0].code() not in _FORBIDDEN:
            raise
        log.warning("topic %s: its cleanup.policy cannot be checked: %s", topic, error)
        return
    policy = described["cleanup.policy"].value
    if policy != "compact":
        raise TopicMisconfigured(
            f"topic {topic} has cleanup.policy={policy}, under which batch markers expire and rows "
            f"could be written twice; run kafka-configs --alter"
            f" --entity-type topics --entity-name {topic} "
            "--add-config cleanup.policy=compact"
        )
