"""The Kubernetes API for what kopf does not do: lists, server-side apply, creation, deletion. Synchronous.

Every write except the Lease's passes ``host.gate``. All written fields belong to one field manager and are
taken from any other manager (``force``): they are this operator's alone.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from cooperator.controller.api.bounded_json import loads
from cooperator.controller.names import FIELD_MANAGER, GROUP, VERSION
from cooperator.host.gate import passing
from cooperator.host.platform import PlatformError
from cooperator.supervision import turn

log = logging.getLogger(__name__)

Body = dict[str, Any]
_TIMEOUT_S: Final = (5.0, 20.0)
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource kind and where it is served."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Raises ApiError for an invalid object name, which may come from a user's template."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [*(("namespaces", namespace) if namespace else ()), self.plural]
        parts += filter(None, (name, subresource))
        for part in parts:
            if part in (".", "..") or "/" in part or "%" in part:
                raise ApiError(
                    HTTPStatus.BAD_REQUEST, "Invalid", f"{self.plural} {part!r}: is not a valid object name"
                )
        return "/".join([root, *(quote(part, safe="") for part in parts)])


WORKERS: Final = Kind(GROUP, VERSION, "workers")
CONNECTORS: Final = Kind(GROUP, VERSION, "connectors")
PODS: Final = Kind("", "v1", "pods")
NODES: Final = Kind("", "v1", "nodes")
NAMESPACES: Final = Kind("", "v1", "namespaces")
SECRETS: Final = Kind("", "v1", "secrets")
CONFIG_MAPS: Final = Kind("", "v1", "configmaps")
CLAIMS: Final = Kind("", "v1", "persistentvolumeclaims")
SERVICES: Final = Kind("", "v1", "services")
BUDGETS: Final = Kind("policy", "v1", "poddisruptionbudgets")
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases")
EVENTS: Final = Kind("events.k8s.io", "v1", "events")
ENDPOINT_SLICES: Final = Kind("discovery.k8s.io", "v1", "endpointslices")
TOKEN_REVIEWS: Final = Kind("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS: Final = Kind("authorization.k8s.io", "v1", "subjectaccessreviews")


class ApiError(PlatformError):
    """The API server refused a request or was unreachable. ``status`` is HTTP's, 0 without an answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_missing(self) -> bool:
        return self.status == HTTPStatus.NOT_FOUND

    @property
    def is_forbidden(self) -> bool:
        return self.status == HTTPStatus.FORBIDDEN

    @property
    def is_conflict(self) -> bool:
        """Another writer was first: the object exists already, or is not the one that was meant."""
        return self.status == HTTPStatus.CONFLICT

    @property
    def is_of_the_request(self) -> bool:
        """The API server refused this object, not the caller: requests for other objects may succeed."""
        too_large = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return self.is_outdated or self.status in (400, too_large, HTTPStatus.UNPROCESSABLE_ENTITY)

    @property
    def is_outdated(self) -> bool:
        """The meant object is gone, has changed, or was replaced under its name; it will be seen again."""
        return self.is_missing or self.is_conflict


