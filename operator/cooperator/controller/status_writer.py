"""Writes a status only when it has changed, and only to the observed object, not to a later object with the
same name.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from cooperator.controller.api.client import CONNECTORS, PODS, WORKERS, Api, ApiError, Kind
from cooperator.controller.names import GROUP, VERSION
from cooperator.controller.observe import Body
from cooperator.controller.store import CONNECTOR, POD, WORKER, Store
from cooperator.crd import Condition, ConnectorStatus, WorkerStatus, merge_conditions, stored_conditions

API_VERSION: Final = f"{GROUP}/{VERSION}"
_STORED: Final[Mapping[Kind, str]] = {WORKERS: WORKER, CONNECTORS: CONNECTOR, PODS: POD}


class StatusWriter:
    """``bound_worker`` names the Worker whose group may have progress of a Connector."""

    def __init__(self, api: Api, store: Store, bound_worker: Callable[[Body], str | None]) -> None:
        self._api = api
        self._store = store
        self._bound_worker = bound_worker
        self._written: dict[tuple[str, str], Any] = {}
        self._conditions: dict[tuple[str, str], tuple[Condition, ...]] = {}

    def saw(self, kind: Kind, body: Body) -> None:
        """Store an answer before the watch delivers it, so that nothing is written twice meanwhile."""
        self._store.put(_STORED[kind], body)

    def write(
        self,
        kind: Kind,
        body: Body,
        status: WorkerStatus | ConnectorStatus,
        kept: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]] | None = None,
        exact: bool = False,
    ) -> bool:
        """Returns whether the object now has this status: False if the object is gone or was replaced by
        another of the same name, or, with ``exact``, is no longer as it was seen.

        ``kept`` adds the figures of the stored status that stay.
        """
        # Keyed by uid and not by name: a successor under the same name has not been written yet.
        key = (kind.plural, body["metadata"]["uid"])
        before = self._conditions.get(key) or stored_conditions(body)
        conditions = merge_conditions(before, status.conditions, time.time_ns() // 1_000_000)
        self._conditions[key] = conditions
        metadata = meant(body)
        if isinstance(status, ConnectorStatus) and status.bound_worker is None:
            bound = self._bound_worker(body)
            status = status.model_copy(update={"bound_worker": bound})
            if bound is None:
                # Do not overwrite a binding that was recorded since ``body`` was seen.
                exact = True
        if exact:
            metadata["resourceVersion"] = body["metadata"]["resourceVersion"]
        said = status.model_copy(update={"conditions": conditions}).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        if kept is not None:
            said = kept(said, body.get("status") or {})
        if self._written.get(key) == said:
            return True
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "Worker" if kind is WORKERS else "Connector",
            "metadata": metadata,
            "status": said,
        }
        try:
            self.saw(kind, self._api.apply(kind, manifest, "status"))
        except ApiError as error:
            if not error.is_outdated:
                raise
            return False
        self._written[key] = said
        return True


def meant(body: Body) -> dict[str, str]:
    """Identifies this object and no later one of its name."""
    metadata = body["metadata"]
    return {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
