"""What a Worker may ask of its pods: an allow-list, which an installation widens. Pure.

The right to create Workers must not be the right to everything that the operator may create. So the operator
makes no pod from a template with a field that is not listed here, nor one above the level ``restricted`` of
Kubernetes' Pod Security Standards, and Secrets and accounts are those that the installation names.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cooperator.crd import Worker
from cooperator.crd.pod import WORKER_CONTAINER
from cooperator.host.security import secret_names

WIDER: Final = "or have the installation allow it (the chart's value worker.template: Any)"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an installation lets Workers name. ``secrets`` and ``service_accounts`` are names in every
    namespace that is served, or NAMESPACE/NAME. ``any_template``: everything that the API server accepts."""

    secrets: frozenset[str] = frozenset()
    service_accounts: frozenset[str] = frozenset()
    any_template: bool = False


@dataclass(frozen=True, slots=True)
class _Limits:
    allowance: Allowance
    namespace: str

    def names(self, listed: Collection[str], name: object) -> bool:
        return self.allowance.any_template or name in listed or f"{self.namespace}/{name}" in listed


_Found: TypeAlias = Iterator[str]
_Shape: TypeAlias = Callable[[str, Any, _Limits], _Found]
"""Yields what is wrong with the value at a path, each with the remedy."""


def not_allowed(worker: Worker, allowance: Allowance) -> str:
    """Why no pod may be made of this Worker: field, value and remedy; empty if one may."""
    spec, limits = worker.spec, _Limits(allowance, worker.metadata.namespace)

    def found() -> _Found:
        yield from _POD("spec.template.spec", dict(spec.template.spec), limits)
        for name in spec.template.metadata.annotations:
            if name.startswith(_PROFILES) and not allowance.any_template:
                yield f"spec.template.metadata.annotations has {name!r}: remove it, {WIDER}"
        for number, name in enumerate(spec.image_pull_secrets):
            yield from _secret(f"spec.imagePullSecrets[{number}]", name, limits)
        yield kafka_not_allowed(worker, allowance)
        if spec.service_account_name is not None:
            yield from _account("spec.serviceAccountName", spec.service_account_name, limits)
        token = spec.template.spec.get("automountServiceAccountToken")
        if token and spec.service_account_name is None:
            path = "spec.template.spec.automountServiceAccountToken"
            yield from _account(f"{path} is true, and the account", "default", limits)

    return next(filter(None, found()), "")


def kafka_not_allowed(worker: Worker, allowance: Allowance) -> str:
    """Why the operator itself may not use the Secrets of ``spec.kafka``; empty if it may.

    The author of a Worker also chooses the brokers that are shown their contents.
    """
    limits = _Limits(allowance, worker.metadata.namespace)
    names = sorted(secret_names(worker.spec.kafka))
    return next((text for name in names for text in _secret("spec.kafka: the Secret", name, limits)), "")


# --- shapes ----------------------------------------------------------------------------------------------


def _anything(path: str, value: Any, limits: _Limits) -> _Found:
    yield from ()


def _text(path: str, value: Any, limits: _Limits) -> _Found:
    if not isinstance(value, str | None):
        yield f"{path} is {_shown(value)}: write a text"


def _list(of: _Shape, *needed: str) -> _Shape:
    def check(path: str, value: Any, limits: _Limits) -> _Found:
        if not isinstance(value, list | tuple):
            yield f"{path} is {_shown(value)}: write a list, or remove it"
            return
        for number, entry in enumerate(value):
            at = f"{path}[{number}]"
            if needed and not isinstance(entry, Mapping):
                yield f"{at} is {_shown(entry)}: write a mapping with {' and '.join(needed)}"
                continue
            for key in needed:
                if not isinstance(entry.get(key), str):
                    yield f"{at}.{key} is {_shown(entry.get(key))}: write a text"
            yield from of(at, entry, limits)

    return check


def _fields(known: Mapping[str, _Shape], needed: Mapping[str, str] | None = None) -> _Shape:
    """A mapping with these fields and no others; ``needed`` gives the remedies for fields that are absent."""

    def check(path: str, value: Any, limits: _Limits) -> _Found:
        wide = limits.allowance.any_template
        if value is None:
            if not wide:
                yield f"{path} is null: write a mapping, or remove it, {WIDER}"
            return
        if not isinstance(value, Mapping):
            yield f"{path} is {_shown(value)}: write a mapping, or remove it"
            return
        for name, part in value.items():
            if name in known:
                yield from known[name](f"{path}.{name}", part, limits)
            elif not wide:
                yield f"{path}.{name} is {_shown(part)}: remove it, {WIDER}"
        for name, remedy in (needed or {}).items():
            if name not in value and not wide:
                yield f"{path}.{name} is not set: {remedy}, {WIDER}"

    return check


