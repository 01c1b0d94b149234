"""Reads of commands from a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cooperator.cli.kubectl.errors import CommandError, no_such
from cooperator.controller.api.client import CONNECTORS, EVENTS, PODS, WORKERS, ApiError, Kind
from cooperator.controller.api.kubeconfig import ClusterAddress
from cooperator.controller.names import GROUP, WORKER_LABEL
from cooperator.terminal.objects import Body, milliseconds, name_in_kafka, status_of

__all__ = [
    "Body",
    "Seen",
    "events_of",
    "items_of",
    "milliseconds",
    "name_in_kafka",
    "one",
    "pods_of",
    "see",
    "status_of",
]


@dataclass(frozen=True, slots=True)
class Seen:
    """Workers and the Connectors of their namespaces, sorted by name."""

    workers: Sequence[Body]
    connectors: Sequence[Body]

    def connectors_of(self, worker: Body) -> list[Body]:
        metadata = worker["metadata"]
        return [
            body
            for body in self.connectors
            if body["metadata"]["namespace"] == metadata["namespace"]
            and body["spec"]["workerRef"]["name"] == metadata["name"]
        ]


def see(place: ClusterAddress, worker: str | None = None, everywhere: bool = False) -> Seen:
    """All Workers of the place, or one. Raises ApiError, and CommandError if the Worker does not exist."""
    namespace = None if everywhere else place.namespace
    workers = items_of(place, WORKERS, namespace)
    if worker is not None:
        found = [body for body in workers if body["metadata"]["name"] == worker]
        if not found:
            known = [body["metadata"]["name"] for body in workers]
            raise CommandError(no_such(WORKERS, worker, place.namespace, known))
        workers = found
    return Seen(workers, items_of(place, CONNECTORS, namespace))


def one(place: ClusterAddress, kind: Kind, name: str) -> Body:
    """The object of this name. Raises ApiError, and CommandError if it does not exist."""
    found = items_of(place, kind, place.namespace)
    for body in found:
        if body["metadata"]["name"] == name:
            return body
    raise CommandError(no_such(kind, name, place.namespace, [body["metadata"]["name"] for body in found]))


def items_of(place: ClusterAddress, kind: Kind, namespace: str | None) -> list[Body]:
    """Objects as the API server has them, without managed fields."""
    items, _ = place.api.list(kind, namespace)
    called = {WORKERS: "Worker", CONNECTORS: "Connector"}.get(kind)
    types = {"apiVersion": f"{GROUP}/{kind.version}", "kind": called} if called else {}
    bodies = [{**types, **item, "metadata": _without(item["metadata"], "managedFields")} for item in items]
    return sorted(bodies, key=lambda body: (body["metadata"].get("namespace", ""), body["metadata"]["name"]))


def pods_of(place: ClusterAddress, worker: str, namespace: str | None = None) -> Mapping[str, Body]:
    """The members' pods by name; none if reading them is forbidden. Raises ApiError for other refusals."""
    try:
        items, _ = place.api.list(PODS, namespace or place.namespace, f"{WORKER_LABEL}={worker}")
    except ApiError as error:
        if error.status == 403:
            return {}
        raise
    return {item["metadata"]["name"]: item for item in items}


def events_of(place: ClusterAddress) -> list[Body]:
    """Events of Workers and Connectors of the namespace that the API server still has."""
    items, _ = place.api.list(EVENTS, place.namespace)
    return [
        item
        for item in items
        if str((item.get("regarding") or {}).get("apiVersion", "")).startswith(f"{GROUP}/")
    ]


def _without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}
