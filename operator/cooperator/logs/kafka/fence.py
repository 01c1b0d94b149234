"""Fences other programs' producers by their transactional ids."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Final

from cooperator.logs.kafka.transport import KafkaTransport
from cooperator.logs.logs import LogsConfig

_AT_ONCE: Final = 8
_SAME: Final = frozenset({"bootstrap.servers", "security.protocol", "sasl.mechanism", "client.dns.lookup"})
"""Settings that have the same meaning in Java and in librdkafka."""
_WAY: Final = ("security.protocol", "sasl.mechanism")
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


def fencing_client(config: LogsConfig, overrides: Mapping[str, str]) -> LogsConfig:
    """Returns where the fencing client connects, and how.

    Overrides that name other servers, or another protocol to them, get none of the Worker's credentials.
    """
    own = {name: value for name, value in overrides.items() if name in _SAME}
    servers = own.pop("bootstrap.servers", config.bootstrap_servers)
    is_elsewhere = _hosts(servers) != _hosts(config.bootstrap_servers) or any(
        name in own and own[name] != config.security.get(name) for name in _WAY
    )
    inherited = {} if is_elsewhere else config.security
    return replace(config, bootstrap_servers=servers, security={**inherited, **own})


def _hosts(servers: str) -> set[str]:
    return {server.strip().lower() for server in servers.split(",")}


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
    settings = fencing_client(config, overrides)
    transport = KafkaTransport(settings.bootstrap_servers, settings.group_id, settings.security)

    def fence(transactional_id: str) -> None:
        with closing(transport.transactor(transactional_id, timeout_ms)) as writer:
            writer.open()

    with ThreadPoolExecutor(_AT_ONCE, "fencing") as pool:
        fencing = [pool.submit(fence, each) for each in transactional_ids]
    for each in fencing:
        each.result(0)
