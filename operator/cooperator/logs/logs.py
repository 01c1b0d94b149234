"""A group's logs, which share one transport."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from cooperator.logs.config_log import ConfigLog
from cooperator.logs.lead_writer import Gate, LeadWriter, open_gate
from cooperator.logs.leader_log import LeaderLog
from cooperator.logs.status_log import StatusLog
from cooperator.logs.transport import Topics, Transport


@dataclass(frozen=True, slots=True)
class LogsConfig:
    """Where a group's logs are.

    ``security``: client settings in librdkafka's names (``security.protocol``, ``sasl.…``, ``ssl.…``); passed
    on, never shown. ``topics``: the topics of an adopted Connect cluster, which has its own names; None for
    the default names. ``transactional_id``: the leader's transactional id, if not the default one.
    ``write_timeout_ms``: time limit of each call of the leader's writer. ``gate``: wraps each of its writes.
    ``adopts``: the config topic belongs to an existing cluster, and is never created.
    """

    bootstrap_servers: str
    group_id: str
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    topics: Topics | None = None
    transactional_id: str = ""
    write_timeout_ms: int = 10_000
    gate: Gate = open_gate
    adopts: bool = False

    @property
    def topic_names(self) -> Topics:
        return self.topics or Topics.of(self.group_id)


class Logs:
    """The logs of one group. Opening them does not wait for the broker; reads and writes do.

    ``config`` and ``leader`` are followed from now on, ``status`` from its first read on. ``writer``
    writes once the leader has opened it.
    """

    def __init__(self, transport: Transport, config: LogsConfig) -> None:
        topics = config.topic_names
        self._transport = transport
        self.config = ConfigLog(transport, topics.config)
        self.status = StatusLog(transport, topics.status)
        self.leader = LeaderLog(transport, topics.leader)
        transactional_id = config.transactional_id or f"{config.group_id}-leader"
        self.writer = LeadWriter(transport, topics, transactional_id, config.write_timeout_ms, config.gate)

    def group_record_bytes(self, timeout_ms: int) -> int | None:
        """Return how large the record of a group may be at the broker; None where that cannot be read."""
        return self._transport.group_record_bytes(timeout_ms)

    def close(self) -> None:
        """Write pending statuses, as far as a few seconds allow, and stop everything."""
        parts = (self.writer, self.status, self.config, self.leader)
        # In parallel, since each may have to wait for a broker that is away.
        with ThreadPoolExecutor(len(parts), "closing logs") as pool:
            closing = [pool.submit(part.close) for part in parts]
        for each in closing:
            each.result(0)


def ensure_topics_of(transport: Transport, topics: Topics, replication_factor: int, timeout_ms: int) -> None:
    """Create the group's missing compacted topics, and check the existing ones.

    Raises TopicMisconfigured, LogUnavailable.
    """
    transport.ensure_topic(topics.config, 1, replication_factor, timeout_ms)
    # Connect itself creates status topics with five partitions.
    transport.ensure_topic(topics.status, None, replication_factor, timeout_ms)
    transport.ensure_topic(topics.leader, 1, replication_factor, timeout_ms)
