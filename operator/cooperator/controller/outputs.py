"""Finds Connectors that would share a directory of a file sink, over all Workers that the operator sees.

The first Connector keeps the directory. This is recorded on the Connector as soon as it may write there, and
not derived from its age alone: an older Connector may be given a directory later that another one has then. A
path alone is local to one Worker's pods, unless a volume is mounted there that others can mount, too.
Conflicts that cannot be known here are refused when the sink opens (``runtime/output_owner.py``).
"""

import hashlib
import posixpath
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cooperator.connectors.output_paths import LOCAL
from cooperator.controller.manifests.pods import CHECKPOINTS
from cooperator.controller.names import GROUP
from cooperator.controller.observe import Body
from cooperator.controller.store import Name, Store, referred
from cooperator.crd import Connector, ResourceError, Worker, from_object
from cooperator.crd.pod import WORKER_CONTAINER
from cooperator.host.delivery import NOTHING_LOCAL, PodLocal
from cooperator.host.outputs import ENDPOINT, Claim, Locate, claim_of, normal_for, withheld

OUTPUTS: Final = f"{GROUP}/outputs"
"""Our annotation on a Connector: a digest of the directories that it may write to. It is no status, because
decisions depend on it."""
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


@dataclass(frozen=True, slots=True)
class OutputsSeen:
    """The Connectors of one Worker, by name. ``withheld`` gives the reasons why some must not start;
    ``notes`` gives the annotations to write on the others."""

    withheld: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


class Outputs:
    """Covers all Connectors in a store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._revision = -1
        self._known: dict[Name, tuple[Any, Claim]] = {}
        self._withheld: Mapping[Name, str] = {}

    def see(self, namespace: str, connectors: tuple[Connector, ...]) -> OutputsSeen:
        """``connectors`` belong to one Worker in this namespace."""
        with self._lock:
            revision, workers, bodies = self._store.specs()
            if revision != self._revision:
                self._learn(workers, bodies)
                self._revision = revision
            names = [connector.metadata.name for connector in connectors]
            refused = {n: self._withheld[namespace, n] for n in names if (namespace, n) in self._withheld}
            notes = {
                name: digest(self._known[namespace, name][1])
                for name in names
                if name not in refused and (namespace, name) in self._known
            }
            return OutputsSeen(refused, {name: note for name, note in notes.items() if note})

    def _learn(self, workers: Mapping[Name, Body], bodies: Mapping[Name, Body]) -> None:
        known: dict[Name, tuple[Any, Claim]] = {}
        for name, body in bodies.items():
            worker = workers.get((name[0], referred(body)))
            if worker is None:
                continue  # It does not run and conflicts with none.
            key = (_identity(body), _identity(worker))
            before = self._known.get(name)
            claim = before[1] if before is not None and before[0] == key else _claim(body, worker)
            if claim is None and before is not None and before[0][0][0] == key[0][0]:
                claim = before[1]  # It cannot be read now, so its last claim stands.
            if claim is not None:
                known[name] = key, claim
        self._known = known
        self._withheld = withheld(_ranked(claim, bodies[name]) for name, (_, claim) in known.items())


def _ranked(claim: Claim, body: Body) -> Claim:
    noted = (body["metadata"].get("annotations") or {}).get(OUTPUTS)
    rank = (noted != digest(claim), str(body["metadata"].get("creationTimestamp") or ""))
    return Claim(claim.connector, claim.outputs, rank)


def digest(claim: Claim) -> str:
    """Names the directories; empty if there are none."""
    if not claim.outputs:
        return ""
    texts = sorted(located for _, located in claim.outputs)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def _claim(body: Body, worker_body: Body) -> Claim | None:
    connector, worker = _read(body, "Connector"), _read(worker_body, "Worker")
    if not isinstance(connector, Connector) or not isinstance(worker, Worker):
        return None
    try:
        return claim_of(connector, worker, locate_for(worker, connector.metadata.namespace), ())
    except RecursionError:
        return None


def _read(body: Body, kind: str) -> Connector | Worker | None:
    try:
        return from_object({"apiVersion": "cooperator.dev/v1alpha1", "kind": kind, **body})
    except (ResourceError, RecursionError):
        return None


def _identity(body: Body) -> tuple[Any, ...]:
    metadata = body["metadata"]
    return metadata.get("uid"), metadata.get("generation")


def locate_for(worker: Worker, namespace: str) -> Locate:
    """Return a function that locates a directory by a name common to all Workers' pods where there is one,
    and otherwise as local to this Worker."""
    spelled = normal_for(worker)
    own = f"pods of {namespace}/{worker.metadata.name}: "
    mounts, endpoint = list(_mounts(worker, namespace)), _endpoint(worker)

    def locate(directory: str) -> str:
        found = spelled(directory)
        if found.startswith(LOCAL):
            path = found.removeprefix(LOCAL)
            inside = [(at, volume) for at, volume in mounts if f"{path}/".startswith(f"{at}/")]
            at, volume = max(inside, key=lambda mount: len(mount[0]), default=("", ""))
            return f"{volume}{path.removeprefix(at)}" if volume else f"{own}{found}"
        if found.startswith("s3:"):
            return f"{own}{found}" if endpoint is None else f"{endpoint} {found}".strip()
        return found

    return locate


def pod_local(worker: Worker) -> PodLocal:
    """What of a Worker's members is lost with a pod.

    What a pod mounts counts as kept, unless it is an emptyDir: whether others see it is not known here.
    """
    if worker.spec.is_stock:
        return NOTHING_LOCAL
    spelled, kept = normal_for(worker), tuple(_kept_mounts(worker))

    def is_lost(directory: str) -> bool:
        found = spelled(directory)
        path = f"{found.removeprefix(LOCAL)}/"
        return found.startswith(LOCAL) and not any(path.startswith(f"{at}/") for at in kept)

    return PodLocal(is_lost(worker.spec.checkpoint_root or CHECKPOINTS), is_lost)


def _kept_mounts(worker: Worker) -> Iterator[str]:
    """Mount paths in the members' container that outlive a pod."""
    if worker.spec.checkpoint_volume is not None:
        yield worker.spec.checkpoint_volume.mount_path.rstrip("/")
    yield from (at for at, _, volume in _mounted(worker) if "emptyDir" not in volume)


