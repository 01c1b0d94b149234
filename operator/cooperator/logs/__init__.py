"""A group's config, status and leader logs: compacted topics, followed from their beginning.

What may live here: what a log means to its reader and writer, once, over a small transport protocol; the
transports, Kafka (confluent-kafka, which is used here and nowhere else but in ``runtime.connectors``) and its
twin in memory, held to the same tests. No decisions: what is written is decided elsewhere. May import
``wire`` and ``model``.

    logs = Logs(KafkaTransport("localhost:9092"), group_id="lake")
    logs.ensure_topics()
    config = logs.config_log()
"""

from cooperator.logs.config_log import ConfigLog
from cooperator.logs.errors import (
    LogTimeout,
    LogUnavailable,
    LogUnreadable,
    TopicMisconfigured,
    WriterFenced,
)
from cooperator.logs.lead_writer import LeadWriter
from cooperator.logs.leader_log import LeaderLog, LeaderState
from cooperator.logs.logs import Logs
from cooperator.logs.memory import MemoryBroker, MemoryTransport
from cooperator.logs.status_log import StatusLog
from cooperator.logs.transport import Security, Topics, Transport
from cooperator.logs.trouble import OnTrouble

__all__ = [
    "ConfigLog",
    "LeadWriter",
    "LeaderLog",
    "LeaderState",
    "LogTimeout",
    "LogUnavailable",
    "LogUnreadable",
    "Logs",
    "MemoryBroker",
    "MemoryTransport",
    "OnTrouble",
    "Security",
    "StatusLog",
    "TopicMisconfigured",
    "Topics",
    "Transport",
    "WriterFenced",
]
