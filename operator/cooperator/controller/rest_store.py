"""Connectors of an API server, as the REST API makes and changes them (``rest.parts.Connectors``).

Written by the operator's account under a field manager of its own, after the caller's right was asked for
(``rest_access``). What another manager has said is not changed: whoever applies manifests would undo it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from cooperator.controller.api import CONNECTORS, Api, ApiError
from cooperator.controller.managers import foreign, refusal
from cooperator.crd import Connector, ResourceError, from_object, to_manifest
from cooperator.crd.rules import DNS_SUBDOMAIN
from cooperator.rest.answers import Refused

_TRIES: Final = 5
"""A status may be written between reading and writing."""


class KubernetesConnectors:
    """Of one Worker. ``api`` writes as ``managers.REST``."""

    def __init__(self, api: Api, namespace: str, worker: str) -> None:
        self._api = api
        self._namespace = namespace
        self._worker = worker

    def all(self) -> Sequence[Connector]:
        with _refusing():
            bodies, _ = self._api.list(CONNECTORS, self._namespace)
        kind = {"apiVersion": f"{CONNECTORS.group}/{CONNECTORS.version}", "kind": "Connector"}
        found = (_read({**kind, **body}) for body in bodies)
        return [c for c in found if c is not None and c.spec.worker_ref.name == self._worker]

    def find(self, name: str) -> Connector | None:
        try:
            # It becomes a part of a path, and comes from a caller: "../../namespaces/…" would be another one.
            DNS_SUBDOMAIN.check(name)
        except ValueError:
            return None  # A name that no resource can have is nobody's.
        try:
            with _refusing():
                return _read(self._api.get(CONNECTORS, self._namespace, name))
        except Refused as refused:
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
            except Refused as refused:
                if refused.code != HTTPStatus.CONFLICT:
                    raise
        raise Refused(409, f"Connector {before.metadata.name} changes all the time: ask again")

    def delete(self, connector: Connector) -> None:
        body = self._unmanaged(connector, to_manifest(connector)["spec"])
        with _refusing():
            self._api.delete(CONNECTORS, self._namespace, connector.metadata.name, body["metadata"]["uid"])

    def _unmanaged(self, before: Connector, fields: Any) -> Mapping[str, Any]:
        """The object as it is, if it still is what was read. Refused 403 where others manage its fields."""
        name = before.metadata.name
        with _refusing():
            body = self._api.get(CONNECTORS, self._namespace, name)
        now = _read(body)
        if now is None or now.spec != before.spec:
            raise Refused(409, f"Connector {name} has been changed meanwhile: ask again")
        managed = foreign(body, fields)
        if managed:
            raise Refused(403, refusal(name, managed))
        return body


def _read(body: Mapping[str, Any]) -> Connector | None:
    """None for what is being deleted, and for what this version cannot read."""
    if body["metadata"].get("deletionTimestamp") is not None:
        return None
    try:
        found = from_object(body)
    except ResourceError:
        return None
    assert isinstance(found, Connector)
    return found


def _merged(old: Any, new: Any) -> Any:
    """A JSON merge patch that makes ``new`` of ``old``."""
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
            # The caller's right has been asked for; it is the operator that lacks one.
            message = f"{error}: the chart grants the operator this right with rest.enabled"
            raise Refused(503, message) from None
        passed = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
        if error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise Refused(400, str(error)) from None
        raise Refused(error.status if error.status in passed else 503, str(error)) from None
