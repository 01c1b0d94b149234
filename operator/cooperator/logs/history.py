"""What happened in a group, as far back as its logs reach: they are compacted, so the latest is complete."""

from dataclasses import dataclass

from cooperator.logs.logs import LogsConfig
from cooperator.logs.transport import Batch, Transport
from cooperator.model import Memory, TaskStatus
from cooperator.wire import DecodeError, Record, decode_leader, decode_status


@dataclass(frozen=True, slots=True)
class LogHistory:
    """``statuses``: every status that is still in the log, by its time. ``memories``: every memory of a
    leader, oldest first. Records that cannot be read are left out, and statuses without a time (those of
    stock workers)."""

    statuses: tuple[TaskStatus, ...]
    memories: tuple[Memory, ...]


class _Records:
    """A follower that keeps everything."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def take(self, batch: Batch) -> None:
        self.records.extend(record for _, record in batch)

    def caught_up(self) -> None:
        """Nothing to do: it is asked after it was read to its end."""

    def start_over(self) -> None:
        self.records.clear()


def read_history(transport: Transport, config: LogsConfig, timeout_ms: int = 10_000) -> LogHistory:
    """Read the status and the leader log to their ends; nothing is written.

    ``timeout_ms``: for each. Raises LogUnavailable.
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
    # Members write on their own, and to several partitions: only the times have an order.
    return LogHistory(tuple(sorted(statuses, key=lambda status: status.at_ms)), tuple(memories))


def _read(transport: Transport, topic: str, timeout_ms: int) -> list[Record]:
    follower = _Records()
    tail = transport.tail(topic, follower)
    try:
        tail.read_to_end(timeout_ms)
    finally:
        tail.close()
    return follower.records
