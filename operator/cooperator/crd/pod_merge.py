"""Merges parts of a pod's spec: each list by its own keys, as Kubernetes does. Pure.

The tables are those of Kubernetes' OpenAPI document (``x-kubernetes-list-type``, ``-list-map-keys`` and
``-map-type``); a test compares them with what an API server serves (decision 133). Paths have no indexes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

KUBERNETES_VERSION: Final = "1.37"
"""The version whose document the tables state. Servers of other versions differ in fields that they add."""

_OF_CONTAINERS: Final[Mapping[str, tuple[str, ...]]] = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "resources.claims": ("name",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumeMounts.bindMountOptions": (),
}
_CONTAINERS: Final = ("containers", "ephemeralContainers", "initContainers")
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(_CONTAINERS, ("name",)),
    **{f"{kind}.{part}": keys for kind in _CONTAINERS for part, keys in _OF_CONTAINERS.items()},
    "evictionResponders": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "resources.claims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumes": ("name",),
    "volumes.ephemeral.volumeClaimTemplate.metadata.finalizers": (),
    "volumes.ephemeral.volumeClaimTemplate.metadata.ownerReferences": ("uid",),
}
"""The keys that identify an entry of a list; none: it is a set of values. Any other list is replaced as a
whole, such as tolerations."""
DEFAULTS: Final = {"protocol": "TCP"}
"""Values of keys that an entry may leave out."""

_DIRECTIVES: Final = ("$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList")
"""Beginnings of the keys by which a strategic merge patch says how it is applied."""
_SELECTORS: Final = ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef")
_WITH_SECRETS: Final = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
ATOMIC: Final = frozenset(
    {
        *(f"{kind}.env.valueFrom.{name}" for kind in _CONTAINERS for name in _SELECTORS),
        *(f"volumes.{kind}.secretRef" for kind in _WITH_SECRETS),
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "evictionResponders",
        "imagePullSecrets",
        "nodeSelector",
        "topologySpreadConstraints.labelSelector",
        "volumes.csi.nodePublishSecretRef",
        "volumes.ephemeral.volumeClaimTemplate.metadata.ownerReferences",
        "volumes.ephemeral.volumeClaimTemplate.spec.dataSource",
        "volumes.ephemeral.volumeClaimTemplate.spec.selector",
    }
)
"""Mappings (of a list: its entries) that are replaced as a whole."""


def merged(ours: Any, theirs: Any, path: str = "") -> Any:
    """Lays a user's part of a pod's spec over ours: mappings, and lists that have keys, are merged;
    everything else is theirs. ``theirs`` has no problems (``problem_of``)."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and path not in ATOMIC:
        both = {key: merged(ours[key], theirs[key], _below(path, key)) for key in theirs if key in ours}
        return {**ours, **theirs, **both}
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and path in KEYS:
        by_key = {identity(entry, path): entry for entry in ours}
        for entry in theirs:
            key = identity(entry, path)
            by_key[key] = merged(by_key[key], entry, path) if key in by_key else entry
        return list(by_key.values())
    return theirs


def identity(entry: Any, path: str) -> tuple[Any, ...]:
    """Returns the keys that tell ``entry`` from the others of the list at ``path``."""
    return tuple(entry.get(key, DEFAULTS.get(key)) for key in KEYS[path]) or (entry,)


def problem_of(spec: Mapping[str, Any]) -> str:
    """Returns why the lists of a user's part cannot be merged, with the field and the remedy; empty if they
    can. Kubernetes refuses the same, or would use one of two entries."""
    return next(_problems(spec, "", ""), "")


def _problems(value: Any, path: str, shown: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            if name.startswith(_DIRECTIVES):
                # A server takes them in patches alone; in a pod it drops them in silence.
                remedy = "remove it, and write the fields themselves"
                yield f"{_below(shown, name)} is a directive of patches: {remedy}"
            yield from _problems(part, _below(path, name), _below(shown, name))
    elif isinstance(value, list | tuple):
        if path in KEYS:
            yield from _problems_of_entries(value, path, shown)
        for number, entry in enumerate(value):
            yield from _problems(entry, path, f"{shown}[{number}]")


def _problems_of_entries(entries: Sequence[Any], path: str, shown: str) -> Iterator[str]:
    keys = KEYS[path]
    known: dict[tuple[Any, ...], int] = {}
    for number, entry in enumerate(entries):
        if keys and not isinstance(entry, Mapping):
            yield f"{shown}[{number}] is no mapping: write one with {' and '.join(keys)}"
            return
        for key in keys:
            if not isinstance(entry.get(key, DEFAULTS.get(key)), str | int):
                yield f"{shown}[{number}] has no {key}, by which the entries are merged: add it"
                return
        found = identity(entry, path)
        if not all(isinstance(part, str | int) for part in found):
            yield f"{shown}[{number}] is no text or number: write one"
            return
        if found in known:
            named = (f"{key} {part!r}" for key, part in zip(keys or ("value",), found, strict=True))
            both = f"{shown}[{known[found]}] and {shown}[{number}]"
            yield f"{both} have the same {' and '.join(named)}: keep one"
            return
        known[found] = number


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
