"""The interface between a log and its transport. Two exist: Kafka and a fake; both pass the same tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cooperator.wire import Record

Batch = Sequence[tuple[int, Record]]
"""Records in order, each with its offset."""


class Follower(Protocol):
    """Receives what a topic reader reads; called on the reader's own thread, one call at a time."""

    def take(self, batch: Batch) -> None:
        """Process the next records."""

    def caught_up(self) -> None:
        """Note that everything in the log has been passed to ``take``. Called again after a start over."""

    def start_over(self) -> None:
        """Discard everything taken (the topic was recreated): all records follow from the beginning."""


class TopicReader(Protocol):
    """Follows a topic from its beginning until it is closed, through any outage; never gives up."""

    def read_to_end(self, timeout_ms: int) -> None:
        """Return when the follower has taken everything that was in the log at the time of the call.

        That includes transactions still open at that time. Raises LogUnavailable, LogTimeout.
        """

    def end(self, timeout_ms: int) -> int:
        """The offset after all that is in the log (partition 0), aborted and open transactions included.
        Raises LogUnavailable."""

    def read_to(self, offset: int, timeout_ms: int) -> None:
        """Return when the record before ``offset`` (of partition 0) was taken. Raises LogTimeout."""

    def close(self) -> None:
        """Stop. The follower is not called after this returns."""


class TopicWriter(Protocol):
    """Writes records as soon as it can; the newest of a key is never lost."""

    def send(self, record: Record) -> None:
        """Write ``record`` soon; never blocks, never fails."""

    def flush(self, timeout_ms: int) -> None:
        """Return when everything sent before is written. Raises LogTimeout."""

    def close(self, timeout_ms: int) -> None:
        """Flush as far as the time allows, then stop."""


class Transactor(Protocol):
    """Writes whole transactions, as the only writer of its transactional id."""

    def open(self) -> None:
        """Fence earlier writers with this id; writes are possible from now on. Raises LogUnavailable."""

    def write(self, topic: str, records: Sequence[Record]) -> int:
        """Write one transaction; return the offset after its last record.

        Raises WriterFenced, LogUnavailable.
        """

    def close(self) -> None:
        """Abandon a transaction in progress, and write nothing until opened again."""


class Transport(Protocol):
    """Creates the parts above."""

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        """Create the compacted topic if it is missing; check it if not.

        ``partitions``: the exact number; None for any number (one when created). ``replication_factor``:
        -1 for the broker's default. Raises TopicMisconfigured, LogUnavailable.
        """

    def group_record_bytes(self, timeout_ms: int) -> int | None:
        """Return how large the record of a group may be; None where that cannot be read."""

    def topic_reader(self, topic: str, follower: Follower) -> TopicReader: ...

    def topic_writer(self, topic: str) -> TopicWriter: ...

    def transactor(self, transactional_id: str, timeout_ms: int) -> Transactor: ...


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of a group's three topics. An adopted Connect cluster has its own names."""

    config: str
    status: str
    leader: str

    @classmethod
    def of(cls, group_id: str) -> "Topics":
        return cls(f"{group_id}-configs", f"{group_id}-status", f"{group_id}-leader")
