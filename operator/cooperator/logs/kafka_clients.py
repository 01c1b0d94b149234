"""confluent-kafka clients, shared by all groups of this process that speak to one cluster as the same user.

They live as long as somebody uses them: who needs some acquires them, and gives them back.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from cooperator.logs.deliveries import Deliveries
from cooperator.logs.kafka_reader import Reader
from cooperator.logs.kafka_settings import Access, OnError, error_text
from cooperator.logs.kafka_settings import client_settings as client_settings
from cooperator.logs.kafka_writer import Writer

if TYPE_CHECKING:
    from cooperator.logs.kafka_outlet import KafkaOutlet
    from cooperator.logs.kafka_tail import KafkaTail

_REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
_REMEMBERED_S: Final = 10.0
_RENEWED_S: Final = 1.0


class Shared:
    """One admin client, one reader and one writer, each from its first use to its last. Thread-safe.

    A topic that is followed twice at once has a second reader: one consumer has one place in a topic.
    """

    def __init__(self, access: Access, group_id: str) -> None:
        """``group_id``: of any of the groups. It is named to the broker, and nothing comes of it."""
        self.access = access
        self.deliveries = Deliveries(f"news of {access.bootstrap_servers}")
        self.users = 0
        self._group_id = group_id
        self._admin: AdminClient | None = None
        self._admin_since = 0.0
        self._refused: tuple[KafkaError, float] | None = None
        self._readers: list[Reader] = []
        self._writer: Writer | None = None
        self._closed = False
        self._lock = threading.Lock()

    def admin(self) -> AdminClient:
        with self._lock:
            admin = self._admin
            if admin is None:
                admin = self.access.admin(self._note)
                self._admin_since = time.monotonic()
                # Who asks in the very moment in which the last one closes gets one for that question only.
                self._admin = None if self._closed else admin
            admin.poll(0)
            return admin

    def renew_admin(self, stale: AdminClient) -> None:
        """The next one learns anew who leads which partition: an old one may keep to a stale epoch."""
        with self._lock:
            if self._admin is stale and time.monotonic() - self._admin_since > _RENEWED_S:
                self._admin = None

    def refused(self) -> str:
        """That brokers took no connection of the admin client lately, for who it said it was; else empty.

        Its requests only time out then.
        """
        with self._lock:
            if self._admin is not None:
                self._admin.poll(0)
            if self._refused is None or time.monotonic() - self._refused[1] > _REMEMBERED_S:
                return ""
            return error_text(self._refused[0])

    def _note(self, error: KafkaError) -> None:
        """Called by ``poll`` only."""
        if error.code() in _REFUSALS:
            self._refused = (error, time.monotonic())

    def follow(self, tail: "KafkaTail") -> Reader:
        """Read the tail's topic for it, until ``unfollow``."""
        with self._lock:
            reader = next((each for each in self._readers if not each.follows(tail.topic)), None)
            if reader is None:
                reader = Reader(self, self._group_id)
                self._readers.append(reader)
            reader.add(tail)
            return reader

    def unfollow(self, reader: Reader, tail: "KafkaTail") -> None:
        with self._lock:
            reader.remove(tail)
            if not reader.is_idle:
                return
            self._readers.remove(reader)
        reader.close()

    def attach(self, outlet: "KafkaOutlet") -> Writer:
        """Write what the outlet sends, until ``detach``. Raises KafkaException for settings of no use."""
        with self._lock:
            if self._writer is None:
                self._writer = Writer(self)
            self._writer.add(outlet)
            return self._writer

    def detach(self, outlet: "KafkaOutlet") -> None:
        with self._lock:
            writer = self._writer
            if writer is None:
                return
            writer.remove(outlet)
            if not writer.is_idle:
                return
            self._writer = None
        writer.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            admin, self._admin = self._admin, None
        del admin
        self.deliveries.close()


_lock: Final = threading.Lock()
_in_use: Final[dict[Access, Shared]] = {}


class Clients:
    """What one group's logs have of the clients of their cluster."""

    def __init__(self, bootstrap_servers: str, group_id: str, security: Mapping[str, Any]) -> None:
        """Raises ValueError for a security setting that is unknown."""
        self.bootstrap_servers = bootstrap_servers
        self._access = Access.of(bootstrap_servers, security)
        self._group_id = group_id

    def acquire(self) -> Shared:
        """What is shared, until it is given back by ``release``: once for each time."""
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
        """What is shared, for as long as this lasts."""
        shared = self.acquire()
        try:
            yield shared
        finally:
            self.release(shared)

    def producer(self, on_error: OnError, settings: Mapping[str, Any]) -> Producer:
        """One of the group's own."""
        return self._access.producer(f"{self._group_id}-logs", on_error, settings)
