"""Settings of a stock worker that the operator must own, by name, and where their values come from."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_LEADER: Final = "the operator, whose leader makes the key that workers sign with"
_IDENTITY: Final = "the operator: a pod's name is its member's identity"
_ADDRESS: Final = "the operator, which knows where a worker is reached"
_KAFKA: Final = "spec.kafka"

OWNED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bootstrap.servers": "spec.bootstrapServers",
        "group.id": "spec.groupId",
        "client.id": _IDENTITY,
        "config.storage.topic": "spec.connect.topics.config",
        "offset.storage.topic": "spec.connect.topics.offset",
        "status.storage.topic": "spec.connect.topics.status",
        "listeners": _ADDRESS,
        "rest.advertised.host.name": _ADDRESS,
        "rest.advertised.listener": _ADDRESS,
        "rest.advertised.port": _ADDRESS,
        "plugin.path": "spec.connect.pluginPath",
        "heartbeat.interval.ms": "spec.heartbeatIntervalMs",
        "rebalance.timeout.ms": "spec.rebalanceTimeoutMs",
        "scheduled.rebalance.max.delay.ms": "spec.scheduledRebalanceMaxDelayMs",
        "session.timeout.ms": "spec.sessionTimeoutMs",
        "inter.worker.key.generation.algorithm": _LEADER,
        "inter.worker.key.size": _LEADER,
        "inter.worker.key.ttl.ms": _LEADER,
        "inter.worker.signature.algorithm": _LEADER,
        "inter.worker.verification.algorithms": _LEADER,
        "security.protocol": _KAFKA,
        "sasl.jaas.config": _KAFKA,
        "sasl.login.callback.handler.class": _KAFKA,
        "sasl.mechanism": _KAFKA,
        "sasl.oauthbearer.token.endpoint.url": _KAFKA,
        "ssl.endpoint.identification.algorithm": _KAFKA,
        "ssl.keystore.certificate.chain": _KAFKA,
        "ssl.keystore.key": _KAFKA,
        "ssl.keystore.location": _KAFKA,
        "ssl.keystore.type": _KAFKA,
        "ssl.truststore.certificates": _KAFKA,
        "ssl.truststore.location": _KAFKA,
        "ssl.truststore.type": _KAFKA,
    }
)
"""Settings that are refused in a user's worker config, and who sets them instead."""

PROVIDER: Final = "cooperator"
"""Prefix of the names of the operator's own configuration providers; a user's may coexist with them."""
OUR_PROVIDERS: Final = f"config.providers.{PROVIDER}"


def why_owned(name: str) -> str:
    """The owner of the setting ``name``; empty if it is the user."""
    if name.startswith(OUR_PROVIDERS):
        return "the operator"
    return OWNED.get(name, "")
