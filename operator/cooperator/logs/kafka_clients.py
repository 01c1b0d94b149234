"""confluent-kafka clients, configured and quiet: their log goes to ours, their errors to whoever asked."""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

logger = logging.getLogger(__name__)

OnError = Callable[[KafkaError], None]

_REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})

# kafka-python's names of settings that both libraries know: one mapping serves the group and its logs.
_TRANSLATED: Final = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_ciphers": "ssl.cipher.suites",
    "client_dns_lookup": "client.dns.lookup",
}


class Clients:
    """Makes the clients of one group's logs, and shares one admin client."""

    def __init__(self, bootstrap_servers: str, group_id: str, security: Mapping[str, Any]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._group_id = group_id
        self._common: dict[str, Any] = {
            # A broker that is back is found within a second; one that hangs is reported within ten.
            "reconnect.backoff.ms": 500,
            "reconnect.backoff.max.ms": 1_000,
            "socket.connection.setup.timeout.ms": 5_000,
            "log.connection.close": False,
            **client_settings(security),
            "bootstrap.servers": bootstrap_servers,
            "client.id": f"{group_id}-logs",
        }
        self._admin: AdminClient | None = None
        self._refused: KafkaError | None = None
        self._lock = threading.Lock()

    def consumer(self, on_error: OnError) -> Consumer:
        """A reader of assigned partitions that commits nothing and joins no group."""
        settings = {
            **self._common,
            "group.id": self._group_id,  # the library wants one; nothing is ever committed to it
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "max.poll.interval.ms": 86_400_000,
            "error_cb": on_error,
        }
        return Consumer(settings, logger=_LibraryLog())

    def producer(self, on_error: OnError, settings: Mapping[str, Any]) -> Producer:
        own = {
            "acks": "all",
            # Connect's: a status topic may have several partitions, and a key must stay in its own.
            "partitioner": "murmur2_random",
            "error_cb": on_error,
        }
        return Producer({**self._common, **own, **settings}, logger=_LibraryLog())

    def admin(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                # Nobody polls it for its log, which would pile up; its errors come with its answers.
                own: dict[str, Any] = {"log_level": 0, "error_cb": self._note}
                self._admin = AdminClient({**self._common, **own})
            self._admin.poll(0)
            return self._admin

    def refused(self) -> str:
        """That brokers took no connection of the admin client, for who it said it was; else empty.

        Its requests only time out then. Asked once, it is forgotten.
        """
        with self._lock:
            if self._admin is not None:
                self._admin.poll(0)
            refused, self._refused = self._refused, None
        return "" if refused is None else error_text(refused)

    def _note(self, error: KafkaError) -> None:
        """Called by ``poll`` only."""
        if error.code() in _REFUSALS:
            self._refused = error

    def renew_admin(self) -> None:
        """The next one learns anew who leads which partition: an old one may keep to a stale epoch."""
        with self._lock:
            self._admin = None


def client_settings(security: Mapping[str, Any]) -> dict[str, Any]:
    """``security`` in librdkafka's names; it may come in kafka-python's. Values are never shown.

    Raises ValueError for a name that neither of the two libraries has.
    """
    settings: dict[str, Any] = {}
    for name, value in security.items():
        if name == "ssl_check_hostname":
            settings["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
        elif "." in name:
            settings[name] = value
        elif name in _TRANSLATED:
            settings[_TRANSLATED[name]] = value
        else:
            raise ValueError(
                f"security: {name!r} has no counterpart among the settings of librdkafka; use one of "
                f"{', '.join(sorted(_TRANSLATED))}, or librdkafka's own names"
            )
    return settings


class _LibraryLog:
    """What the library takes for a logger: its errors are warnings here, and all else is for debugging."""

    def log(self, level: int, message: str, *args: object) -> None:
        # A broker that is away makes several lines ("FAIL") a second; it is reported once, as a trouble.
        passing = level < logging.ERROR or (args and args[0] == "FAIL")
        logger.log(logging.DEBUG if passing else logging.WARNING, message, *args)


_PASSING_DETAIL: Final = re.compile(r"^(\S+: )+(?=Connect to|Disconnected)|\s*\(after \d+ms in state \w+\)")


def error_text(error: KafkaException | KafkaError) -> str:
    """What an error says, without what differs from one time to the next."""
    kafka_error: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return f"{_PASSING_DETAIL.sub('', kafka_error.str())} ({kafka_error.name()})"
