"""Connectors by their names in Kafka, which may differ from those of their resources. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cooperator.crd.connector import Connector
from cooperator.crd.rules import DNS_SUBDOMAIN
from cooperator.crd.worker import Worker

_READABLE: Final = 50
_DIGEST: Final = 16


@dataclass(frozen=True, slots=True)
class Named:
    """The Connectors of one Worker. ``connectors`` are those in effect, by name in Kafka. ``refused`` gives
    for each other one, by the resource's name, the reason and the remedy."""

    connectors: Mapping[str, Connector] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def named(worker: Worker, connectors: Iterable[Connector]) -> Named:
    """Those of ``connectors`` that refer to ``worker``. Of two with one Kafka name the older one counts.

    Both creation times are of the API servers' clocks: if these were set back in between, the younger one
    counts. One of the two counts all the same, so that no task runs twice.
    """
    ours = [
        connector
        for connector in connectors
        if connector.spec.worker_ref.name == worker.metadata.name
        and connector.metadata.namespace == worker.metadata.namespace
    ]
    found: dict[str, Connector] = {}
    refused: dict[str, str] = {}
    for connector in sorted(ours, key=lambda c: (c.metadata.creation_timestamp or "", c.metadata.name)):
        name, resource = connector.connector_name, connector.metadata.name
        if name != resource and not worker.spec.is_stock:
            refused[resource] = (
                f"spec.connectorName {name!r}: Worker {worker.metadata.name} has runtime: "
                f"{worker.spec.runtime}, where a connector has the name of its resource; delete the "
                "resource, and create it again without the field"
            )
        elif connector.spec.state_replicas is not None and worker.spec.is_stock:
            refused[resource] = (
                f"spec.stateReplicas: Worker {worker.metadata.name} has runtime: connect, whose workers "
                "cannot learn what tasks keep; remove the field"
            )
        elif name in found:
            refused[resource] = name_is_taken(connector, found[name])
        else:
            found[name] = connector
    return Named(found, refused)


def name_is_taken(connector: Connector, by: Connector) -> str:
    """The error text for ``connector``, whose Kafka name the Connector ``by`` of the same Worker has."""
    field_ = "spec.connectorName" if connector.spec.connector_name is not None else "metadata.name"
    return (
        f"{field_} {connector.connector_name!r} is already the name in Kafka of Connector {by.metadata.name} "
        f"of Worker {by.spec.worker_ref.name}, which keeps running: delete one of the two, or create this "
        "one again with another spec.connectorName"
    )


def same_name(connectors: Iterable[Connector], other: Connector) -> Connector | None:
    """The one of ``connectors`` that is another resource of the same Worker with the same name in Kafka."""
    return next(
        (
            each
            for each in connectors
            if each.metadata.name != other.metadata.name
            and each.metadata.namespace == other.metadata.namespace
            and each.spec.worker_ref.name == other.spec.worker_ref.name
            and each.connector_name == other.connector_name
        ),
        None,
    )


def resource_name(worker: str, connector: str) -> str:
    """The name of the resource for the connector that ``worker``'s group calls ``connector``.

    It is the same name if a resource can have it, and otherwise a readable part of it with a digest of both.
    It is deterministic; two connectors, or those of two Workers of one namespace, get two names.
    """
    try:
        return DNS_SUBDOMAIN.check(connector)
    except ValueError:
        readable = re.sub(r"[^a-z0-9]+", "-", connector.lower())[:_READABLE].strip("-")
        digest = hashlib.sha256(f"{worker}\0{connector}".encode()).hexdigest()[:_DIGEST]
        return f"{readable or 'connector'}-{digest}"
