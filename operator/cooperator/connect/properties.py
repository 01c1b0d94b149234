"""The ``worker.properties`` of a Worker's stock workers. Pure.

The user's settings are kept. Settings that must agree with the leader, the group and the pod are set here;
``crd.owned`` has refused them among the user's own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cooperator.crd import Worker
from cooperator.crd.kafka import Kafka
from cooperator.crd.owned import PROVIDER
from cooperator.oauthbearer import OAuthLogin, java_properties

ENV: Final = f"{PROVIDER}-env"
FILES: Final = f"{PROVIDER}-files"
"""The operator's configuration providers: environment variables, and files whose names are keys (KIP-421)."""

_PROVIDERS: Final = "config.providers"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_DEFAULTS: Final[Mapping[str, str]] = {
    # As in Kafka's own connect-distributed.properties.
    "key.converter": _JSON,
    "value.converter": _JSON,
    # The brokers' default: not every cluster can provide 3 replicas, Connect's own default.
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
}
STRATEGY: Final = "partition.assignment.strategy"
GROUP_PROTOCOL: Final = "group.protocol"
COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
"""Shares a sink's partitions among its tasks so that only those that move pause (KIP-429)."""
_CONSUMER: Final = "consumer."
_MAX_DELAY: Final = "scheduled.rebalance.max.delay.ms"
_CLIENTS: Final = ("producer.", "consumer.", "admin.")
"""Clients of connectors, which do not inherit the worker's own security settings."""


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """One worker: its identity, where it listens and where others reach it. Each may be a reference."""

    identity: str
    host: str
    port: int
    listen: str = "0.0.0.0"


POD: Final = WorkerAddress(f"${{{ENV}:POD_NAME}}", f"${{{ENV}:POD_IP}}", 8083)
"""All pods of a Worker have the same settings; the identity comes from the environment."""
POD_PROVIDERS: Final[Mapping[str, Mapping[str, str]]] = {
    ENV: {
        "class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "param.allowlist.pattern": "POD_NAME|POD_IP",
    },
}


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of a Connect cluster's topics."""

    config: str
    offset: str
    status: str


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """Folders with a worker's name and password, and certificates; empty where not needed. ``token_url``: see
    ``sasl.oauthbearer.token.endpoint.url``."""

    sasl: str = ""
    ca: str = ""
    certificate: str = ""
    token_ca: str = ""
    token_url: str = ""

    @property
    def providers(self) -> Mapping[str, Mapping[str, str]]:
        """The configuration providers that read these files."""
        folders = ",".join(filter(None, (self.sasl, self.certificate)))
        if not folders:
            return {}
        name = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        return {FILES: {"class": name, "param.allowed.paths": folders}}


def topic_names(worker: Worker) -> TopicNames:
    """Return the Worker's topic names, or defaults made from the group id."""
    topics, group = worker.spec.stock.topics, worker.group_id
    return TopicNames(
        topics.config or f"{group}-configs",
        topics.offset or f"{group}-offsets",
        topics.status or f"{group}-status",
    )


def worker_settings(
    worker: Worker,
    bootstrap_servers: str,
    place: WorkerAddress,
    security: Mapping[str, str],
    providers: Mapping[str, Mapping[str, str]],
    *,
    cooperative_sinks: bool = True,
) -> dict[str, str]:
    """Return all settings of one worker.

    ``security``: see ``security_settings``. ``providers``: the operator's configuration providers, by name.
    ``cooperative_sinks``: consumers of sinks rebalance cooperatively unless the user says how they do.
    """
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
        # Applies while a worker has to lead.
        _MAX_DELAY: str(spec.scheduled_rebalance_max_delay_ms),
        **({"plugin.path": ",".join(stock.plugin_path)} if stock.plugin_path else {}),
        **security,
        **_providers(stock.config, providers),
    }
    of_clients = {f"{client}{name}": value for client in _CLIENTS for name, value in security.items()}
    sinks = sink_defaults(stock.config) if cooperative_sinks else {}
    return {**_DEFAULTS, **sinks, **of_clients, **stock.config, **ours}


def sink_defaults(config: Mapping[str, str]) -> dict[str, str]:
    """Return the operator's settings for the consumers of sinks, beside the user's own ``config``.

    Kafka's default is a list with Range, so that all tasks of a sink stop reading whenever one of them
    comes or goes (docs/decisions/112). Consumers with ``group.protocol`` ``consumer`` refuse to be given
    an assignor, so a user who sets either is left alone.
    """
    chosen = config.keys() & {f"{_CONSUMER}{STRATEGY}", f"{_CONSUMER}{GROUP_PROTOCOL}"}
    return {} if chosen else {f"{_CONSUMER}{STRATEGY}": COOPERATIVE}


def rolling(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings whose change replaces workers; settings that only a leading worker reads do not."""
    return {name: value for name, value in settings.items() if name != _MAX_DELAY}


def security_settings(kafka: Kafka, files: SecretFiles) -> dict[str, str]:
    """Return a worker's security settings for Kafka: references to files, never their content."""
    if kafka == Kafka():
        return {}
    settings = {"security.protocol": kafka.security_protocol.value}
    if kafka.sasl is not None and (oauth := kafka.sasl.oauthbearer) is not None:
        has_secret = kafka.sasl.secret_ref is not None
        login = OAuthLogin(
            files.token_url,
            _in(files.sasl, "username") if has_secret else "",
            _in(files.sasl, "password") if has_secret else "",
            oauth.scope or "",
        )
        ca = {}
        if oauth.ca_secret_ref is not None:
            ca = {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{files.token_ca}/ca.crt"}
        settings |= java_properties(login, ca)
    elif kafka.sasl is not None:
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


def leader_trust(trust_store: str) -> dict[str, str]:
    """Return the settings by which a worker verifies a leader that serves https: the path of a JKS file.

    A prefix's settings replace all of Kafka's own (``ssl.…``). Workers reach the leader by its address, and
    cannot be told another name to look for in its certificate.
    """
    prefix = "listeners.https.ssl"
    return {
        f"{prefix}.truststore.type": "JKS",
        f"{prefix}.truststore.location": trust_store,
        f"{prefix}.endpoint.identification.algorithm": "",
        # Java's own; some releases of Connect fail when a prefix leaves them out.
        f"{prefix}.cipher.suites": "",
    }


def properties_text(settings: Mapping[str, str]) -> str:
    """Return a file that ``java.util.Properties`` reads back to the same settings; sorted, ASCII."""
    return "".join(f"{_escaped(name, ' :=#!')}={_escaped(settings[name], '')}\n" for name in sorted(settings))


def _providers(config: Mapping[str, str], ours: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the settings of the operator's providers, in addition to the user's."""
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

    # A leading blank of a value would be ignored.
    return re.sub(r"\A ", r"\\ ", "".join(map(one, text)))