def _only(holds: Callable[[Any], bool], remedy: str) -> _Shape:
    def check(path: str, value: Any, limits: _Limits) -> _Found:
        if not limits.allowance.any_template and not holds(value):
            yield f"{path} is {_shown(value)}: {remedy}, {WIDER}"

    return check


def _one_of(*values: object) -> _Shape:
    words = " or ".join(_shown(value) for value in values)
    return _only(lambda value: any(type(value) is type(e) and value == e for e in values), f"use {words}")


def _listed(what: str, chart_value: str, pick: Callable[[Allowance], frozenset[str]]) -> _Shape:
    def check(path: str, value: Any, limits: _Limits) -> _Found:
        if not isinstance(value, str):
            yield f"{path} is {_shown(value)}: write the name of a {what}"
        elif not limits.names(pick(limits.allowance), value):
            yield (
                f"{path} is {value!r}, which this installation does not let Workers name: add it to the "
                f"chart's value {chart_value}, or name none"
            )

    return check


def _shown(value: object) -> str:
    match value:
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case None:
            return "null"
        case bool():
            return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


# --- the allow-list --------------------------------------------------------------------------------------

_PROFILES: Final = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
"""Annotations that older clusters read as security profiles."""

_secret: Final = _listed("Secret", "worker.secrets", lambda allowance: allowance.secrets)
_account: Final = _listed(
    "ServiceAccount", "worker.serviceAccounts", lambda allowance: allowance.service_accounts
)
_false: Final = _one_of(False)
_not_root: Final = _only(
    lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0),
    "use the number of a user other than root",
)
_drop_all: Final = _only(
    lambda value: isinstance(value, list | tuple) and "ALL" in value, "write [ALL], as Pod Security requires"
)
_add: Final = _only(
    lambda value: (
        value is None or (isinstance(value, list | tuple) and {*map(str, value)} <= {"NET_BIND_SERVICE"})
    ),
    "remove it",
)
_profile: Final = _fields(
    {"type": _one_of("RuntimeDefault", "Localhost"), "localhostProfile": _text},
    {"type": "use RuntimeDefault"},
)
_selinux: Final = _fields(
    {
        "type": _one_of(None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"),
        "level": _text,
    }
)
_SHARED_CONTEXT: Final[Mapping[str, _Shape]] = {
    "runAsNonRoot": _one_of(True),
    "runAsUser": _not_root,
    "runAsGroup": _anything,
    "seccompProfile": _profile,
    "appArmorProfile": _profile,
    "seLinuxOptions": _selinux,
}
_POD_CONTEXT: Final = _fields(
    {
        **_SHARED_CONTEXT,
        "fsGroup": _anything,
        "fsGroupChangePolicy": _text,
        "supplementalGroups": _anything,
        "supplementalGroupsPolicy": _text,
    }
)
_NEEDED: Final = {
    "allowPrivilegeEscalation": "write false, as Pod Security's level restricted requires",
    "capabilities": "write {drop: [ALL]}, as Pod Security's level restricted requires",
}


def _context(needed: Mapping[str, str]) -> _Shape:
    of_capabilities = {"drop": _NEEDED["capabilities"]} if needed else {}
    return _fields(
        {
            **_SHARED_CONTEXT,
            "allowPrivilegeEscalation": _false,
            "privileged": _false,
            "readOnlyRootFilesystem": _anything,
            "capabilities": _fields({"drop": _drop_all, "add": _add}, of_capabilities),
        },
        needed,
    )


_config_map: Final = _fields({"name": _text, "key": _text, "optional": _anything})
_secret_source: Final = _fields({"name": _secret, "key": _text, "items": _anything, "optional": _anything})
_env: Final = _fields(
    {
        "name": _text,
        "value": _text,
        "valueFrom": _fields(
            {
                "fieldRef": _anything,
                "resourceFieldRef": _anything,
                "configMapKeyRef": _config_map,
                "secretKeyRef": _secret_source,
            }
        ),
    }
)
_env_from: Final = _fields({"prefix": _text, "configMapRef": _config_map, "secretRef": _secret_source})
_no_host: Final = _one_of(None, "")
_handler: Final[Mapping[str, _Shape]] = {
    "exec": _anything,
    # Else the kubelet would send requests for the author of a Worker.
    "httpGet": _fields(
        {"host": _no_host, "path": _text, "port": _anything, "scheme": _text, "httpHeaders": _anything}
    ),
    "tcpSocket": _fields({"host": _no_host, "port": _anything}),
}
_probe: Final = _fields(
    {
        **_handler,
        "grpc": _anything,
        "initialDelaySeconds": _anything,
        "periodSeconds": _anything,
        "timeoutSeconds": _anything,
        "successThreshold": _anything,
        "failureThreshold": _anything,
        "terminationGracePeriodSeconds": _anything,
    }
)
_hook: Final = _fields({**_handler, "sleep": _anything})
_CONTAINER: Final[Mapping[str, _Shape]] = {
    "name": _text,
    "image": _text,
    "imagePullPolicy": _text,
    "command": _anything,
    "args": _anything,
    "workingDir": _text,
    "restartPolicy": _text,
    "resources": _anything,
    "env": _list(_env, "name"),
    "envFrom": _list(_env_from),
    "ports": _list(_fields({"name": _text, "containerPort": _anything, "protocol": _text})),
    "volumeMounts": _list(
        _fields(
            {
                "name": _text,
                "mountPath": _text,
                "readOnly": _anything,
                "recursiveReadOnly": _text,
                "subPath": _text,
                "subPathExpr": _text,
            }
        ),
        "name",
        "mountPath",
    ),
    "livenessProbe": _probe,
    "readinessProbe": _probe,
    "startupProbe": _probe,
    "lifecycle": _fields({"preStop": _hook, "postStart": _hook, "stopSignal": _text}),
    "terminationMessagePath": _text,
    "terminationMessagePolicy": _text,
    "stdin": _anything,
    "stdinOnce": _anything,
    "tty": _anything,
}
_OWN_CONTAINER: Final = _fields({**_CONTAINER, "securityContext": _context({})})
_OTHER_CONTAINER: Final = _fields(
    {**_CONTAINER, "securityContext": _context(_NEEDED)},
    {
        "securityContext": "write {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, as Pod "
        "Security's level restricted requires"
    },
)


def _container(path: str, value: Any, limits: _Limits) -> _Found:
    # The operator's part of the member's own container is restricted already.
    own = value.get("name") == WORKER_CONTAINER and ".containers[" in path
    yield from (_OWN_CONTAINER if own else _OTHER_CONTAINER)(path, value, limits)


_projected: Final = _fields(
    {
        "secret": _secret_source,
        "configMap": _fields({"name": _text, "items": _anything, "optional": _anything}),
        "downwardAPI": _anything,
        "clusterTrustBundle": _anything,
    }
)
_volume: Final = _fields(
    {
        "name": _text,
        "emptyDir": _anything,
        "persistentVolumeClaim": _fields({"claimName": _text, "readOnly": _anything}),
        "ephemeral": _anything,
        "configMap": _fields(
            {"name": _text, "items": _anything, "defaultMode": _anything, "optional": _anything}
        ),
        "secret": _fields(
            {"secretName": _secret, "items": _anything, "defaultMode": _anything, "optional": _anything}
        ),
        "downwardAPI": _anything,
        "projected": _fields({"sources": _list(_projected), "defaultMode": _anything}),
    }
)
_POD: Final = _fields(
    {
        "affinity": _anything,
        "automountServiceAccountToken": _anything,
        "containers": _list(_container, "name"),
        "dnsConfig": _anything,
        "dnsPolicy": _text,
        "enableServiceLinks": _anything,
        "hostAliases": _anything,
        "hostIPC": _false,
        "hostNetwork": _false,
        "hostPID": _false,
        "initContainers": _list(_container, "name"),
        "nodeSelector": _anything,
        "os": _anything,
        "preemptionPolicy": _text,
        "priorityClassName": _only(
            lambda value: value is None or (isinstance(value, str) and not value.startswith("system-")),
            "use a class of your own",
        ),
        "readinessGates": _list(_anything, "conditionType"),
        "runtimeClassName": _text,
        "schedulerName": _text,
        "securityContext": _POD_CONTEXT,
        "setHostnameAsFQDN": _anything,
        "shareProcessNamespace": _anything,
        "tolerations": _list(_anything),
        "topologySpreadConstraints": _list(_anything, "topologyKey"),
        "volumes": _list(_volume, "name"),
    }
)
