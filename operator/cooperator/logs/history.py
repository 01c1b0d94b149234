"""The history of a group as far as its logs reach: they are compacted, so the latest part is complete."""

from dataclasses import dataclass

from cooperator.logs.logs import LogsConfig
from cooperator.logs.transport import Batch, Transport
from cooperator.model import Memory, TaskStatus
from cooperator.wire import DecodeError, Record, decode_leader, decode_status


@dataclass(frozen=True, slots=True)
class LogHistory:
    """``statuses``: every status that is still in the log, by time. ``memories``: every leader's memory in
    the log, oldest first. Unreadable records and statuses without a time (those of stock workers) are left
    out."""

    statuses: tuple[TaskStatus, ...]
    memories: tuple[Memory, ...]


class _Records:
    """A follower that keeps all records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def take(self, batch: Batch) -> None:
        self.records.extend(record for _, record in batch)

    def caught_up(self) -> None:
        """Do nothing: the records are used only after the topic was read to its end."""

    def start_over(self) -> None:
        self.records.clear()


def read_history(transport: Transport, config: LogsConfig, timeout_ms: int = 10_000) -> LogHistory:
    """Read the status and the leader log to their ends; nothing is written.

    ``timeout_ms``: for each log. Raises LogUnavailable.
    """
    statuses = []
    for record in _read(transport, config.topic_names.status, timeout_ms):
        try:
            decoded = decode_status(record)
        except DecodeError:
            continue
        if isinstance(decoded, TaskStatus) and decoded.at_ms:
            statuses.append(decoded)
    memories = []
    for record in _read(transport, config.topic_names.leader, timeout_ms):
        try:
            known = decode_leader(record)
        except DecodeError:
            continue
        if isinstance(known, Memory):
            memories.append(known)
    # Members write independently, and to several partitions: only the times give an order.
    return LogHistory(tuple(sorted(statuses, key=lambda status: status.at_ms)), tuple(memories))


def _read(transport: Transport, topic: str, timeout_ms: int) -> list[Record]:
    follower = _Records()
    topic_reader = transport.topic_reader(topic, follower)
    try:
        topic_reader.read_to_end(timeout_ms)
    finally:
        topic_reader.close()
    return follower.records
