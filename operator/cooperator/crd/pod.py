"""The template of a Worker's pods: image, resources, and the user's own part."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from cooperator.crd.base import Model
from cooperator.crd.pod_merge import DEFAULTS, KEYS, problem_of
from cooperator.crd.rules import DNS_SUBDOMAIN, Form, Rule, all_hold

WORKER_CONTAINER: Final = "worker"
"""The container that a member runs in."""
OURS: Final = "cooperator.dev/"
"""Prefix of labels and annotations that the operator writes."""

_QUANTITY: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?\Z"
)
_RESOURCE: Final = re.compile(r"(?:[a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9][-A-Za-z0-9._]*\Z")
_LABEL_KEY: Final = re.compile(r"(?:[a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")

IMAGE: Final = Form(
    r"[a-zA-Z0-9][a-zA-Z0-9_.:/@-]*",
    "use the name of an image, such as registry.example/cooperator:1.2, without spaces",
    512,
)
IMAGE_TAG: Final = Form(
    r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*",
    "use an image tag: up to 128 letters, digits, '.', '_' and '-', such as 1.2.0",
    128,
)
ENV_NAME: Final = Form(
    r"[A-Za-z_][A-Za-z0-9_]*",
    "use the name of an environment variable: letters, digits and '_', not beginning with a digit",
    253,
)
ALLOWED_PATH: Final = Form(
    r"(?:/[A-Za-z0-9_@%+=:,-][A-Za-z0-9._@%+=:,-]*)+",
    "use an absolute path below /, such as /etc/secrets, without '..' or a trailing slash",
    1024,
)
ALLOWED_LOCATION: Final = Form(
    r"(?:[a-z][a-z0-9+.-]*://[A-Za-z0-9][A-Za-z0-9._:-]*)?(?:/[A-Za-z0-9_@%+=:,-][A-Za-z0-9._@%+=:,-]*)*",
    "use an absolute path, or a URI such as s3a://bucket/path, without '..' or a trailing slash",
    1024,
)
NODE_LABEL: Final = Form(
    r"|([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    "use a label, such as topology.kubernetes.io/zone, or '' for none",
    317,
)
MOUNT_PATH: Final = Form(
    r"(/[^/: \t\r\n]+)+",
    "use an absolute path such as /checkpoints, without ':', '..' or a slash at its end",
    512,
)

_SET_BY: Final[Mapping[str, str]] = {
    "imagePullSecrets": "spec.imagePullSecrets",
    "serviceAccountName": "spec.serviceAccountName",
    "serviceAccount": "spec.serviceAccountName",
    "terminationGracePeriodSeconds": "spec.drainTimeoutMs (and 30 s more)",
    "restartPolicy": "the operator, which restarts members in place",
    "hostname": "the operator: a pod's name is its member's identity",
    "subdomain": "the operator: a pod's name is its member's identity",
}
"""Fields of a pod's spec that are set elsewhere, and where."""
_CONTAINER_SET_BY: Final[Mapping[str, str]] = {
    "image": "spec.image",
    "imagePullPolicy": "spec.imagePullPolicy",
    "resources": "spec.resources",
    "command": "the operator, which starts the member",
    "args": "the operator, which starts the member",
}
"""The same for the container ``worker``."""


class ImagePullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


def has_version(image: str) -> bool:
    """Whether the image's name contains a tag or a digest."""
    return "@" in image or ":" in image.rpartition("/")[2]


