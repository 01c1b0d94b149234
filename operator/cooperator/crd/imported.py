"""Exports a running Kafka Connect cluster as manifests: a Worker that adopts its group, and its connectors.

    applied(import(cluster)) = cluster

Connectors compile exactly to what the config topic has: a rewritten record would restart its connector.
Secrets are the exception: they are not written in clear, and a comment says so.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from cooperator.crd.connect import Connect, Topics
from cooperator.crd.connector import RESERVED_SETTINGS, Connector
from cooperator.crd.connector_names import resource_name
from cooperator.crd.kafka import Kafka
from cooperator.crd.manifests import Resource, dump
from cooperator.crd.worker import Worker
from cooperator.model import RESERVED, ClusterConfig, ConnectorConfig, TargetState
from cooperator.model.visible import visible_line

_SECRET: Final = re.compile(
    r"password|passwd|passphrase|secret|jaas|token|credential|private\.?key|access\.?key|api\.?key"
    r"|basic\.auth\.user\.info|connection\.uri",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(r"\.(id|alias|name|class|type|path|location|mechanism|length|count|ms|field)$")
"""Ends of names that match a secret's pattern but hold none."""
_REFERENCE: Final = re.compile(r"\$\{[^}:{]+:[^}{]+\}")
_CREDENTIALS_IN_URL: Final = re.compile(r"://[^/@\s:]*:[^/@\s]+@|[?&;](password|pwd)=[^&;\s]", re.IGNORECASE)
"""Each part ends where the next one may begin, so that a search takes linear time."""
_PROVIDER: Final = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_ABOUT_WORKER: Final = (
    "replicas: 0 leads the running workers and starts no others; their own settings (converters, plug-in "
    "path, JVM options) are not in Kafka: add them under spec.connect before you raise replicas",
    "deletionPolicy: Orphan, here and in each Connector: when these resources are deleted, the workers and "
    "connectors keep running; set it to Delete in a Connector to delete its connector with it",
    "the workers' own scheduled.rebalance.max.delay.ms is not in Kafka either: if it is not 300000, set "
    "scheduledRebalanceMaxDelayMs to its value, which applies while this operator leads",
    "fencing: BestEffort, since this operator has no proof of the end of workers that it has not started",
)
_STATES: Final = {
    TargetState.STARTED: "Running",
    TargetState.PAUSED: "Paused",
    TargetState.STOPPED: "Stopped",
}


@dataclass(frozen=True, slots=True)
class ImportedCluster:
    """Identifies a Connect cluster."""

    bootstrap_servers: str
    group_id: str
    topics: Topics = field(default_factory=Topics)
    kafka: Kafka = field(default_factory=Kafka)


@dataclass(frozen=True, slots=True)
class Imported:
    """Resources, each with notes to read before it is applied. ``left_out`` has the connectors that cannot be
    resources, by name, and the reasons; they keep running. ``refusals`` say why the group cannot be led in
    its present state."""

    resources: tuple[tuple[Resource, tuple[str, ...]], ...]
    left_out: Mapping[str, str]
    refusals: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        lines = [f"{r.kind} {r.metadata.name}: {note}" for r, notes in self.resources for note in notes]
        lines += [f"this group cannot be led: {refusal}" for refusal in self.refusals]
        return (*lines, *(f"connector {name!r} is skipped: {why}" for name, why in self.left_out.items()))

    def text(self) -> str:
        """The manifests, with the warnings as comments. The text is deterministic."""
        parts = ["".join(map(_comment, notes)) + dump([resource]) for resource, notes in self.resources]
        last = "".join(_comment(f"Skipped: connector {name!r}: {why}") for name, why in self.left_out.items())
        first = "".join(_comment(f"This group cannot be led: {refusal}") for refusal in self.refusals)
        return first + "---\n".join(parts) + last


def _comment(text: str) -> str:
    # More than one line would be a part of the manifest.
    return f"# {visible_line(text)}\n"


def imported(
    cluster: ImportedCluster, config: ClusterConfig, name: str, namespace: str, refusals: Iterable[str] = ()
) -> Imported:
    """``name`` is the Worker's. For ``refusals`` see ``Imported``.

    Raises ValidationError if the name or the group's id is invalid.
    """
    worker = Worker.model_validate(
        {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "runtime": "connect",
                "replicas": 0,
                "groupId": cluster.group_id,
                "groupPolicy": "Adopt",
                "deletionPolicy": "Orphan",
                "fencing": "BestEffort",
                "bootstrapServers": cluster.bootstrap_servers,
                "kafka": cluster.kafka,
                "connect": Connect(topics=cluster.topics),
            },
        }
    )
    resources: list[tuple[Resource, tuple[str, ...]]] = [(worker, _ABOUT_WORKER)]
    left_out: dict[str, str] = {}
    prefixes = _prefixes(config.connectors)
    for connector, committed in sorted(config.connectors.items()):
        secrets = _secrets(committed.config, prefixes[connector])
        try:
            resource = _connector(connector, committed, secrets, worker)
        except ValidationError as error:
            left_out[connector] = why(error)
            continue
        resources.append((resource, tuple(_notes(secrets))))
    return Imported(tuple(resources), left_out, tuple(refusals))


def _connector(
    name: str, committed: ConnectorConfig, secrets: Mapping[str, str], worker: Worker
) -> Connector:
    config = {**committed.config, **secrets}
    tasks_max = config.get("tasks.max", "1").strip()
    spec: dict[str, Any] = {
        "workerRef": {"name": worker.metadata.name},
        "class": config.get("connector.class", ""),
        "tasksMax": int(tasks_max) if tasks_max.isdecimal() else tasks_max,
        "state": _STATES[committed.target],
        "deletionPolicy": "Orphan",
        "config": {
            key: value
            for key, value in sorted(config.items())
            if key not in RESERVED_SETTINGS and not key.startswith(RESERVED)
        },
    }
    resource = resource_name(worker.metadata.name, name)
    if resource != name:
        spec["connectorName"] = name
    metadata = {"name": resource, "namespace": worker.metadata.namespace}
    return Connector.model_validate({"metadata": metadata, "spec": spec})


def _prefixes(names: Iterable[str]) -> dict[str, str]:
    """Unique prefixes for the environment variables of each connector's secrets."""
    found = {name: _variable(name) for name in names}
    shared = Counter(found.values())
    return {
        name: prefix if shared[prefix] == 1 else f"{prefix}_{_digest(name)}" for name, prefix in found.items()
    }


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8].upper()


def _variable(text: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", text.upper())


def _secrets(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Settings that hold a secret in clear, each with the reference that replaces it."""
    return {
        key: f"${{env:{prefix}_{_variable(key)}}}"
        for key, value in sorted(config.items())
        if _is_secret(key, value)
    }


def _is_secret(key: str, value: str) -> bool:
    if not value or _REFERENCE.search(value):
        return False
    return bool(_SECRET.search(key) and not _HARMLESS.search(key)) or bool(_CREDENTIALS_IN_URL.search(value))


def _notes(secrets: Mapping[str, str]) -> Iterable[str]:
    for key, reference in secrets.items():
        yield (
            f"{key} holds a secret, which is not copied: set {reference[6:-1]} in the workers' environment, "
            f"and config.providers: env and config.providers.env.class: {_PROVIDER} in their settings; or "
            "write another reference. Applying this restarts the connector; until then it keeps running"
        )


def why(error: ValidationError) -> str:
    """Field and error; never the value, which may be a secret."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)
    )
