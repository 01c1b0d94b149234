"""Connectors whose Worker does not exist: their status reports it, and a deleted one loses its finalizer."""

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from cooperator.controller.api.client import CONNECTORS, Api, ApiError
from cooperator.controller.names import FINALIZER
from cooperator.controller.publish import Publisher
from cooperator.controller.resources import Readings
from cooperator.controller.store import Store
from cooperator.supervision import wait_turning

log = logging.getLogger(__name__)

_LOOK_S: Final = 2.0


class Strays:
    def __init__(self, store: Store, api: Api) -> None:
        self._store = store
        self._api = api
        self._publishers: dict[str, Publisher] = {}
        self._readings: dict[str, Readings] = {}

    def run(self, ending: threading.Event) -> None:
        while not wait_turning(ending, _LOOK_S):
            for body in self._store.strays():
                try:
                    self._look(body)
                except ApiError as error:
                    log.warning("%s", error)
                except Exception:
                    # An unreadable Connector must not prevent the statuses of the others.
                    log.exception("Connector %s/%s", *map(body["metadata"].get, ("namespace", "name")))

    def _look(self, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        namespace = metadata["namespace"]
        publisher = self._publishers.setdefault(namespace, Publisher(self._api, (namespace, ""), self._store))
        if metadata.get("deletionTimestamp") is not None:
            if FINALIZER in (metadata.get("finalizers") or ()):
                publisher.finalize(CONNECTORS, body, keep=False)
            return
        readings = self._readings.setdefault(namespace, Readings())
        found = (
            readings.worker(worker)
            for (where, _), worker in self._store.workers().items()
            if where == namespace
        )
        workers = tuple(worker for worker in found if worker is not None)
        problem = readings.problems.get(("Connector", metadata["name"]))
        publisher.stray(body, readings.connector(body), workers, problem)
