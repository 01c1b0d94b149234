"""confluent-kafka clients, shared by all groups of this process that use one cluster as the same user.

They are reference-counted: users acquire them and release them again.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Producer

from cooperator.logs.kafka.connection import Connection
from cooperator.logs.kafka.reader import Reader
from cooperator.logs.kafka.settings import Access, OnError
from cooperator.logs.kafka.subscription import Subscription
from cooperator.logs.kafka.writer import Queue, Writer


class Shared(Connection):
    """A connection with one reader and one writer, each from its first use to its last. Thread-safe.

    A topic that is followed twice at once needs a second reader: a consumer has one position in a topic.
    """

    def __init__(self, access: Access, group_id: str) -> None:
        """``group_id``: the id of any of the groups. The broker sees it, but it has no effect."""
        super().__init__(access)
        self.users = 0
        self._group_id = group_id
        self._readers: list[Reader] = []
        self._writer: Writer | None = None

    def follow(self, subscription: Subscription) -> Reader:
        """Read the topic of ``subscription`` until ``unfollow``."""
        with self._lock:
            reader = next((each for each in self._readers if not each.follows(subscription.topic)), None)
            if reader is None:
                reader = Reader(self, self._group_id)
                self._readers.append(reader)
            reader.add(subscription)
            return reader

    def unfollow(self, reader: Reader, subscription: Subscription) -> None:
        with self._lock:
            reader.remove(subscription)
            if not reader.is_idle:
                return
            self._readers.remove(reader)
        reader.close()

    def attach(self, queue: Queue) -> Writer:
        """Write ``queue``'s records until ``detach``. Raises KafkaException for unusable settings."""
        with self._lock:
            if self._writer is None:
                self._writer = Writer(self)
            self._writer.add(queue)
            return self._writer

    def detach(self, queue: Queue) -> None:
        with self._lock:
            writer = self._writer
            if writer is None:
                return
            writer.remove(queue)
            if not writer.is_idle:
                return
            self._writer = None
        writer.close()


_lock: Final = threading.Lock()
_in_use: Final[dict[Access, Shared]] = {}


class Clients:
    """One group's access to the shared clients of its cluster."""

    def __init__(self, bootstrap_servers: str, group_id: str, security: Mapping[str, Any]) -> None:
        """Raises ValueError for a security setting that is unknown."""
        self.bootstrap_servers = bootstrap_servers
        self._access = Access.of(bootstrap_servers, security)
        self._group_id = group_id

    def acquire(self) -> Shared:
        """Return the shared clients; pair each call with one ``release``."""
        with _lock:
            shared = _in_use.get(self._access)
            if shared is None:
                shared = _in_use[self._access] = Shared(self._access, self._group_id)
            shared.users += 1
            return shared

    def release(self, shared: Shared) -> None:
        with _lock:
            shared.users -= 1
            if shared.users:
                return
            del _in_use[self._access]
        shared.close()

    @contextmanager
    def sharing(self) -> Iterator[Shared]:
        """Hold the shared clients for the duration of the block."""
        shared = self.acquire()
        try:
            yield shared
        finally:
            self.release(shared)

    def producer(self, on_error: OnError, settings: Mapping[str, Any]) -> Producer:
        """Return a producer of the group's own."""
        return self._access.producer(f"{self._group_id}-logs", on_error, settings)