class Api:
    """One API server, from the kubeconfig or the pod's service account. Thread-safe."""

    def __init__(
        self, connections: int = 32, configuration: Any = None, field_manager: str = FIELD_MANAGER
    ) -> None:
        """``configuration`` replaces the client configuration that this process would find. ``field_manager``
        is recorded as the manager of the written fields."""
        if configuration is None:
            configuration = client.Configuration()
            try:
                config.load_incluster_config(client_configuration=configuration)
            except config.ConfigException:
                config.load_kube_config(client_configuration=configuration)
        configuration.connection_pool_maxsize = connections
        self._field_manager = field_manager
        configuration.retries = urllib3.Retry(0, redirect=0)
        self._client = client.ApiClient(configuration)
        self.may_write: Callable[[], bool] = lambda: True
        """Asked before each write except the Lease's: a frozen process may have a successor unknowingly."""

    def writing_as(self, field_manager: str) -> "Api":
        """The same server, account and gate, with another field manager for writes."""
        other = copy(self)
        other._field_manager = field_manager
        other.may_write = lambda: self.may_write()
        return other

    def get(self, kind: Kind, namespace: str | None, name: str) -> Body:
        return self._call("GET", kind.path(namespace, name))

    def list(self, kind: Kind, namespace: str | None, labels: str = "") -> tuple[Sequence[Body], int]:
        """Return all objects and the list's resource version. Items lack apiVersion and kind, as served."""
        items: list[Body] = []
        version = 0
        for page in self._pages(kind, namespace, labels):
            items += page.get("items") or ()
            version = version or int(page["metadata"].get("resourceVersion") or 0)
        return items, version

    def _pages(self, kind: Kind, namespace: str | None, labels: str) -> Iterator[Body]:
        more = ""
        while True:
            query = [("limit", str(_PAGE)), *([("labelSelector", labels)] if labels else [])]
            page = self._call(
                "GET", kind.path(namespace), query=[*query, *([("continue", more)] if more else [])]
            )
            yield page
            more = page["metadata"].get("continue") or ""
            if not more:
                return

    def apply(self, kind: Kind, manifest: Mapping[str, Any], subresource: str = "") -> Body:
        """Server-side apply of exactly these fields."""
        metadata = manifest["metadata"]
        path = kind.path(metadata.get("namespace"), metadata["name"], subresource)
        with self._passing(f"apply {path}"):
            return self._call(
                "PATCH",
                path,
                query=[("fieldManager", self._field_manager), ("force", "true")],
                body=manifest,
                content_type="application/apply-patch+yaml",
            )

    def create(self, kind: Kind, manifest: Mapping[str, Any]) -> Body:
        path = kind.path(manifest["metadata"].get("namespace"))
        with self._passing(f"create {path}"):
            return self._call("POST", path, query=[("fieldManager", self._field_manager)], body=manifest)

    def replace(self, kind: Kind, manifest: Mapping[str, Any]) -> Body:
        """Replace without passing the gate. Used for the Lease only, which decides whether the gate is open.

        Raises ApiError (``is_conflict``) if the object has changed since ``manifest`` was read.
        """
        metadata = manifest["metadata"]
        path = kind.path(metadata.get("namespace"), metadata["name"])
        return self._call("PUT", path, query=[("fieldManager", self._field_manager)], body=manifest)

    def merge(
        self, kind: Kind, namespace: str | None, name: str, patch: Mapping[str, Any], subresource: str = ""
    ) -> Body:
        """A JSON merge patch, for lists with other writers too; ``patch`` then carries a resourceVersion."""
        path = kind.path(namespace, name, subresource)
        with self._passing(f"merge {path}"):
            return self._call(
                "PATCH",
                path,
                query=[("fieldManager", self._field_manager)],
                body=patch,
                content_type="application/merge-patch+json",
            )

    def delete(self, kind: Kind, namespace: str | None, name: str, uid: str) -> None:
        """Delete the object with this uid, with its own grace period. An object that is gone is no error."""
        path = kind.path(namespace, name)
        with self._passing(f"delete {path}"):
            try:
                self._call("DELETE", path, body={"kind": "DeleteOptions", "preconditions": {"uid": uid}})
            except ApiError as error:
                if not error.is_outdated:
                    raise

    @contextmanager
    def _passing(self, what: str) -> Iterator[None]:
        if not self.may_write():
            raise ApiError(0, "LeaseLost", f"{what}: not written, because the Lease is no longer held")
        with passing(what):
            yield

    def _call(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Body:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        # Of many requests each one has its own time.
        turn()
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list(query),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self._client.call_api(*request, _request_timeout=_TIMEOUT_S)
            data = answer.read()
            found: Body = loads(data) if answer.status < HTTPStatus.BAD_REQUEST else {}
        except ApiException as error:
            raise _refused(method, path, error) from None
        except urllib3.exceptions.HTTPError as error:
            raise ApiError(
                0, "Unreachable", f"{method} {path}: the API server does not answer: {error}"
            ) from None
        except ValueError:
            # For example, an error page of a proxy.
            raise ApiError(0, "Unreadable", f"{method} {path}: the answer is not JSON") from None
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise _refused(method, path, ApiException(http_resp=answer))
        return found


def _refused(method: str, path: str, error: ApiException) -> ApiError:
    try:
        status = loads(error.body or "{}")
    except ValueError:
        status = {}
    message = status.get("message") or error.reason or "refused"
    return ApiError(
        int(error.status or 0), str(status.get("reason") or error.reason), f"{method} {path}: {message}"
    )
