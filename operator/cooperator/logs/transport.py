"""What a log needs of its transport. Two exist: Kafka, and one in memory, held to the same tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cooperator.wire import Record

Batch = Sequence[tuple[int, Record]]
"""Records in order, each with its offset."""


class Follower(Protocol):
    """Takes what a tail reads; called on the tail's own thread, one call at a time."""

    def take(self, batch: Batch) -> None:
        """The next records."""

    def caught_up(self) -> None:
        """All that was in the log has been taken. Called again after each start over."""

    def start_over(self) -> None:
        """What was taken is void (the topic was made anew): everything follows from the beginning."""


class Tail(Protocol):
    """Follows a topic from its beginning until it is closed, through any trouble; never gives up."""

    def read_to_end(self, timeout_ms: int) -> None:
        """Return when everything that was in the log at the time of the call has been taken.

        That includes transactions that are still open then. Raises LogUnavailable, LogTimeout.
        """

    def read_to(self, offset: int, timeout_ms: int) -> None:
        """Return when the record before ``offset`` (of partition 0) has been taken. Raises LogTimeout."""

    def close(self) -> None:
        """Stop. No call to the follower is made after it."""


class Outlet(Protocol):
    """Writes records as soon as it can; the newest of a key is never lost."""

    def send(self, record: Record) -> None:
        """Never blocks, never fails."""

    def flush(self, timeout_ms: int) -> None:
        """Return when everything sent before is written. Raises LogTimeout."""

    def close(self, timeout_ms: int) -> None:
        """Flush as far as the time allows, then stop."""


class Transactor(Protocol):
    """Writes whole transactions, as the only writer of its transactional id."""

    def open(self) -> None:
        """Fence whoever had the id before, and write from now on. Raises LogUnavailable."""

    def write(self, topic: str, records: Sequence[Record]) -> int:
        """One transaction; returns the offset after its last record. Raises WriterFenced, LogUnavailable."""

    def close(self) -> None:
        """Give up a transaction in progress, and write no more until opened again."""


class Transport(Protocol):
    """Makes the parts above."""

    def ensure_topic(
        self, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
    ) -> None:
        """Create the compacted topic if it is missing; check it if not.

        ``partitions``: exactly as many; None for any number (one when created). ``replication_factor``:
        -1 for the broker's default. Raises TopicMisconfigured, LogUnavailable.
        """

    def tail(self, topic: str, follower: Follower) -> Tail: ...

    def outlet(self, topic: str) -> Outlet: ...

    def transactor(self, transactional_id: str, timeout_ms: int) -> Transactor: ...


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of a group's three topics. Those of an adopted Connect cluster are its own."""

    config: str
    status: str
    leader: str

    @classmethod
    def of(cls, group_id: str) -> "Topics":
        return cls(f"{group_id}-configs", f"{group_id}-status", f"{group_id}-leader")
