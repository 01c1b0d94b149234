"""Fences other programs' producers by their transactional ids."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Final

from cooperator.logs.kafka.transport import KafkaTransport
from cooperator.logs.logs import LogsConfig

_AT_ONCE: Final = 8
_SAME: Final = frozenset({"bootstrap.servers", "security.protocol", "sasl.mechanism", "client.dns.lookup"})
"""Settings that have the same meaning in Java and in librdkafka."""
_WITHOUT_MEANING: Final = frozenset(
    {
        "client.id",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Settings of an admin client that affect neither the cluster nor the user of its requests."""


def access(config: LogsConfig, overrides: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """Returns the brokers of the fencing client, and its security settings.

    Who names other brokers says how to log in there, too: the Worker's credentials are sent to its own
    brokers only. Raises ValueError where that would need credentials, which no override can carry.
    """
    own: dict[str, Any] = {name: value for name, value in overrides.items() if name in _SAME}
    servers: str = own.pop("bootstrap.servers", config.bootstrap_servers)
    if _hosts(servers) <= _hosts(config.bootstrap_servers):
        return servers, {**config.security, **own}
    if str(own.get("security.protocol", "PLAINTEXT")).upper() not in ("PLAINTEXT", "SSL"):
        raise ValueError(
            f"bootstrap.servers names other brokers than the Worker's ({servers}), and its credentials are "
            "not sent there: remove it, or use a security.protocol without SASL"
        )
    return servers, own


def _hosts(servers: str) -> frozenset[str]:
    return frozenset(server.strip().lower() for server in servers.split(",") if server.strip())


def fence_producers(
    config: LogsConfig,
    transactional_ids: Sequence[str],
    overrides: Mapping[str, str],
    timeout_ms: int = 20_000,
) -> None:
    """Returns once no producer with one of these ids can write any more, like ``Admin.fenceProducers``.

    ``overrides``: client settings in Java's names. Raises ValueError for a setting without a counterpart
    here, and LogUnavailable.
    """
    if not transactional_ids:
        return
    unknown = sorted(overrides.keys() - _SAME - _WITHOUT_MEANING)
    if unknown:
        raise ValueError(
            f"{unknown[0]} has no counterpart in the leader's client, which is not a Java client: remove it, "
            "and let the Worker's own user fence producers"
        )
    servers, security = access(config, overrides)
    transport = KafkaTransport(servers, config.group_id, security)

    def fence(transactional_id: str) -> None:
        with closing(transport.transactor(transactional_id, timeout_ms)) as writer:
            writer.open()

    with ThreadPoolExecutor(_AT_ONCE, "fencing") as pool:
        for done in [pool.submit(fence, each) for each in transactional_ids]:
            done.result()
