"""The logs on Kafka."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException

from cooperator.logs.config_log import ConfigLog
from cooperator.logs.errors import LogUnavailable
from cooperator.logs.kafka_clients import Clients
from cooperator.logs.kafka_outlet import KafkaOutlet
from cooperator.logs.kafka_settings import error_text
from cooperator.logs.kafka_tail import KafkaTail
from cooperator.logs.kafka_topics import count_partitions, ensure_topic
from cooperator.logs.kafka_transactor import KafkaTransactor
from cooperator.logs.leader_log import LeaderLog, LeaderState
from cooperator.logs.logs import Logs, LogsConfig, ensure_topics_of
from cooperator.logs.transport import Follower
from cooperator.logs.trouble import OnTrouble, Troubles
from cooperator.model import ClusterConfig


class KafkaTransport:
    """A Transport of one group's logs. ``on_trouble`` is told of readers and of writers that wait."""

    def __init__(
        self,
        bootstrap_servers: str,
        group_id: str,
        security: Mapping[str, Any],
        on_trouble: OnTrouble | None = None,
    ) -> None:
        self._clients = Clients(bootstrap_servers, group_id, security)
        self._troubles = Troubles(on_trouble)

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        with self._clients.sharing() as shared:
            try:
                ensure_topic(shared.admin(), topic, partitions, replication_factor, timeout_ms)
            except LogUnavailable as error:
                refused = shared.refused()
                raise (LogUnavailable(f"topic {topic}: {refused}") if refused else error) from error.__cause__

    def has_topic(self, topic: str, timeout_ms: int) -> bool:
        """Whether there is one; asking makes none. Raises LogUnavailable."""
        try:
            with self._clients.sharing() as shared:
                return count_partitions(shared.admin(), topic, timeout_ms / 1000) is not None
        except KafkaException as error:
            servers = self._clients.bootstrap_servers
            raise LogUnavailable(f"topic {topic}: Kafka at {servers}: {error_text(error)}") from error

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Its clients live from one call to the next, for as long as this lasts."""
        with self._clients.sharing():
            yield

    def tail(self, topic: str, follower: Follower) -> KafkaTail:
        return KafkaTail(self._clients, topic, follower, self._troubles)

    def outlet(self, topic: str) -> KafkaOutlet:
        return KafkaOutlet(self._clients, topic, self._troubles)

    def transactor(self, transactional_id: str, timeout_ms: int) -> KafkaTransactor:
        return KafkaTransactor(self._clients, transactional_id, timeout_ms)


def open_logs(config: LogsConfig, on_trouble: OnTrouble | None = None) -> Logs:
    """The logs of a group, followed from now on; does not wait for the broker.

    ``on_trouble`` is called from any thread with what is wrong, within seconds, and with "" when that is
    over. Raises ValueError for a security setting that is unknown.
    """
    return Logs(_transport(config, on_trouble), config)


@dataclass(frozen=True, slots=True)
class LogsRead:
    """What the logs of a group say; None where the topic does not exist."""

    config: ClusterConfig | None
    leader: LeaderState | None


def read_logs(config: LogsConfig, timeout_ms: int = 10_000) -> LogsRead:
    """Read config and leader log to their ends, once; nothing is created, written or committed.

    ``timeout_ms``: for each of the logs. Raises LogUnavailable, LogUnreadable.
    """
    # A name of its own: to the broker this reader has nothing to do with the group.
    transport = KafkaTransport(config.bootstrap_servers, f"{config.group_id}-onlooker", config.security)
    topics = config.topic_names
    cluster: ClusterConfig | None = None
    state: LeaderState | None = None
    with transport.kept():
        if transport.has_topic(topics.config, timeout_ms):
            with closing(ConfigLog(transport, topics.config)) as configs:
                cluster = configs.read_to_end(timeout_ms)
        if transport.has_topic(topics.leader, timeout_ms):
            with closing(LeaderLog(transport, topics.leader)) as leader:
                state = leader.read_to_end(timeout_ms)
    return LogsRead(cluster, state)


def ensure_topics(config: LogsConfig, replication_factor: int = -1, timeout_ms: int = 10_000) -> None:
    """Create the group's compacted topics where they are missing, and check those that are there.

    ``replication_factor``: -1 for the broker's default. ``timeout_ms``: for each topic. Raises
    TopicMisconfigured, LogUnavailable.
    """
    transport = _transport(config, None)
    with transport.kept():
        ensure_topics_of(transport, config.topic_names, replication_factor, timeout_ms)


def _transport(config: LogsConfig, on_trouble: OnTrouble | None) -> KafkaTransport:
    return KafkaTransport(config.bootstrap_servers, config.group_id, config.security, on_trouble)
