"""Authorizes the bearer of a token by asking the API server (``rest.parts.Access``)."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.controller.api.client import ACCESS_REVIEWS, TOKEN_REVIEWS, Api, ApiError
from cooperator.controller.names import GROUP
from cooperator.rest.answers import RequestRefused, Right

_PREFIX: Final = "bearer "
_WHO: Final = {"WWW-Authenticate": "Bearer"}


class KubernetesAccess:
    """Authenticates by a TokenReview and authorizes by a SubjectAccessReview, both for each request: a
    revoked right ends with the next one."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def permit(self, authorization: str, right: Right) -> None:
        if not authorization.lower().startswith(_PREFIX):
            raise RequestRefused(
                401, "send a token of this Kubernetes cluster: Authorization: Bearer …", _WHO
            )
        user = self._user(authorization[len(_PREFIX) :].strip())
        attributes = {
            "namespace": self._namespace,
            "group": GROUP,
            "verb": right.verb,
            "resource": right.resource,
            "subresource": right.subresource,
            "name": right.name,
        }
        review = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "resourceAttributes": attributes,
        }
        if not self._review(ACCESS_REVIEWS, "SubjectAccessReview", review).get("allowed"):
            what = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
            of = f" {right.name!r}" if right.name else ""
            raise RequestRefused(
                403,
                f"{user.get('username')} may not {right.verb} {what}.{GROUP}{of} in namespace "
                f"{self._namespace}: a Role has to allow it",
            )

    def _user(self, token: str) -> Mapping[str, Any]:
        status = self._review(TOKEN_REVIEWS, "TokenReview", {"token": token})
        if not status.get("authenticated"):
            # The reason is withheld: it may be about the token itself.
            raise RequestRefused(
                401, "the token is unknown to this Kubernetes cluster or has expired: create a new one", _WHO
            )
        user: Mapping[str, Any] = status.get("user") or {}
        return user

    def _review(self, kind: Any, name: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        manifest = {"apiVersion": f"{kind.group}/{kind.version}", "kind": name, "metadata": {}, "spec": spec}
        try:
            status: Mapping[str, Any] = self._api.create(kind, manifest).get("status") or {}
        except ApiError as error:
            # The error text names the request, not its content.
            raise RequestRefused(
                503, f"the API server cannot be reached to authorize this request: {error}"
            ) from None
        return status
