"""Access to a Worker's Kafka from here, or from the operator's pod."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.cli.kubectl.errors import CommandError, explained
from cooperator.cli.kubectl.seen import Body, pods_of
from cooperator.controller.api.access import read_secret
from cooperator.controller.api.client import PODS, ApiError
from cooperator.controller.api.kubeconfig import ClusterAddress
from cooperator.controller.names import CONTAINER
from cooperator.crd import Worker, from_object
from cooperator.host.security import OwnToken, SecretProblem, secret_names, security_of, write_material

_OPERATORS: Final = "app.kubernetes.io/name=cooperator,app.kubernetes.io/component=operator"
_SERVERS: Final = "--bootstrap-servers"


class OutOfReach(CommandError):
    """Kafka cannot be reached from here with the caller's rights; from the operator's pod it can."""


@dataclass(frozen=True, slots=True)
class Kafka:
    """``security`` has the clients' settings, never to be shown."""

    bootstrap_servers: str
    group_id: str
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)


def kafka_of(place: ClusterAddress, body: Body, folder: Path) -> Kafka:
    """``folder`` holds certificates while they are used. Raises CommandError, OutOfReach, ApiError."""
    worker = from_object(body)
    assert isinstance(worker, Worker)
    metadata = worker.metadata
    servers = worker.spec.bootstrap_servers or _servers_of(pods_of(place, metadata.name, metadata.namespace))
    if not servers:
        raise CommandError(
            f"the Kafka of Worker {metadata.name} is unknown: its spec.bootstrapServers is empty, and it has "
            "no member from which to read the operator's default: set that field, or start a member"
        )
    kafka = worker.spec.kafka
    try:
        found = {name: read_secret(place.api, metadata.namespace, name) for name in secret_names(kafka)}
        own_token = _own_token() if not worker.spec.bootstrap_servers else None
        if kafka.sasl and kafka.sasl.service_account_token and own_token is None:
            raise OutOfReach(
                f"Worker {metadata.name} logs in to Kafka by ServiceAccount tokens; the operator's own is "
                "in its pod, for its default brokers"
            )
        secrets = {name: each for name, each in found.items() if each is not None}
        security = security_of(kafka, secrets, folder, own_token)
        write_material(security)
    except SecretProblem as error:
        raise CommandError(str(error)) from None
    except ApiError as error:
        if error.is_forbidden:
            raise OutOfReach(explained(error)) from None
        raise
    return Kafka(servers, worker.group_id, security.settings)


def _own_token() -> OwnToken | None:
    """The operator's own token, in its pod."""
    path, audience = (os.environ.get(f"COOPERATOR_KAFKA_TOKEN_{name}") for name in ("FILE", "AUDIENCE"))
    return OwnToken(Path(path), audience or "") if path else None


def _servers_of(pods: Mapping[str, Body]) -> str:
    """The bootstrap servers in the members' arguments."""
    for pod in pods.values():
        for container in pod["spec"].get("containers") or ():
            words = container.get("args") or ()
            if container["name"] == CONTAINER and _SERVERS in words[:-1]:
                return str(words[words.index(_SERVERS) + 1])
    return ""


def operator_pod(place: ClusterAddress) -> tuple[str, str] | None:
    """Namespace and name of a running pod of the operator, or None if none is visible."""
    for namespace in (None, place.namespace):
        try:
            pods, _ = place.api.list(PODS, namespace, _OPERATORS)
        except ApiError:
            continue
        for pod in pods:
            if (pod.get("status") or {}).get("phase") == "Running":
                return pod["metadata"]["namespace"], pod["metadata"]["name"]
    return None


def exec_command(place: ClusterAddress, pod: tuple[str, str] | None, words: Sequence[str]) -> list[str]:
    """The command that runs ``words`` (after ``cooperator``) in the operator's pod, which reaches Kafka."""
    namespace, name = pod or ("NAMESPACE-OF-THE-OPERATOR", "deploy/cooperator")
    return [
        *("kubectl", *place.kubectl_options, "exec", "-n", namespace, name, "--"),
        *("cooperator", *words),
    ]


def kubectl_program() -> str | None:
    return shutil.which("kubectl")
