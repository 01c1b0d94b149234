"""The logs' transport on Kafka."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from cooperator.logs.config_log import ConfigLog
from cooperator.logs.errors import LogUnavailable, TopicMisconfigured
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.settings import error_text
from cooperator.logs.kafka.topic_reader import KafkaTopicReader
from cooperator.logs.kafka.topic_writer import KafkaTopicWriter
from cooperator.logs.kafka.topics import count_partitions, ensure_topic, topic_record_bytes
from cooperator.logs.kafka.transactor import KafkaTransactor
from cooperator.logs.leader_log import LeaderLog, LeaderRecords
from cooperator.logs.logs import Logs, LogsConfig, ensure_topics_of
from cooperator.logs.outages import OnOutage, Outages
from cooperator.logs.transport import Follower
from cooperator.model import ClusterConfig

_GROUPS: Final = "__consumer_offsets"
logger = logging.getLogger(__name__)


class KafkaTransport:
    """A Transport of one group's logs. ``on_outage`` is called for blocked readers and writers."""

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        security: Mapping[str, Any],
        on_outage: OnOutage | None = None,
    ) -> None:
        self._clients = Clients(bootstrap_servers, group_id, security)
        self._outages = Outages(on_outage)

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        with self._clients.sharing() as shared:
            try:
                ensure_topic(shared.admin(), topic, partitions, replication_factor, timeout_ms)
            except LogUnavailable as error:
                cause = error.__cause__
                if not isinstance(cause, KafkaException):
                    raise
                raise self._unavailable(topic, cause, shared.refused()) from cause

    def has_topic(self, topic: str, timeout_ms: int) -> bool:
        """Return whether the topic exists, without creating it. Raises LogUnavailable."""
        with self._clients.sharing() as shared:
            try:
                return count_partitions(shared.admin(), topic, timeout_ms / 1000) is not None
            except KafkaException as error:
                raise self._unavailable(topic, error, shared.refused()) from error

    def group_record_bytes(self, timeout_ms: int) -> int | None:
        """Return how large the record of a group may be; None where that cannot be read."""
        with self._clients.sharing() as shared:
            try:
                return topic_record_bytes(shared.admin(), _GROUPS, timeout_ms / 1000)
            except KafkaException as error:
                logger.info("the size of a group's record cannot be read: %s", error_text(error))
                return None

    def _unavailable(self, topic: str, error: KafkaException, refused: str) -> LogUnavailable:
        """``refused``: see ``Shared.refused``; an answered request reports its own problem."""
        timed_out = error.args[0].code() in (KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE)
        text = refused if refused and timed_out else error_text(error)
        return LogUnavailable(f"topic {topic}: Kafka at {self._clients.bootstrap_servers}: {text}")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the clients alive between calls for the duration of the block."""
        with self._clients.sharing():
            yield

    def topic_reader(self, topic: str, follower: Follower) -> KafkaTopicReader:
        return KafkaTopicReader(self._clients, topic, follower, self._outages)

    def topic_writer(self, topic: str) -> KafkaTopicWriter:
        return KafkaTopicWriter(self._clients, topic, self._outages)

    def transactor(self, transactional_id: str, timeout_ms: int) -> KafkaTransactor:
        return KafkaTransactor(self._clients, transactional_id, timeout_ms)


def open_logs(config: LogsConfig, on_outage: OnOutage | None = None) -> Logs:
    """Open the logs of a group and follow them from now on; this does not wait for the broker.

    ``on_outage`` is called from any thread with a description of an outage, within seconds, and with "" when
    it is over. Raises ValueError for an unknown security setting.
    """
    return Logs(_transport(config, on_outage), config)


@dataclass(frozen=True, slots=True)
class LogsRead:
    """The content of a group's logs; None where the topic does not exist."""

    config: ClusterConfig | None
    leader: LeaderRecords | None
    config_end: int | None = None
    """Where the config topic ends; see ``ConfigLog.end``."""


def read_logs(config: LogsConfig, timeout_ms: int = 10_000) -> LogsRead:
    """Read config and leader log to their ends, once; nothing is created, written or committed.

    ``timeout_ms``: for each of the logs. Raises LogUnavailable, LogUnreadable.
    """
    # A group id of its own, so that the broker does not associate this reader with the group.
    transport = KafkaTransport(config.bootstrap_servers, f"{config.group_id}-inspector", config.security)
    topics = config.topic_names
    cluster: ClusterConfig | None = None
    end: int | None = None
    state: LeaderRecords | None = None
    with transport.kept():
        if transport.has_topic(topics.config, timeout_ms):
            with closing(ConfigLog(transport, topics.config)) as configs:
                cluster = configs.read_to_end(timeout_ms)
                end = configs.end(timeout_ms)
        if transport.has_topic(topics.leader, timeout_ms):
            with closing(LeaderLog(transport, topics.leader)) as leader:
                state = leader.read_to_end(timeout_ms)
    return LogsRead(cluster, state, end)


def ensure_topics(config: LogsConfig, replication_factor: int = -1, timeout_ms: int = 10_000) -> None:
    """Create the group's missing compacted topics, and check the existing ones.

    The config topic of an adopted group is not created; if it is missing, TopicMisconfigured is raised.
    ``replication_factor``: -1 for the broker's default. ``timeout_ms``: for each topic. Raises
    TopicMisconfigured, LogUnavailable.
    """
    transport = _transport(config, None)
    topic = config.topic_names.config
    with transport.kept():
        if config.adopts and not transport.has_topic(topic, timeout_ms):
            raise TopicMisconfigured(
                f"topic {topic} does not exist, and is not created when a group is adopted: set "
                "spec.connect.topics.config to the config.storage.topic of its workers, or set "
                "spec.groupPolicy to Create for a new group"
            )
        ensure_topics_of(transport, config.topic_names, replication_factor, timeout_ms)


def group_record_bytes(config: LogsConfig, timeout_ms: int = 10_000) -> int | None:
    """Return how many bytes the broker takes for the record of one group.

    The record has the metadata and assignments of all members; the limit is ``max.message.bytes`` of
    ``__consumer_offsets``. None where the topic may not be described, or there has been no group yet.
    """
    transport = _transport(config, None)
    with transport.kept():
        return transport.group_record_bytes(timeout_ms)


def _transport(config: LogsConfig, on_outage: OnOutage | None) -> KafkaTransport:
    return KafkaTransport(config.bootstrap_servers, config.group_id, config.security, on_outage)
