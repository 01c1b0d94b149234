"""A group's config, status and leader logs: compacted topics, followed from their beginning.

Contents: the semantics of each log for its readers and writers, over a small transport protocol;
the transports: Kafka (on confluent-kafka, which is used elsewhere only in ``connectors``) and a fake of it in
memory that passes the same tests. No decisions: other rooms decide what is written. May import ``wire`` and
``model``.

    config = LogsConfig("localhost:9092", group_id="lake")
    ensure_topics(config)
    logs = open_logs(config, on_outage=print)
    logs.config.on_change(print)

    fake = Logs(MemoryTransport(MemoryBroker()), config)
"""

from cooperator.logs.config_log import ConfigLog
from cooperator.logs.errors import (
    LogTimeout,
    LogUnavailable,
    LogUnreadable,
    RecordTooLarge,
    TopicMisconfigured,
    WriterFenced,
)
from cooperator.logs.history import LogHistory, read_history
from cooperator.logs.kafka.fence import fence_producers
from cooperator.logs.kafka.transport import (
    KafkaTransport,
    LogsRead,
    ensure_topics,
    group_record_bytes,
    open_logs,
    read_logs,
)
from cooperator.logs.lead_writer import Gate, LeadWriter, open_gate
from cooperator.logs.leader_log import LeaderLog, LeaderRecords
from cooperator.logs.logs import Logs, LogsConfig, ensure_topics_of
from cooperator.logs.memory import MemoryBroker, MemoryTransport
from cooperator.logs.outages import OnOutage
from cooperator.logs.status_log import StatusLog
from cooperator.logs.transport import Topics, Transport

__all__ = [
    "ConfigLog",
    "Gate",
    "KafkaTransport",
    "LeadWriter",
    "LeaderLog",
    "LeaderRecords",
    "LogHistory",
    "LogTimeout",
    "LogUnavailable",
    "LogUnreadable",
    "Logs",
    "LogsConfig",
    "LogsRead",
    "MemoryBroker",
    "MemoryTransport",
    "OnOutage",
    "RecordTooLarge",
    "StatusLog",
    "TopicMisconfigured",
    "Topics",
    "Transport",
    "WriterFenced",
    "ensure_topics",
    "ensure_topics_of",
    "fence_producers",
    "group_record_bytes",
    "open_gate",
    "open_logs",
    "read_history",
    "read_logs",
]
