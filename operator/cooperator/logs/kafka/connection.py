"""The admin client and the callback threads of one cluster, for all its readers and writers."""

import threading
import time
from typing import Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from cooperator.logs.callbacks import CallbackThreads
from cooperator.logs.kafka.settings import Access, error_text

_REFUSALS: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._RESOLVE}
)
_REMEMBERED_S: Final = 10.0
_RENEWED_S: Final = 1.0


class Connection:
    """One admin client, from its first use until ``close``, and the threads of callbacks. Thread-safe."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.callbacks = CallbackThreads(f"callbacks of {access.bootstrap_servers}")
        self._admin: AdminClient | None = None
        self._admin_since = 0.0
        self._refused: tuple[KafkaError, float] | None = None
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

    def close(self) -> None:
        with self._lock:
            self._closed = True
            admin, self._admin = self._admin, None
        del admin
        self.callbacks.close()
