"""The start options of a member's process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from cooperator.agent.state import Settings
from cooperator.group import GroupConfig
from cooperator.logs import LogsConfig, Topics
from cooperator.runtime import RuntimeSettings
from cooperator.wire import Role


class RuntimeKind(StrEnum):
    SPARK = "spark"
    INLINE = "inline"
    """No Spark: connectors of class ``noop`` only."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of one member of one group. Raises ValueError that names the field, its value and the remedy.

    * ``identity``: the pod's name, which survives restarts.
    * ``incarnation``: unique per start of the process.
    * ``state_dir``: private to this member.
    * ``checkpoints``: shared by all members of the Worker.
    * ``host``, ``port``: where the endpoint listens; port 0 is any free port.
    * ``advertised_host``: the host by which others reach the endpoint; ``host`` when empty.
    * ``lease_ms``: applies until an assignment gives another.
    * ``kill_after_ms``: a task that still runs this long after the lease has ended is killed with its
      process. Must be less than the policy's lease margin.
    * ``revocation_timeout_ms``: a revoked task that has not stopped after this ends the member.
    * ``group_security``, ``log_security``: settings of kafka-python and of confluent-kafka; never shown.
    * ``leader_ca``: PEM file by which leaders that serve https are verified.
    * ``topics``: those of an adopted Connect cluster.
    * ``reconciles``: offer the group reconciliation without rounds when its policy asks for it; without it,
      the member is like those of earlier releases.

    For the others see GroupConfig, RuntimeSettings and AgentReport.
    """

    group_id: str
    bootstrap_servers: str
    identity: str
    incarnation: str
    state_dir: Path
    checkpoints: Path | str
    host: str = "127.0.0.1"
    port: int = 0
    advertised_host: str = ""
    runtime: RuntimeKind = RuntimeKind.SPARK
    capacity: float = 1.0
    zone: str = ""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 30_000
    lease_ms: int = 40_000
    kill_after_ms: int = 4_000
    revocation_timeout_ms: int = 60_000
    drain_timeout_ms: int = 300_000
    heap_mb: int = 1024
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    spark_packages: tuple[str, ...] = ()
    spark_jars: tuple[Path, ...] = ()
    env_allowed: frozenset[str] = frozenset()
    allowed_files: tuple[str, ...] = ()
    allowed_paths: tuple[str, ...] = ()
    journal: Path | None = None
    leader_ca: Path | None = None
    topics: Topics | None = None
    reconciles: bool = True
    group_security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    log_security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("identity", "incarnation"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: set it")
        for name in ("lease_ms", "kill_after_ms", "drain_timeout_ms", "revocation_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be greater than 0")
        if not self.capacity > 0:
            raise ValueError(f"capacity is {self.capacity}: it must be greater than 0")
        if self.host in ("0.0.0.0", "::", "") and not self.advertised_host:
            raise ValueError(
                f"host {self.host!r} means all addresses: set advertised_host, at which others reach this "
                "member"
            )
        silence_ms = self.rebalance_timeout_ms + self.heartbeat_interval_ms
        if self.lease_ms <= silence_ms:
            raise ValueError(
                f"lease_ms {self.lease_ms}: must be greater than rebalance_timeout_ms + "
                "heartbeat_interval_ms "
                f"({silence_ms}), or tasks would stop in every slow round"
            )
        self.group_config()

    @property
    def learns(self) -> bool:
        """Whether the member can learn the state of tasks that others run."""
        return self.runtime is RuntimeKind.SPARK

    def group_config(self) -> GroupConfig:
        return GroupConfig(
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.group_id,
            client_id=f"{self.identity}-{self.incarnation}",
            role=Role.WORKER,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            security=self.group_security,
        )

    def logs_config(self) -> LogsConfig:
        return LogsConfig(
            self.bootstrap_servers, self.group_id, security=self.log_security, topics=self.topics
        )

    def runtime_settings(self) -> RuntimeSettings:
        return RuntimeSettings(
            member=self.identity,
            incarnation=self.incarnation,
            checkpoints=self.checkpoints,
            state_dir=self.state_dir,
            group_id=self.group_id,
            bootstrap_servers=self.bootstrap_servers,
            spark_conf=self.spark_conf,
            heap_mb=self.heap_mb,
            spark_packages=self.spark_packages,
            spark_jars=self.spark_jars,
            env_allowed=self.env_allowed,
            allowed_files=self.allowed_files,
            allowed_paths=self.allowed_paths,
            journal=self.journal,
            security=self.log_security,
        )

    def settings(self) -> Settings:
        return Settings(
            identity=self.identity,
            incarnation=self.incarnation,
            kill_after_ms=self.kill_after_ms,
            revocation_timeout_ms=self.revocation_timeout_ms,
            drain_timeout_ms=self.drain_timeout_ms,
        )
