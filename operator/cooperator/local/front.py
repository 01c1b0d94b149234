"""Kafka Connect's REST API of each Worker that enables it, on 127.0.0.1 and without authentication."""

import logging
from collections.abc import Callable, Mapping, Sequence

from cooperator.crd import Connector, Resource, ResourceError, Worker
from cooperator.leader.service import LeaderService
from cooperator.local.store import Key, ManifestStore
from cooperator.rest.answers import RequestRefused, Right
from cooperator.rest.app import RestServer
from cooperator.rest.of_worker import front_of, terms_of

log = logging.getLogger(__name__)

Name = tuple[str, str]
_SOURCE = "the request"


class LocalConnectors:
    """The manifests of a state directory as ``rest.parts.Connectors``."""

    def __init__(self, store: ManifestStore, namespace: str, worker: str) -> None:
        self._store = store
        self._namespace = namespace
        self._worker = worker

    def all(self) -> Sequence[Connector]:
        return [c for c in self._here() if c.spec.worker_ref.name == self._worker]

    def find(self, name: str) -> Connector | None:
        return next((c for c in self.all() if c.connector_name == name), None)

    def resource(self, name: str) -> Connector | None:
        return next((c for c in self._here() if c.metadata.name == name), None)

    def create(self, connector: Connector) -> None:
        self._apply(connector)

    def change(self, before: Connector, after: Connector) -> None:
        self._apply(after)

    def delete(self, connector: Connector) -> None:
        self._store.delete(Key.of(connector))

    def _here(self) -> Sequence[Connector]:
        connectors = self._store.read().connectors
        return [c for c in connectors if c.metadata.namespace == self._namespace]

    def _apply(self, resource: Resource) -> None:
        try:
            self._store.apply([resource], _SOURCE)
        except ResourceError as error:
            raise RequestRefused(400, "; ".join(problem.message for problem in error.problems)) from None


class Everybody:
    """``rest.parts.Access`` for a single user's machine: it permits everything."""

    def permit(self, authorization: str, right: Right) -> None:
        return


class Fronts:
    """The servers of all Workers. One thread uses it."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store
        self._servers: dict[Name, tuple[object, RestServer]] = {}
        self._refused: dict[Name, str] = {}

    def keep(self, workers: Mapping[Name, Worker], leader: Callable[[Name], LeaderService | None]) -> None:
        """Serves the API for those of ``workers`` that enable it, and for no others."""
        wanted = {name: worker for name, worker in workers.items() if worker.spec.rest.enabled}
        for name, (terms, _) in list(self._servers.items()):
            if name not in wanted or terms_of(wanted[name]) != terms:
                self._servers.pop(name)[1].stop()
        for name, worker in wanted.items():
            if name not in self._servers:
                self._start(name, worker, leader)

    def stop(self) -> None:
        self.keep({}, lambda name: None)

    def _start(self, name: Name, worker: Worker, leader: Callable[[Name], LeaderService | None]) -> None:
        front = front_of(worker, lambda: leader(name), LocalConnectors(self._store, *name), Everybody())
        server = RestServer(front, "127.0.0.1", worker.spec.rest.port, only_here=True)
        try:
            server.start()
        except OSError as error:
            server.stop()
            reason = f"spec.rest.port {worker.spec.rest.port} of Worker {name[1]} is of no use: {error}"
            if self._refused.get(name) != reason:
                log.warning("%s; give it another", reason)
            self._refused[name] = reason
            return
        log.info("Worker %s/%s: Kafka Connect's REST API at %s", *name, server.url)
        self._servers[name] = (terms_of(worker), server)
