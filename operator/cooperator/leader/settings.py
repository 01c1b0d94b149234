"""The operator's settings for one group that it leads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.plugins import installed_assignors
from cooperator.leader.state import LeaderSettings
from cooperator.leader.tls import ServerCertificates
from cooperator.logs import Gate, LogsConfig, Topics, open_gate
from cooperator.model import Policy
from cooperator.wire import Owner
from cooperator.wire.signature import DEFAULT_ALGORITHM


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """One group to lead.

    * ``advertised_host``: the host by which members reach it; ``host`` when empty.
    * ``tls``: the endpoint serves https with it; None: http.
    * ``group_security``, ``log_security``: settings of kafka-python and of confluent-kafka; never shown.
    * ``topics``: those of a Connect cluster; None for ours.
    * ``stock_pool``: see ``is_of_pool``.
    * ``exactly_once_source``: the workers' exactly.once.source.support is on.
    * ``session_key_…``: as the workers' inter.worker.key settings.

    The session time-out is longer than a normal restart of the operator and shorter than every member's
    rebalance time-out. Otherwise an elected member would count the absent leader as a worker.
    """

    bootstrap_servers: str
    group_id: str
    owner: Owner
    group_policy: GroupPolicy = GroupPolicy.CREATE
    policy: Policy = field(default_factory=Policy)
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str = ""
    tls: ServerCertificates | None = None
    session_timeout_ms: int = 25_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 30_000
    topics: Topics | None = None
    stock_pool: str = ""
    exactly_once_source: bool = False
    session_key_ttl_ms: int = 3_600_000
    session_key_algorithm: str = DEFAULT_ALGORITHM
    session_key_bytes: int = 32
    group_security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    log_security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def logs_config(self, gate: Gate = open_gate) -> LogsConfig:
        """The location of the group's logs, and the transactional id with which the lead writes them."""
        # With exactly-once sources a Java leader writes under the same id, so that each fences the other.
        java_id = f"connect-cluster-{self.group_id}" if self.exactly_once_source else ""
        return LogsConfig(
            self.bootstrap_servers,
            self.group_id,
            security=self.log_security,
            topics=self.topics,
            transactional_id=java_id,
            gate=gate,
            adopts=self.group_policy is GroupPolicy.ADOPT,
        )

    def leader_settings(self, url: str) -> LeaderSettings:
        """The settings of the machine of a leader at ``url``."""
        return LeaderSettings(
            url=url,
            awaited_ms=self.rebalance_timeout_ms + self.heartbeat_interval_ms,
            session_key_ttl_ms=self.session_key_ttl_ms,
            session_key_algorithm=self.session_key_algorithm,
            session_key_bytes=self.session_key_bytes,
            owns_config=self.group_policy is GroupPolicy.CREATE,
            stock_pool=self.stock_pool,
            group_id=self.group_id,
            config_topic=self.logs_config().topic_names.config,
            assignors=installed_assignors(),
        )
