"""One namespace of an API server that has the definitions of Worker and Connector."""

import re
from collections.abc import Mapping
from typing import Any

from cooperator.crd import API_VERSION, from_object, to_manifest
from cooperator.crd.projection import Projection
from cooperator.crd.render import definitions
from tests.harness.support import eventually
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import wait_until_served


def serve(cluster: ControlPlane) -> None:
    """Installs both definitions; may be called again."""
    cluster.apply(*definitions().values())
    names = {crd["metadata"]["name"] for crd in definitions().values()}
    wait_until_served(cluster)
    # A kind may be served before it is listed, and kubectl caches the list.
    words = ("api-resources", "--categories=cooperator", "-o", "name")
    eventually(lambda: names <= set(cluster.kubectl(*words).split()), 30, f"kubectl knows {names}")


class Namespace:
    """One namespace of a server."""

    def __init__(self, server: ControlPlane, name: str) -> None:
        self.server = server
        self.name = name

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        parts = (f"/apis/{API_VERSION}/namespaces/{self.name}/{kind.lower()}s", name, subresource)
        return "/".join(part for part in parts if part)

    def create(self, kind: str, name: str, **spec: object) -> dict[str, Any]:
        return self.server.api.post(self.path(kind), body(kind, name, spec))

    def ask(self, kind: str, name: str, **spec: object) -> dict[str, Any]:
        """Returns the object that would be created; raises ApiError if it would be refused."""
        return self.server.api.post(f"{self.path(kind)}?dryRun=All", body(kind, name, spec))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.server.api.get(self.path(kind, name))

    def change(self, kind: str, name: str, **spec: object) -> dict[str, Any]:
        return self.server.api.patch(self.path(kind, name), {"spec": spec})

    def write_status(self, kind: str, name: str, status: Projection) -> dict[str, Any]:
        resource = from_object(self.get(kind, name))
        return self.server.api.put(self.path(kind, name, "status"), to_manifest(resource, status))

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self.server.kubectl("-n", self.name, *words, stdin=stdin)

    def table(self, *words: str) -> list[list[str]]:
        """The cells of kubectl's table; columns are three or more spaces apart."""
        return [re.split(r"\s{2,}", line.strip()) for line in self.kubectl("get", *words).splitlines()]


def body(kind: str, name: str, spec: Mapping[str, object]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def connector(**spec: object) -> dict[str, object]:
    return {"workerRef": {"name": "lake"}, "class": "noop", **spec}
