"""As much of a client of the API server as tests need: JSON over one kubeconfig."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3
import yaml

from tests.harness.support import eventually


class ApiError(Exception):
    """The API server refused. ``status``: HTTP's; ``message``: the server's own words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Api:
    """Requests as the user of a kubeconfig (a client certificate, or a token). Paths begin with a slash.

    Raises ApiError when the server refuses, TimeoutError when it is silent, another OSError when it is away.
    """

    def __init__(self, kubeconfig: Path) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self._server: str = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        if "client-certificate" in user:
            tls.load_cert_chain(user["client-certificate"], user["client-key"])
        # Connections are kept: a test that looks twenty times a second would do little but open them.
        self._connections = urllib3.PoolManager(ssl_context=tls, maxsize=8, retries=False)
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def get(self, path: str) -> dict[str, Any]:
        return self._json("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._json("POST", path, body)

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._json("PUT", path, body)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A merge patch: null fields are removed, unnamed fields stay."""
        return self._json("PATCH", path, body, "application/merge-patch+json")

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What ``kubectl apply --server-side`` sends, without a process: fields of other managers are not
        taken, and unknown ones are refused."""
        plural, namespaced = self._resource(manifest["apiVersion"], manifest["kind"])
        metadata = manifest["metadata"]
        where = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        path = f"{_root(manifest['apiVersion'])}{where}/{plural}/{metadata['name']}"
        query = "fieldManager=kubectl&fieldValidation=Strict"
        return self._json("PATCH", f"{path}?{query}", dict(manifest), "application/apply-patch+yaml")

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """A kind's plural, and whether its objects are in namespaces. A kind that was defined just now is
        listed a moment later."""

        def listed() -> tuple[str, bool]:
            try:
                found = self.get(_root(version))["resources"]
            except ApiError as error:
                raise AssertionError(str(error)) from None
            self._resources |= {
                (version, each["kind"]): (each["name"], each["namespaced"])
                for each in found
                if "/" not in each["name"]
            }
            assert (version, kind) in self._resources, f"the API server has no {version} {kind}"
            return self._resources[version, kind]

        return self._resources.get((version, kind)) or eventually(listed)

    def delete(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._json("DELETE", path, body)

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def text(self, path: str, timeout_s: float = 30) -> str:
        return self._send("GET", path, None, "application/json", timeout_s).decode()

    def _json(
        self, method: str, path: str, body: dict[str, Any] | None = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads(self._send(method, path, data, kind, 30))
        return answer

    def _send(self, method: str, path: str, data: bytes | None, kind: str, timeout_s: float) -> bytes:
        headers = {**self._headers, "Content-Type": kind}
        try:
            answer = self._connections.request(
                method, self._server + path, body=data, headers=headers, timeout=timeout_s
            )
        except urllib3.exceptions.TimeoutError as error:
            raise TimeoutError(str(error)) from None
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(str(error)) from None
        if answer.status < HTTPStatus.BAD_REQUEST:
            return answer.data
        text = answer.data.decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            text = json.loads(text)["message"]
        raise ApiError(answer.status, text)


def _root(version: str) -> str:
    """The path of an API version: of the core's, or of a group's."""
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
