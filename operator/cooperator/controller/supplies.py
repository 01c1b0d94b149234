"""What a Worker's pods need besides the pods: children that are kept as they should be, and the contents that
their template refers to."""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Final

from cooperator.controller.api import CONFIG_MAPS, SECRETS, Api, ApiError
from cooperator.controller.children import children, references
from cooperator.controller.pods import Defaults, revision, template
from cooperator.crd import Worker

_AGAIN_S: Final = 60.0
"""How often children are written and contents are read when the Worker has not changed."""


class Supplies:
    def __init__(self, api: Api, defaults: Defaults) -> None:
        self._api = api
        self._defaults = defaults
        self._hashes: dict[str, str] = {}
        self._renewed_at = float("-inf")
        self._renewed_for: object = None

    def renew(self, worker: Worker) -> None:
        """Write the children and read the contents, if it is time. Raises ApiError."""
        now = time.monotonic()
        if worker.spec == self._renewed_for and now - self._renewed_at < _AGAIN_S:
            return
        self._hashes = self._read(worker)
        for kind, manifest in children(worker):
            self._api.apply(kind, manifest)
        self._renewed_for, self._renewed_at = worker.spec, now

    def revision(self, worker: Worker) -> str:
        return revision(worker, self._defaults, self._hashes)

    def _read(self, worker: Worker) -> dict[str, str]:
        namespace = worker.metadata.namespace
        found: dict[str, str] = {}
        for kind, name in sorted(references(template(worker, self._defaults))):
            key = f"{kind}/{name}"
            try:
                body = self._api.get(SECRETS if kind == "Secret" else CONFIG_MAPS, namespace, name)
            except ApiError as error:
                if not error.is_missing:
                    # What cannot be read now is as it was: nothing rolls because of it.
                    found[key] = self._hashes.get(key, "")
                continue
            found[key] = _digest({part: body.get(part) for part in ("data", "binaryData", "stringData")})
        return found


def _digest(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
