"""confluent-kafka clients, shared by all groups of this process that use one cluster as the same user.

They are reference-counted: users acquire them and release them again.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from cooperator.logs.kafka.reader import Reader
from cooperator.logs.kafka.settings import Access, OnError, error_text
from cooperator.logs.kafka.settings import client_settings as client_settings
from cooperator.logs.kafka.writer import Writer
from cooperator.logs.serial_executor import CallbackThreads

if TYPE_CHECKING:
    from cooperator.logs.kafka.topic_reader import KafkaTopicReader
    from cooperator.logs.kafka.topic_writer import KafkaTopicWriter

_REFUSALS: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._RESOLVE}
)
_REMEMBERED_S: Final = 10.0
_RENEWED_S: Final = 1.0


class Shared:
    """One admin client, one reader and one writer, each from its first use to its last. Thread-safe.

    A topic that is followed twice at once needs a second reader: a consumer has one position in a topic.
    """

    def __init__(self, access: Access, group_id: str) -> None:
        """``group_id``: the id of any of the groups. The broker sees it, but it has no effect."""
        self.access = access
        self.callbacks = CallbackThreads(f"callbacks of {access.bootstrap_servers}")
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
                # A request that races with the last release gets a client for itself only.
                self._admin = None if self._closed else admin
            admin.poll(0)
            return admin

    def renew_admin(self, stale: AdminClient) -> None:
        """Drop the admin client: a new one looks up partition leaders again, and an old one may keep using a
        stale epoch."""
        with self._lock:
            if self._admin is stale and time.monotonic() - self._admin_since > _RENEWED_S:
                self._admin = None

    def refused(self) -> str:
        """Return why brokers recently accepted no connection of the admin client; empty if they did.

        Reasons are its credentials, TLS, an unknown host or a closed port; its requests only time out then.
        """
        with self._lock:
            if self._admin is not None:
                self._admin.poll(0)
            if self._refused is None or time.monotonic() - self._refused[1] > _REMEMBERED_S:
                return ""
            return error_text(self._refused[0])

    def _note(self, error: KafkaError) -> None:
        """Note a refusal. Called by ``poll`` only."""
        if error.code() in _REFUSALS:
            self._refused = (error, time.monotonic())

    def follow(self, topic_reader: "KafkaTopicReader") -> Reader:
        """Read the topic of ``topic_reader`` until ``unfollow``."""
        with self._lock:
            reader = next((each for each in self._readers if not each.follows(topic_reader.topic)), None)
            if reader is None:
                reader = Reader(self, self._group_id)
                self._readers.append(reader)
            reader.add(topic_reader)
            return reader

    def unfollow(self, reader: Reader, topic_reader: "KafkaTopicReader") -> None:
        with self._lock:
            reader.remove(topic_reader)
            if not reader.is_idle:
                return
            self._readers.remove(reader)
        reader.close()

    def attach(self, topic_writer: "KafkaTopicWriter") -> Writer:
        """Write ``topic_writer``'s records until ``detach``. Raises KafkaException for unusable settings."""
        with self._lock:
            if self._writer is None:
                self._writer = Writer(self)
            self._writer.add(topic_writer)
            return self._writer

    def detach(self, topic_writer: "KafkaTopicWriter") -> None:
        with self._lock:
            writer = self._writer
            if writer is None:
                return
            writer.remove(topic_writer)
            if not writer.is_idle:
                return
            self._writer = None
        writer.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            admin, self._admin = self._admin, None
        del admin
        self.callbacks.close()


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
