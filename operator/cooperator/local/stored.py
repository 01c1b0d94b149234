"""The resources that the local API server stores, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cooperator.crd import Connector, FieldProblem, Resource, Worker


class Key(NamedTuple):
    """The identity of a resource. ``kind`` is "Worker" or "Connector"."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, resource: Resource) -> "Key":
        return cls(resource.kind, resource.metadata.namespace, resource.metadata.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


@dataclass(frozen=True, slots=True)
class Stored:
    """All resources that can be read, and the problems of files that cannot.

    ``bound`` maps Connectors whose tasks may have started to the Worker of their group.
    """

    resources: tuple[Resource, ...]
    problems: tuple[FieldProblem, ...] = ()
    bound: Mapping[Key, str] = field(default_factory=dict)

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(r for r in self.resources if isinstance(r, Worker))

    @property
    def connectors(self) -> tuple[Connector, ...]:
        return tuple(r for r in self.resources if isinstance(r, Connector))


def worker_of(connector: Connector) -> Key:
    """Returns the key of the Worker that the Connector names."""
    return Key("Worker", connector.metadata.namespace, connector.spec.worker_ref.name)