def _quantity(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and _QUANTITY.match(value):
        return value
    raise PydanticCustomError(
        "setting_type",
        "is {what}, but must be a quantity such as 500m, 2, '0.5' or 1Gi (a fraction in quotes)",
        {"what": repr(value)[:40] if isinstance(value, str | float) else "no number"},
    )


def _resource_names(amounts: Mapping[str, str]) -> Mapping[str, str]:
    for name in amounts:
        if not _RESOURCE.match(name):
            raise ValueError(f"has {name!r}: use a resource such as cpu, memory or example.com/gpu")
    return amounts


def unique(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names if they are unique. Raises ValueError otherwise."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"has {twice!r} twice: remove one")
    return names


ObjectName: TypeAlias = Annotated[str, DNS_SUBDOMAIN]
"""The name of another object in the same namespace."""
Quantity: TypeAlias = Annotated[
    str,
    BeforeValidator(_quantity),
    StringConstraints(max_length=64),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": 64}),
    Rule(
        "type(self) == int || (isQuantity(string(self)) && string(self).matches('[0-9]'))",
        "use a quantity such as 500m, 2, '0.5' or 1Gi (a fraction in quotes)",
    ),
]
Amounts: TypeAlias = Annotated[Mapping[str, Quantity], Field(max_length=32), AfterValidator(_resource_names)]


class Resources(Model):
    """Resource requests and limits of a member's container, as in Kubernetes."""

    requests: Amounts = Field(
        default_factory=dict, description="guaranteed resources, such as {cpu: 500m, memory: 2Gi}"
    )
    limits: Amounts = Field(
        default_factory=dict,
        description="upper limits; memory should leave about 700 MB beside spark.heapMb",
    )


def _not_ours(names: Iterable[str]) -> None:
    ours = next((name for name in names if name.startswith(OURS)), None)
    if ours is not None:
        raise ValueError(
            f"has {ours!r}; names that begin with {OURS!r} are reserved for the operator: remove it"
        )


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    _not_ours(labels)
    for key, value in labels.items():
        if not _LABEL_KEY.match(key) or not _LABEL_VALUE.match(value):
            raise ValueError(
                f"has {key!r}: {value!r}, which is not a valid label: use up to 63 letters, digits, '-', '_' "
                "and '.', "
                "a letter or digit at both ends"
            )
    return labels


def _annotations(annotations: Mapping[str, str]) -> Mapping[str, str]:
    _not_ours(annotations)
    for key in annotations:
        if not _LABEL_KEY.match(key):
            raise ValueError(
                f"has {key!r}, which is not a valid annotation name: write it as example.com/name"
            )
    return annotations


def _named(containers: JsonValue, field: str) -> Sequence[Mapping[str, JsonValue]]:
    if not isinstance(containers, list):
        raise ValueError(f"{field} is not a list: write it as in a pod")
    found: list[Mapping[str, JsonValue]] = []
    for container in containers:
        name = container.get("name") if isinstance(container, dict) else None
        if not isinstance(container, dict) or not isinstance(name, str):
            raise ValueError(f"{field} has an entry without a name: containers are merged by their names")
        found.append(container)
    return found


def _pod_spec(spec: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    for field, setter in _SET_BY.items():
        if field in spec:
            raise ValueError(f"has {field}, which is set by {setter}: remove it from the template")
    for container in _named(spec.get("containers", []), "containers"):
        if container["name"] == WORKER_CONTAINER:
            for field, setter in _CONTAINER_SET_BY.items():
                if field in container:
                    raise ValueError(
                        f"has {field} in the container {WORKER_CONTAINER!r}, which is set by {setter}: "
                        "remove it from the template"
                    )
        elif "image" not in container:
            raise ValueError(
                f"has the container {container['name']!r} without an image: add it, or name the container "
                f"{WORKER_CONTAINER!r} to change the member's own"
            )
    for container in _named(spec.get("initContainers", []), "initContainers"):
        if container["name"] == WORKER_CONTAINER:
            raise ValueError(f"has an init container {WORKER_CONTAINER!r}: use another name")
    if problem := problem_of(spec):
        raise ValueError(f"has entries that cannot be merged: {problem}")
    return spec


_TEXT: Final[dict[str, JsonValue]] = {"type": "string", "maxLength": 253}
_KEY: Final[dict[str, JsonValue]] = {"type": "string", "maxLength": 4096}
_ANYTHING: Final[dict[str, JsonValue]] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_WORDS: Final[dict[str, JsonValue]] = {
    "type": "array",
    "maxItems": 1000,
    "items": {"type": "string", "maxLength": 65_536, "description": "a word"},
}
_TYPES: Final[Mapping[str, dict[str, JsonValue]]] = {
    "terminationGracePeriodSeconds": {"type": "integer"},
    "imagePullSecrets": {"type": "array", "maxItems": 16, "items": {**_ANYTHING, "description": "a Secret"}},
    "resources": {**_ANYTHING},
    "command": _WORDS,
    "args": _WORDS,
    "image": {"type": "string", "maxLength": IMAGE.longest},
}
"""Types of fields that are not text."""


def _lists_with_keys(below: str) -> dict[str, JsonValue]:
    """The lists directly below a path, in which an API server refuses entries with the same keys. Lists with
    a default key are left out: the server would write it into the user's template."""
    return {
        path.removeprefix(below): {
            "type": "array",
            "description": f"a list that is merged by {' and '.join(keys)}",
            "maxItems": 1000,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(keys),
            "items": {
                **_ANYTHING,
                "description": "an entry of the list",
                "required": list(keys),
                "properties": {key: {**_KEY, "description": "identifies the entry"} for key in keys},
            },
        }
        for path, keys in KEYS.items()
        if path.startswith(below)
        and "." not in path.removeprefix(below)
        and keys
        and not DEFAULTS.keys() & set(keys)
    }


def _pod_spec_schema() -> dict[str, JsonValue]:
    """The part of a pod's spec that the API server can check, which is only what is declared here."""

    def fields(setters: Mapping[str, str], where: str) -> dict[str, JsonValue]:
        return {
            field: {**_TYPES.get(field, _TEXT), "description": f"{where}: set by {setter}"}
            for field, setter in setters.items()
        }

    in_worker = (
        Rule(
            f"self.name != '{WORKER_CONTAINER}' || !has(self.{field})",
            f"{field} of the container {WORKER_CONTAINER!r} is set by {setter}: remove it from the template",
            f".{field}",
        )
        for field, setter in _CONTAINER_SET_BY.items()
    )
    container: dict[str, JsonValue] = {
        **_ANYTHING,
        "description": f"a container; {WORKER_CONTAINER!r} is the member's own",
        "required": ["name"],
        "properties": {
            "name": {**_TEXT, "description": "the container's name, by which it is merged"},
            **fields(_CONTAINER_SET_BY, f"not allowed in the container {WORKER_CONTAINER!r}"),
            **_lists_with_keys("containers."),
        },
        **all_hold(
            *in_worker,
            Rule(
                f"self.name == '{WORKER_CONTAINER}' || has(self.image)",
                f"has no image: add it, or name the container {WORKER_CONTAINER!r} to change the member's "
                "own",
            ),
        ),
    }
    return {
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            **_lists_with_keys(""),
            **fields(_SET_BY, "not allowed here"),
            "containers": {
                "type": "array",
                "description": "containers of the pod, merged by name with the operator's",
                "maxItems": 32,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": container,
            },
        },
        **all_hold(
            *(
                Rule(f"!has(self.{field})", f"{field} is set by {setter}: remove it", f".{field}")
                for field, setter in _SET_BY.items()
            )
        ),
    }


NOT_OURS: Final = Rule(
    f"self.all(name, !name.startsWith('{OURS}'))",
    f"names that begin with {OURS!r} are reserved for the operator: remove it",
)


class TemplateMeta(Model):
    """Metadata of every pod of the Worker."""

    labels: Annotated[
        Mapping[str, Annotated[str, Field(max_length=63)]],
        Field(max_length=64),
        AfterValidator(_labels),
        NOT_OURS,
    ] = Field(default_factory=dict, description="map of labels")
    annotations: Annotated[
        Mapping[str, Annotated[str, Field(max_length=16_384)]],
        Field(max_length=64),
        AfterValidator(_annotations),
        NOT_OURS,
    ] = Field(default_factory=dict, description="map of annotations")


class PodTemplate(Model):
    """The user's part of every pod, merged over the operator's."""

    metadata: TemplateMeta = Field(
        default_factory=TemplateMeta, description="labels and annotations of the pods"
    )
    spec: Annotated[Mapping[str, JsonValue], AfterValidator(_pod_spec)] = Field(
        default_factory=dict,
        json_schema_extra=_pod_spec_schema(),
        description=(
            "part of a pod's spec; each list is merged by its keys as Kubernetes does, such as "
            "volumeMounts by mountPath; the member's container is named worker"
        ),
    )

    def mounts(self, path: str) -> bool:
        """Whether the member's container has a volume of the template at ``path`` or above it."""
        own = [c for c in _named(self.spec.get("containers", []), "") if c["name"] == WORKER_CONTAINER]
        found = [mount for container in own for mount in _entries(container.get("volumeMounts"))]
        return any(f"{path}/".startswith(f"{mount.get('mountPath')}/") for mount in found)


def _entries(value: JsonValue) -> Sequence[Mapping[str, JsonValue]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _no_dots(path: str) -> str:
    if {".", ".."} & set(path.split("/")):
        raise ValueError(MOUNT_PATH.remedy)
    return path


class CheckpointVolume(Model):
    """A volume with the checkpoints of all tasks, mounted into all members."""

    claim_name: ObjectName = Field(
        description=(
            "a PersistentVolumeClaim in the Worker's namespace; it must be ReadWriteMany if there is more "
            "than one replica"
        )
    )
    mount_path: Annotated[
        str,
        MOUNT_PATH,
        AfterValidator(_no_dots),
        Rule(r"!self.matches(r'/\.\.?(/|$)')", MOUNT_PATH.remedy),
    ] = Field(default="/checkpoints", description="mount path in members")

    def holds(self, location: str) -> bool:
        """Whether ``location`` is a directory on this volume."""
        parts = location.rstrip("/").split("/")
        root = self.mount_path.split("/")
        return parts[: len(root)] == root and ".." not in parts
