"""The logs on Kafka."""

from collections.abc import Mapping
from typing import Any

from cooperator.logs.kafka_clients import Clients
from cooperator.logs.kafka_outlet import KafkaOutlet
from cooperator.logs.kafka_tail import KafkaTail
from cooperator.logs.kafka_topics import ensure_topic
from cooperator.logs.kafka_transactor import KafkaTransactor
from cooperator.logs.logs import Logs, LogsConfig, ensure_topics_of
from cooperator.logs.transport import Follower
from cooperator.logs.trouble import OnTrouble, Troubles


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
        ensure_topic(self._clients.admin(), topic, partitions, replication_factor, timeout_ms)

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


def ensure_topics(config: LogsConfig, replication_factor: int = -1, timeout_ms: int = 10_000) -> None:
    """Create the group's compacted topics where they are missing, and check those that are there.

    ``replication_factor``: -1 for the broker's default. ``timeout_ms``: for each topic. Raises
    TopicMisconfigured, LogUnavailable.
    """
    ensure_topics_of(_transport(config, None), config.topic_names, replication_factor, timeout_ms)


def _transport(config: LogsConfig, on_trouble: OnTrouble | None) -> KafkaTransport:
    return KafkaTransport(config.bootstrap_servers, config.group_id, config.security, on_trouble)
