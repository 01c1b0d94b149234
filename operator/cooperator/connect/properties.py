"""A Worker as ``worker.properties`` of its stock workers. Pure.

What the user gives is kept; what has to agree with the leader, the group and the pod is set here, and was
refused among the user's own settings (``crd.owned``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cooperator.connect.topics import topic_names
from cooperator.crd import Worker
from cooperator.crd.kafka import Kafka
from cooperator.crd.owned import PROVIDER

ENV: Final = f"{PROVIDER}-env"
FILES: Final = f"{PROVIDER}-files"
"""Our configuration providers: of environment variables, and of files whose names are keys (KIP-421)."""

_PROVIDERS: Final = "config.providers"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_DEFAULTS: Final[Mapping[str, str]] = {
    # As Kafka's own connect-distributed.properties has it.
    "key.converter": _JSON,
    "value.converter": _JSON,
    # The brokers' default: 3 replicas, which Connect asks for otherwise, not every cluster can give.
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
}
_MAX_DELAY: Final = "scheduled.rebalance.max.delay.ms"
_CLIENTS: Final = ("producer.", "consumer.", "admin.")
"""Clients of connectors, which do not inherit how the worker itself gets into Kafka."""


@dataclass(frozen=True, slots=True)
class Place:
    """One worker: who it is, where it listens and where others reach it. Each may be a reference."""

    identity: str
    host: str
    port: int
    listen: str = "0.0.0.0"


POD: Final = Place(f"${{{ENV}:POD_NAME}}", f"${{{ENV}:POD_IP}}", 8083)
"""Every pod of a Worker has the same settings: who it is, its environment says."""
POD_PROVIDERS: Final[Mapping[str, Mapping[str, str]]] = {
    ENV: {
        "class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "param.allowlist.pattern": "POD_NAME|POD_IP",
    },
}


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """Folders in which a worker finds name and password, and certificates; empty where not needed."""

    sasl: str = ""
    ca: str = ""
    certificate: str = ""

    @property
    def providers(self) -> Mapping[str, Mapping[str, str]]:
        """What reads them."""
        folders = ",".join(filter(None, (self.sasl, self.certificate)))
        if not folders:
            return {}
        name = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        return {FILES: {"class": name, "param.allowed.paths": folders}}


def worker_settings(
    worker: Worker,
    bootstrap_servers: str,
    place: Place,
    security: Mapping[str, str],
    providers: Mapping[str, Mapping[str, str]],
) -> dict[str, str]:
    """All settings of one worker. ``security``: see ``security_settings``. ``providers``: ours, by name."""
    spec, stock = worker.spec, worker.spec.stock
    topics = topic_names(worker)
    ours = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": worker.group_id,
        "client.id": place.identity,
        "config.storage.topic": topics.config,
        "offset.storage.topic": topics.offset,
        "status.storage.topic": topics.status,
        "listeners": f"http://{place.listen}:{place.port}",
        "rest.advertised.host.name": place.host,
        "rest.advertised.port": str(place.port),
        "session.timeout.ms": str(spec.session_timeout_ms),
        "heartbeat.interval.ms": str(spec.heartbeat_interval_ms),
        "rebalance.timeout.ms": str(spec.rebalance_timeout_ms),
        # For the time in which a worker has to lead.
        _MAX_DELAY: str(spec.scheduled_rebalance_max_delay_ms),
        **({"plugin.path": ",".join(stock.plugin_path)} if stock.plugin_path else {}),
        **security,
        **_providers(stock.config, providers),
    }
    of_clients = {f"{client}{name}": value for client in _CLIENTS for name, value in security.items()}
    return {**_DEFAULTS, **of_clients, **stock.config, **ours}


def rolling(settings: Mapping[str, str]) -> dict[str, str]:
    """Those whose change replaces workers: not what only a worker that has to lead reads."""
    return {name: value for name, value in settings.items() if name != _MAX_DELAY}


def security_settings(kafka: Kafka, files: SecretFiles) -> dict[str, str]:
    """How a worker gets into Kafka: by references to files, never by what is in them."""
    if kafka == Kafka():
        return {}
    settings = {"security.protocol": kafka.security_protocol.value}
    if kafka.sasl is not None:
        settings["sasl.mechanism"] = kafka.sasl.mechanism.value
        module = "plain.PlainLoginModule" if kafka.sasl.mechanism == "PLAIN" else "scram.ScramLoginModule"
        settings["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f'username="{_in(files.sasl, "username")}" password="{_in(files.sasl, "password")}";'
        )
    if kafka.tls is not None:
        if kafka.tls.ca_secret_ref is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{files.ca}/ca.crt"}
        if kafka.tls.certificate_secret_ref is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _in(files.certificate, "tls.crt"),
                "ssl.keystore.key": _in(files.certificate, "tls.key"),
            }
        if not kafka.tls.verify_hostname:
            settings["ssl.endpoint.identification.algorithm"] = ""
    return settings


def properties_text(settings: Mapping[str, str]) -> str:
    """A file that ``java.util.Properties`` reads back to the same settings; sorted, ASCII."""
    return "".join(f"{_escaped(name, ' :=#!')}={_escaped(settings[name], '')}\n" for name in sorted(settings))


def _providers(config: Mapping[str, str], ours: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Ours beside the user's."""
    if not ours:
        return {}
    names = [name.strip() for name in config.get(_PROVIDERS, "").split(",") if name.strip()]
    return {
        _PROVIDERS: ",".join((*names, *ours)),
        **{
            f"{_PROVIDERS}.{name}.{key}": value
            for name, settings in ours.items()
            for key, value in settings.items()
        },
    }


def _in(folder: str, file: str) -> str:
    return f"${{{FILES}:{folder}:{file}}}"


_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\\": "\\\\"}


def _escaped(text: str, also: str) -> str:
    def one(character: str) -> str:
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character in also:
            return f"\\{character}"
        if " " <= character <= "~":
            return character
        units = character.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    # Blanks in front of a value would be passed over.
    return re.sub(r"\A ", r"\\ ", "".join(map(one, text)))
