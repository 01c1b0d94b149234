"""A group's logs, made over one transport."""

from cooperator.logs.config_log import ConfigLog
from cooperator.logs.lead_writer import LeadWriter
from cooperator.logs.leader_log import LeaderLog
from cooperator.logs.status_log import StatusLog
from cooperator.logs.transport import Topics, Transport


class Logs:
    """Opens the logs of one group; each is closed by whoever opened it, before ``close``."""

    def __init__(self, transport: Transport, group_id: str, topics: Topics | None = None) -> None:
        self._transport = transport
        self._group_id = group_id
        self.topics = topics or Topics.of(group_id)

    def ensure_topics(self, replication_factor: int = -1, timeout_ms: int = 30_000) -> None:
        """Create the three compacted topics where they are missing, and check those that are there.

        ``replication_factor``: -1 for the broker's default. Raises TopicMisconfigured, LogUnavailable.
        """
        transport, topics = self._transport, self.topics
        transport.ensure_topic(topics.config, 1, replication_factor, timeout_ms)
        # Connect itself makes status topics of five partitions.
        transport.ensure_topic(topics.status, None, replication_factor, timeout_ms)
        transport.ensure_topic(topics.leader, 1, replication_factor, timeout_ms)

    def config_log(self) -> ConfigLog:
        return ConfigLog(self._transport, self.topics.config)

    def status_log(self) -> StatusLog:
        return StatusLog(self._transport, self.topics.status)

    def leader_log(self) -> LeaderLog:
        return LeaderLog(self._transport, self.topics.leader)

    def lead_writer(self, timeout_ms: int = 10_000) -> LeadWriter:
        """A writer that is not open yet. ``timeout_ms``: of each of its calls."""
        return LeadWriter(self._transport, self.topics, self._group_id, timeout_ms)

    def close(self) -> None:
        self._transport.close()
