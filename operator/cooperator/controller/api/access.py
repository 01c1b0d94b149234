"""Credentials of the operator's leader of one Worker for Kafka: ``spec.kafka`` and its current Secrets."""

import base64
import binascii
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cooperator.controller.api.client import SECRETS, Api, ApiError
from cooperator.crd import Worker
from cooperator.host.security import OwnToken, SecretProblem, secret_names, security_of, write_material

_AGAIN_S: Final = 60.0
_SOON_S: Final = 5.0
"""Interval of reading Secrets: after a success, and after a failure."""


def forbidden(kind: str, namespace: str, name: str) -> str:
    """The error text, with its remedy, for an object that a Worker names and the operator may not read."""
    rule = "secret-rules" if kind == "Secret" else "namespace-rules"
    return (
        f"the operator may not read {kind} {name!r} of namespace {namespace!r}: grant it what the chart's "
        f"files/{rule}.yaml has (value secretNamespaces or namespaces), or name none"
    )


class KafkaAccess:
    """Used by one Worker's thread. ``folder`` is private to this process. ``own_token`` is for the brokers
    ``own_servers`` only: the author of a Worker chooses which brokers are shown a login."""

    def __init__(
        self, api: Api, folder: Path, own_token: OwnToken | None = None, own_servers: str = ""
    ) -> None:
        self._own_token = own_token
        self._own_servers = own_servers
        self._api = api
        self._folder = folder
        self._read_for: object = None
        self._kafka: object = None
        self._read_again_at = float("-inf")
        self.settings: Mapping[str, Any] | None = None
        """The clients' settings by kafka-python's names, never to be shown; None while they are unknown."""
        self.refusal = ""
        """The reason why the settings are unknown or out of date."""

    def renewed(self, worker: Worker, refused: Callable[[str], None]) -> Mapping[str, Any] | None:
        """Return the settings that reach Kafka. While None, no leader is started, and a running one stays."""
        self.renew(worker)
        if self.refusal:
            refused(self.refusal)
        return self.settings

    def renew(self, worker: Worker) -> None:
        """Read the Secrets if they are due or the Worker has changed."""
        wanted = worker.spec.kafka
        now = time.monotonic()
        if worker.spec == self._read_for and now < self._read_again_at:
            return
        changed = wanted != self._kafka
        try:
            secrets = {
                name: found
                for name in sorted(secret_names(wanted))
                if (found := self._secret(worker.metadata.namespace, name)) is not None
            }
            is_own = worker.spec.bootstrap_servers in (None, "", self._own_servers)
            own_token = self._own_token if is_own else None
            security = security_of(wanted, secrets, self._folder, own_token)
            write_material(security)
        except (ApiError, SecretProblem, OSError) as error:
            self.refusal = str(error)
            # A failed read keeps the settings; a missing Secret or a changed spec does not.
            if changed or isinstance(error, SecretProblem):
                self.settings = None
            self._read_again_at = now + _SOON_S
        else:
            self.settings, self.refusal = security.settings, ""
            self._read_again_at = now + _AGAIN_S
        self._read_for, self._kafka = worker.spec, wanted

    def _secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        try:
            return read_secret(self._api, namespace, name)
        except ApiError as error:
            if error.is_forbidden:
                raise SecretProblem(f"spec.kafka: {forbidden('Secret', namespace, name)}") from None
            raise


def read_secret(api: Api, namespace: str, name: str) -> Mapping[str, bytes] | None:
    """The content of a Secret of ``spec.kafka``; None if there is none. Raises ApiError, SecretProblem."""
    try:
        body = api.get(SECRETS, namespace, name)
    except ApiError as error:
        if error.is_missing:
            return None
        raise
    try:
        return {key: base64.b64decode(value) for key, value in (body.get("data") or {}).items()}
    except binascii.Error:
        raise SecretProblem(f"spec.kafka: Secret {name!r} is not valid base64: recreate the Secret") from None
