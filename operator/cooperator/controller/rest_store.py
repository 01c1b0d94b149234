"""Connectors on an API server, as the REST API creates and changes them (``rest.parts.Connectors``).

The operator's account writes them under a field manager of its own, after the caller's right has been checked
(``rest_access``). Fields of another manager are not changed: the next apply would undo it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from cooperator.controller.api.client import CONNECTORS, Api, ApiError
from cooperator.crd import Connector, ResourceError, from_object, to_manifest
from cooperator.crd.connector_names import resource_name
from cooperator.crd.rules import DNS_SUBDOMAIN
from cooperator.rest.answers import RequestRefused

REST: Final = "cooperator-rest"
"""The manager of fields written for callers of the REST API."""
_TRIES: Final = 5
"""A status may be written between the read and the write."""


class KubernetesConnectors:
    """Serves one Worker. ``api`` writes as ``REST``. ``in_effect`` returns its Connectors by their
    Kafka names, as the operator has seen them last."""

    def __init__(
        self, api: Api, namespace: str, worker: str, in_effect: Callable[[], Mapping[str, Connector]]
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._worker = worker
        self._in_effect = in_effect

    def all(self) -> Sequence[Connector]:
        with _refusing():
            bodies, _ = self._api.list(CONNECTORS, self._namespace)
        kind = {"apiVersion": f"{CONNECTORS.group}/{CONNECTORS.version}", "kind": "Connector"}
        found = (_read({**kind, **body}) for body in bodies)
        return [c for c in found if c is not None and c.spec.worker_ref.name == self._worker]

    def find(self, name: str) -> Connector | None:
        seen = self._in_effect().get(name)
        # A new Connector may not have been seen yet; this server gave it the derived name.
        names = ([] if seen is None else [seen.metadata.name], [resource_name(self._worker, name)])
        for resource in dict.fromkeys(each for some in names for each in some):
            found = self.resource(resource)
            if found is not None and (found.spec.worker_ref.name, found.connector_name) == (
                self._worker,
                name,
            ):
                return found
        return None

    def resource(self, name: str) -> Connector | None:
        try:
            # The name becomes a part of a path: "../../namespaces/…" would be another one.
            DNS_SUBDOMAIN.check(name)
        except ValueError:
            return None  # No resource can have this name.
        try:
            with _refusing():
                return _read(self._api.get(CONNECTORS, self._namespace, name))
        except RequestRefused as refused:
            if refused.code == HTTPStatus.NOT_FOUND:
                return None
            raise

    def create(self, connector: Connector) -> None:
        with _refusing():
            self._api.create(CONNECTORS, to_manifest(connector))

    def change(self, before: Connector, after: Connector) -> None:
        old, new = to_manifest(before)["spec"], to_manifest(after)["spec"]
        fields = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        patch = {name: _merged(old.get(name), new.get(name)) for name in fields}
        for _ in range(_TRIES):
            body = self._unmanaged(before, fields)
            metadata = {key: body["metadata"][key] for key in ("uid", "resourceVersion")}
            try:
                with _refusing():
                    self._api.merge(
                        CONNECTORS,
                        self._namespace,
                        before.metadata.name,
                        {"metadata": metadata, "spec": patch},
                    )
                return
            except RequestRefused as refused:
                if refused.code != HTTPStatus.CONFLICT:
                    raise
        raise RequestRefused(409, f"Connector {before.metadata.name} changes all the time: ask again")

    def delete(self, connector: Connector) -> None:
        body = self._unmanaged(connector, to_manifest(connector)["spec"])
        with _refusing():
            self._api.delete(CONNECTORS, self._namespace, connector.metadata.name, body["metadata"]["uid"])

    def _unmanaged(self, before: Connector, fields: Any) -> Mapping[str, Any]:
        """Return the current object if it is still what was read. Raises RequestRefused 409 if it has
        changed, and 403 if another manager owns its fields."""
        name = before.metadata.name
        with _refusing():
            body = self._api.get(CONNECTORS, self._namespace, name)
        now = _read(body)
        if now is None or now.spec != before.spec:
            raise RequestRefused(409, f"Connector {name} has been changed meanwhile: ask again")
        managed = foreign(body, fields)
        if managed:
            raise RequestRefused(403, refusal(name, managed))
        return body


def _read(body: Mapping[str, Any]) -> Connector | None:
    """Return None for an object that is being deleted or that this version cannot read."""
    if body["metadata"].get("deletionTimestamp") is not None:
        return None
    try:
        found = from_object(body)
    except ResourceError:
        return None
    assert isinstance(found, Connector)
    return found


def _merged(old: Any, new: Any) -> Any:
    """A JSON merge patch that turns ``old`` into ``new``."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {
        key: _merged(old.get(key), new.get(key))
        for key in old.keys() | new.keys()
        if old.get(key) != new.get(key)
    }


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.is_forbidden:
            # The caller's right has been checked; the operator lacks its own.
            message = f"{error}: the chart grants the operator this right with rest.enabled"
            raise RequestRefused(503, message) from None
        passed = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise RequestRefused(400, str(error)) from None
        raise RequestRefused(error.status if error.status in passed else 503, str(error)) from None


def foreign(body: Mapping[str, Any], fields: Iterable[str]) -> dict[str, str]:
    """Those of the spec's ``fields`` that another manager owns wholly or in part: field to manager. Pure."""
    found: dict[str, str] = {}
    for field in fields:
        for entry in body["metadata"].get("managedFields") or ():
            spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
            if entry.get("manager") != REST and f"f:{field}" in spec:
                found.setdefault(field, str(entry.get("manager")))
    return found


def refusal(name: str, managed: Mapping[str, str]) -> str:
    """Returns why a change is refused, and the remedy."""
    what = ", ".join(f"spec.{field} by {manager!r}" for field, manager in sorted(managed.items()))
    return (
        f"Connector {name} is managed elsewhere ({what}), which would undo what is changed here: change it "
        "there, or have that manager give the fields up"
    )