def _mounts(worker: Worker, namespace: str) -> Iterator[tuple[str, str]]:
    """Mount paths and volumes of the members' container; "" for volumes that no other Worker can mount."""
    if worker.spec.checkpoint_volume is not None:
        volume = worker.spec.checkpoint_volume
        yield volume.mount_path.rstrip("/"), f"claim {namespace}/{volume.claim_name}: "
    for at, mount, entry in _mounted(worker):
        source = "" if mount.get("subPathExpr") else _source(entry, namespace)
        sub = str(mount.get("subPath") or "").strip("/")
        yield at, f"{source}{'/' if sub else ''}{sub}" if source else ""


def _mounted(worker: Worker) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Mount paths of the template in the members' container, each with its mount and its volume."""
    pod = worker.spec.template.spec
    volumes = {str(entry.get("name")): entry for entry in _entries(pod.get("volumes"))}
    for container in _entries(pod.get("containers")):
        if container.get("name") == WORKER_CONTAINER:
            for mount in _entries(container.get("volumeMounts")):
                at = str(mount.get("mountPath", "")).rstrip("/")
                yield at, mount, volumes.get(str(mount.get("name")), {})


def _source(volume: Mapping[str, Any], namespace: str) -> str:
    claim, nfs = volume.get("persistentVolumeClaim"), volume.get("nfs")
    if isinstance(claim, Mapping):
        return f"claim {namespace}/{claim.get('claimName')}: "
    if isinstance(nfs, Mapping):
        return f"nfs {nfs.get('server')}: {posixpath.normpath(str(nfs.get('path')))}"
    return ""


def _endpoint(worker: Worker) -> str | None:
    """The endpoint of the members' S3A store; empty for Amazon's, None if it cannot be known here."""
    if ENDPOINT in worker.spec.spark.conf:
        return str(worker.spec.spark.conf[ENDPOINT])
    for container in _entries(worker.spec.template.spec.get("containers")):
        if container.get("name") != WORKER_CONTAINER:
            continue
        if container.get("envFrom"):
            return None
        variables = {entry.get("name"): entry for entry in _entries(container.get("env"))}
        for name in _ENDPOINTS:
            if name in variables:
                value = variables[name].get("value")
                return None if value is None else str(value)
    return ""


def _entries(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
