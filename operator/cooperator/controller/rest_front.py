"""Kafka Connect's REST API of one Worker on Kubernetes: a server in this process, behind a Service.

Members know nothing of it. The Service has no selector, since the operator may live in another namespace: the
leading operator writes its own address into the EndpointSlice.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from cooperator.controller.api.client import ENDPOINT_SLICES, SERVICES, Api, ApiError, Kind
from cooperator.controller.manifests.pods import owner
from cooperator.controller.names import WORKER_LABEL
from cooperator.controller.options import OperatorOptions
from cooperator.controller.rest_access import KubernetesAccess
from cooperator.controller.rest_store import REST, KubernetesConnectors
from cooperator.controller.supplies import apply_own
from cooperator.crd import Connector, Worker
from cooperator.crd.conditions import INVALID_SPEC, NAME_TAKEN
from cooperator.leader.service import LeaderService
from cooperator.rest.app import RestServer
from cooperator.rest.of_worker import front_of, terms_of

log = logging.getLogger(__name__)

_AGAIN_S: Final = 60.0
"""Interval of writing the Service when nothing has changed."""

OFF: Final = (
    "spec.rest.enabled asks for Kafka Connect's REST API, which this operator does not serve: start it with "
    "--rest (the chart's value rest.enabled), or take the field away"
)


class WorkerFront:
    """Used by one Worker's thread. ``leader`` returns the Worker's present one. ``refused`` receives the
    reason when a Worker asks for something that is not served. ``in_effect`` returns the Worker's Connectors
    by their Kafka names, as last seen."""

    def __init__(
        self,
        api: Api,
        options: OperatorOptions,
        leader: Callable[[], LeaderService | None],
        refused: Callable[[str, str], None],
        in_effect: Callable[[], Mapping[str, Connector]],
    ) -> None:
        self._api = api
        self._options = options
        self._leader = leader
        self._server: RestServer | None = None
        self._terms: object = None
        self._written_at = float("-inf")
        self._refused = refused
        self._in_effect = in_effect

    def keep(self, worker: Worker | None) -> None:
        """Serve as the Worker says; None closes the server. Raises ApiError, OSError."""
        asked = worker is not None and worker.spec.rest.enabled
        if asked and not self._options.rest:
            self._refused(OFF, INVALID_SPEC)
        if worker is None or not asked or not self._options.rest:
            if self._server is not None:
                self.close()
                if worker is not None:
                    self._take_away(worker)
            return
        if self._server is None or terms_of(worker) != self._terms:
            self.close()
            self._start(worker)
        if time.monotonic() - self._written_at > _AGAIN_S:
            assert self._server is not None
            host, port = self._options.advertised_host, self._server.port
            for kind, manifest in manifests(worker, host, port, self._options.tls is not None):
                if taken := apply_own(self._api, kind, manifest, worker):
                    self._refused(taken, NAME_TAKEN)
                    return
            self._written_at = time.monotonic()

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None

    def _start(self, worker: Worker) -> None:
        namespace, name = worker.metadata.namespace, worker.metadata.name
        api = self._api.writing_as(REST)
        connectors = KubernetesConnectors(api, namespace, name, self._in_effect)
        front = front_of(worker, self._leader, connectors, KubernetesAccess(api, namespace))
        server = RestServer(front, self._options.host, 0, tls=self._options.tls)
        server.start()
        log.info("Worker %s/%s: Kafka Connect's REST API at port %d", namespace, name, server.port)
        self._server, self._terms = server, terms_of(worker)
        self._written_at = float("-inf")

    def _take_away(self, worker: Worker) -> None:
        namespace, name = worker.metadata.namespace, service_name(worker)
        for kind in (SERVICES, ENDPOINT_SLICES):
            try:
                metadata = self._api.get(kind, namespace, name)["metadata"]
            except ApiError as error:
                if error.is_missing:
                    continue
                raise
            # An object of this name that is not ours stays.
            if any(each["uid"] == worker.metadata.uid for each in metadata.get("ownerReferences") or ()):
                self._api.delete(kind, namespace, name, metadata["uid"])


def service_name(worker: Worker) -> str:
    return f"{worker.metadata.name}-rest"


def manifests(
    worker: Worker, host: str, port: int, tls: bool = False
) -> tuple[tuple[Kind, Mapping[str, Any]], ...]:
    """The Service and its EndpointSlice, which leads to ``port`` of ``host``, the operator's own. Pure."""
    protocol = {"name": "rest", "protocol": "TCP", **({"appProtocol": "https"} if tls else {})}
    name = service_name(worker)
    labels = {"app.kubernetes.io/managed-by": "cooperator", WORKER_LABEL: worker.metadata.name}
    metadata: Mapping[str, Any] = {
        "name": name,
        "namespace": worker.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner(worker)],
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{**protocol, "port": worker.spec.rest.port}]},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            **metadata,
            "labels": {
                **labels,
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "cooperator",
            },
        },
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{**protocol, "port": port}],
    }
    return (SERVICES, service), (ENDPOINT_SLICES, endpoints)
