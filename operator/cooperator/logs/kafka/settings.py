"""Sets up confluent-kafka's clients: their configuration, their logging and the texts of their errors."""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from cooperator.log_lines import LibrdkafkaLog
from cooperator.oauthbearer import Tokens, librdkafka_properties

logger = logging.getLogger(__name__)

T = TypeVar("T")
OnError = Callable[[KafkaError], None]

CLIENT_ID: Final = "cooperator-logs"
"""The client id of clients that several groups share."""

# kafka-python's names of settings that both libraries have: one mapping serves the group and its logs.
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


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster's address and the credentials for it: the settings that shared clients must have in common.

    Two are equal if all settings, and the contents of the files that these name, are equal. Only the servers
    are ever shown.
    """

    bootstrap_servers: str
    _identity: tuple[tuple[str, object, str], ...] = field(repr=False)
    _common: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, bootstrap_servers: str, security: Mapping[str, Any]) -> "Access":
        """Raises ValueError for a setting that is unknown."""
        settings = client_settings(security)
        identity = [
            (name, value if isinstance(value, Tokens) else repr(value), _contents(name, value))
            for name, value in sorted(settings.items())
        ]
        common = {
            # A returning broker is found within a second, and a hanging one reported within ten.
            "reconnect.backoff.ms": 500,
            "reconnect.backoff.max.ms": 1_000,
            "socket.connection.setup.timeout.ms": 5_000,
            "log.connection.close": False,
            **settings,
            "bootstrap.servers": bootstrap_servers,
        }
        return cls(bootstrap_servers, tuple(identity), common)

    def consumer(self, group_id: str, on_error: OnError) -> Consumer:
        """Return a consumer of assigned partitions that commits nothing and joins no group."""
        settings = {
            **self._common,
            "client.id": CLIENT_ID,
            "group.id": group_id,  # the library requires one; nothing is ever committed to it
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "max.poll.interval.ms": 86_400_000,
            # A newly added partition waits until the pending fetch returns.
            "fetch.wait.max.ms": 100,
            # Prefetch for many topics; it is fetched again after a pause.
            "queued.min.messages": 2_000,
            "error_cb": on_error,
        }
        return Consumer(settings, logger=LibrdkafkaLog(logger))

    def producer(self, client_id: str, on_error: OnError, settings: Mapping[str, Any]) -> Producer:
        own = {
            "client.id": client_id,
            "acks": "all",
            # Connect's partitioner: a status topic may have several partitions, and keys must stay in theirs.
            "partitioner": "murmur2_random",
            "error_cb": on_error,
        }
        return Producer({**self._common, **own, **settings}, logger=LibrdkafkaLog(logger))

    def admin(self, on_error: OnError) -> AdminClient:
        # Its log is never polled and would pile up; its errors come with its answers.
        own: dict[str, Any] = {"client.id": CLIENT_ID, "log_level": 0, "error_cb": on_error}
        return AdminClient({**self._common, **own})


def client_settings(security: Mapping[str, Any]) -> dict[str, Any]:
    """Translate ``security`` to librdkafka's names; kafka-python's are accepted. Values are never shown.

    Raises ValueError for a name that neither library has.
    """
    settings: dict[str, Any] = {}
    for name, value in security.items():
        if name == "ssl_check_hostname":
            settings["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
        elif isinstance(value, Tokens):
            settings |= librdkafka_properties(value.login)
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


def _contents(name: str, value: object) -> str:
    """Return a digest of the file that a setting names; empty if it names no readable file."""
    if not name.endswith(".location"):
        return ""
    try:
        return hashlib.sha256(Path(str(value)).read_bytes()).hexdigest()
    except OSError:
        return ""


_ANSWERED_S: Final = 90.0
"""Longer than the time-out of every request, after which the library answers by itself."""


def result_of(answer: "Future[T]", within_s: float = _ANSWERED_S) -> T:
    """Wait for a client's answer and return it. Raises its failure as a new exception.

    Raising the exception that the answer keeps would hold the callers' frames, and with them the client,
    until cycles are collected. A client that does not even say that its request has timed out counts as one
    that has said so: nobody waits for ever.
    """
    try:
        failure = answer.exception(within_s)
    except TimeoutError:
        missing = f"the Kafka client gave no answer within {within_s:g} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, missing)) from None
    if failure is not None:
        raise type(failure)(*failure.args)
    return answer.result(0)


_PASSING_DETAIL: Final = re.compile(r"^(\S+: )+(?=Connect to|Disconnected)|\s*\(after \d+ms in state \w+\)")


def error_text(error: KafkaException | KafkaError) -> str:
    """Return the text of an error, without the parts that differ from one occurrence to the next."""
    kafka_error: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return f"{_PASSING_DETAIL.sub('', kafka_error.str())} ({kafka_error.name()})"
