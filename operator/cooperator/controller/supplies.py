"""Maintains the child objects of a Worker and reads the Secrets and ConfigMaps that its pod template refers
to.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cooperator.controller.api.access import forbidden
from cooperator.controller.api.client import CLAIMS, CONFIG_MAPS, SECRETS, Api, ApiError, Kind
from cooperator.controller.manifests.allowed import Allowance, not_allowed
from cooperator.controller.manifests.children import children, references
from cooperator.controller.manifests.executors import refusal
from cooperator.controller.manifests.leader_ca import config_map_name
from cooperator.controller.manifests.pods import Defaults, revision, template
from cooperator.crd import Worker
from cooperator.leader.tls import ServerCertificates

_AGAIN_S: Final = 60.0
_SOON_S: Final = 5.0
"""Interval of writing children and reading contents when the Worker has not changed: after a success, and
after a failed read."""


class Supplies:
    """``defaults`` is what the operator adds to this Worker; set it before ``renew``. ``tls``: members get
    its CA."""

    def __init__(
        self, api: Api, defaults: Defaults, allowance: Allowance, tls: ServerCertificates | None = None
    ) -> None:
        self._api = api
        self._tls = tls
        self._allowance = allowance
        self.defaults = defaults
        self._hashes: dict[str, str] | None = None
        self.refusal = ""
        """The reason why the Worker's surroundings do not allow its spec; empty if they do."""
        self.unread = ""
        """The objects that the operator may not read, so that their changes cause no roll; empty if there are
        none.
        """
        self.forbidden = ""
        """The reason why the Worker's template is not allowed; empty if it is."""
        self.taken = ""
        """The foreign object whose name the Worker needs; empty if there is none."""
        self._renew_at = float("-inf")
        self._renewed_for: object = None

    def renew(self, worker: Worker) -> None:
        """Write the children and read the contents if they are due. Raises ApiError."""
        now = time.monotonic()
        if worker.spec == self._renewed_for and now < self._renew_at:
            return
        self.forbidden = not_allowed(worker, self._allowance)
        if not self.forbidden:
            self._hashes = self._read(worker)
        self.refusal = refusal(worker) or self._check_volume(worker)
        self.taken = ""
        for kind, manifest in children(worker, self._tls.ca_pem() if self._tls else b""):
            self.taken = apply_own(self._api, kind, manifest, worker) or self.taken
        self._renewed_for = worker.spec
        self._renew_at = now + (_SOON_S if self.unread or self.taken else _AGAIN_S)

    def allowed(self, worker: Worker, refused: Callable[[str], None]) -> Worker:
        """The Worker as it may run. A refusal is reported; then at most one member runs, which is safe."""
        if not self.refusal:
            return worker
        refused(self.refusal)
        spec = worker.spec.model_copy(update={"replicas": min(1, worker.spec.replicas)})
        return worker.model_copy(update={"spec": spec})

    def revision(self, worker: Worker, labels: Sequence[str]) -> str:
        """Names the settings that members start with. ``labels`` are the revisions of the existing pods.
        Until all contents have been read once, the result is the revision of most pods: unknown contents
        cause no roll, nor does a template that is not allowed."""
        if (self._hashes is None or self.forbidden) and labels:
            return Counter(sorted(labels)).most_common(1)[0][0]
        return revision(worker, self.defaults, self._hashes or {})

    def _check_volume(self, worker: Worker) -> str:
        volume = worker.spec.checkpoint_volume
        if volume is None or worker.spec.replicas <= 1:
            return ""
        try:
            claim = self._api.get(CLAIMS, worker.metadata.namespace, volume.claim_name)
        except ApiError as error:
            if error.is_missing:
                return ""  # It may come later; until then pods are pending and say so.
            raise
        modes = (claim.get("spec") or {}).get("accessModes") or ()
        if "ReadWriteMany" in modes:
            return ""
        return (
            f"spec.checkpointVolume.claimName names {volume.claim_name!r}, which is {', '.join(modes)}, but "
            f"{worker.spec.replicas} members on several nodes have to write to it: use a claim that is "
            "ReadWriteMany, an object store (spec.checkpointLocation), or spec.replicas: 1"
        )

    def _read(self, worker: Worker) -> dict[str, str] | None:
        """Return None while a part could never be read."""
        namespace = worker.metadata.namespace
        found: dict[str, str] = {}
        self.unread = ""
        # Members read a new CA of their leader without a roll.
        ours = {("ConfigMap", config_map_name(worker))}
        for kind, name in sorted(references(template(worker, self.defaults)) - ours):
            key = f"{kind}/{name}"
            try:
                body = self._api.get(SECRETS if kind == "Secret" else CONFIG_MAPS, namespace, name)
            except ApiError as error:
                if error.is_missing:
                    continue
                if error.is_forbidden:
                    self.unread = forbidden(kind, namespace, name)
                elif self._hashes is None:
                    raise
                # A content that cannot be read now counts as unchanged, so that no roll starts.
                if self._hashes is not None:
                    found[key] = self._hashes.get(key, "")
                continue
            found[key] = _digest({part: body.get(part) for part in ("data", "binaryData", "stringData")})
        return None if self.unread and self._hashes is None else found


def apply_own(api: Api, kind: Kind, manifest: Mapping[str, Any], worker: Worker) -> str:
    """Apply ``manifest`` unless an object of this name exists that is not this Worker's.

    Return why it is not applied; empty if it is. An owner's objects are collected with it, and a forced apply
    takes over every field. Raises ApiError.
    """
    metadata = manifest["metadata"]
    try:
        found = api.get(kind, metadata["namespace"], metadata["name"])
    except ApiError as error:
        if not error.is_missing:
            raise
    else:
        if not owned(found, worker):
            return taken(manifest["kind"], metadata["name"])
    api.apply(kind, manifest)
    return ""


def owned(body: Mapping[str, Any], worker: Worker) -> bool:
    """Whether an object has this Worker, and no other of its name, as an owner."""
    owners = body["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == worker.metadata.uid for owner in owners)


def taken(kind: str, name: str) -> str:
    return (
        f"there is a {kind} {name} that does not belong to this Worker and is left unchanged: rename "
        f"the Worker, or delete that"
        f" {kind}"
    )


def _digest(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
