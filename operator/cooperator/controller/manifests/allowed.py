"""Validates pod templates of Workers against an allow-list that an installation can extend. Pure.

Permission to create Workers must not imply every permission of the operator. So the operator makes no pod
from a template with a field that is not listed here, nor one above the level ``restricted`` of Kubernetes'
Pod Security Standards, and Secrets and accounts are those that the installation names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cooperator.controller.manifests.shapes import (
    WIDER,
    Anything,
    ClosedMapping,
    Listed,
    ListOf,
    ListWith,
    ListWithin,
    MappingByName,
    NameOf,
    NoSystemClass,
    NotRoot,
    OneOf,
    Problems,
    Shape,
    TemplateLimits,
    Text,
)
from cooperator.crd import Worker
from cooperator.crd.pod import WORKER_CONTAINER
from cooperator.host.security import secret_names


@dataclass(frozen=True, slots=True)
class Allowance:
    """The Secrets and service accounts that an installation allows Workers to reference. ``secrets`` and
    ``service_accounts`` are names in every namespace that is served, or NAMESPACE/NAME. ``any_template``:
    everything that the API server accepts."""

    secrets: frozenset[str] = frozenset()
    service_accounts: frozenset[str] = frozenset()
    any_template: bool = False


def not_allowed(worker: Worker, allowance: Allowance) -> str:
    """Returns why this Worker's pods are refused (field, value, remedy); empty if they are allowed."""
    spec, limits = worker.spec, _limits(worker, allowance)

    def found() -> Problems:
        yield from POD.problems("spec.template.spec", dict(spec.template.spec), limits)
        for name in spec.template.metadata.annotations:
            if name.startswith(PROFILES) and not allowance.any_template:
                yield f"spec.template.metadata.annotations has {name!r}: remove it, {WIDER}"
        for number, name in enumerate(spec.image_pull_secrets):
            yield from SECRET.problems(f"spec.imagePullSecrets[{number}]", name, limits)
        yield kafka_not_allowed(worker, allowance)
        if spec.service_account_name is not None:
            yield from ACCOUNT.problems("spec.serviceAccountName", spec.service_account_name, limits)
        token = spec.template.spec.get("automountServiceAccountToken")
        if token and spec.service_account_name is None:
            path = "spec.template.spec.automountServiceAccountToken"
            yield from ACCOUNT.problems(f"{path} is true, and the account", "default", limits)
        if spec.kafka.sasl and spec.kafka.sasl.service_account_token and spec.service_account_name is None:
            path = "spec.kafka.sasl.oauthbearer.serviceAccountToken"
            yield from ACCOUNT.problems(f"{path} is set, and the account", "default", limits)

    return next(filter(None, found()), "")


def kafka_not_allowed(worker: Worker, allowance: Allowance) -> str:
    """Returns why the operator must not use the Secrets of ``spec.kafka``; empty if it may. The author of a
    Worker also chooses the brokers to which their contents are sent.
    """
    limits = _limits(worker, allowance)
    found = (SECRET.problems("spec.kafka: the Secret", n, limits) for n in secret_names(worker.spec.kafka))
    return min((text for problems in found for text in problems), default="")


def _limits(worker: Worker, allowance: Allowance) -> TemplateLimits:
    listed = {Listed.SECRET: allowance.secrets, Listed.ACCOUNT: allowance.service_accounts}
    return TemplateLimits(worker.metadata.namespace, listed, allowance.any_template)


# --- the allow-list --------------------------------------------------------------------------------------

PROFILES: Final = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
"""Legacy annotations that select security profiles."""

SECRET: Final = NameOf(Listed.SECRET)
ACCOUNT: Final = NameOf(Listed.ACCOUNT)
_false: Final = OneOf((False,))
_profile: Final = ClosedMapping(
    {"type": OneOf(("RuntimeDefault", "Localhost")), "localhostProfile": Text()},
    {"type": "use RuntimeDefault"},
)
_selinux: Final = ClosedMapping(
    {
        "type": OneOf((None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")),
        "level": Text(),
    }
)
_SHARED_CONTEXT: Final[Mapping[str, Shape]] = {
    "runAsNonRoot": OneOf((True,)),
    "runAsUser": NotRoot(),
    "runAsGroup": Anything(),
    "seccompProfile": _profile,
    "appArmorProfile": _profile,
    "seLinuxOptions": _selinux,
}
_POD_CONTEXT: Final = ClosedMapping(
    {
        **_SHARED_CONTEXT,
        "fsGroup": Anything(),
        "fsGroupChangePolicy": Text(),
        "supplementalGroups": Anything(),
        "supplementalGroupsPolicy": Text(),
    }
)
_NEEDED: Final = {
    "allowPrivilegeEscalation": "write false, as Pod Security's level restricted requires",
    "capabilities": "write {drop: [ALL]}, as Pod Security's level restricted requires",
}


def _context(needed: Mapping[str, str]) -> Shape:
    of_capabilities = {"drop": _NEEDED["capabilities"]} if needed else {}
    return ClosedMapping(
        {
            **_SHARED_CONTEXT,
            "allowPrivilegeEscalation": _false,
            "privileged": _false,
            "readOnlyRootFilesystem": Anything(),
            "capabilities": ClosedMapping(
                {
                    "drop": ListWith("ALL", "write [ALL], as Pod Security requires"),
                    "add": ListWithin(("NET_BIND_SERVICE",)),
                },
                of_capabilities,
            ),
        },
        needed,
    )


_config_map: Final = ClosedMapping({"name": Text(), "key": Text(), "optional": Anything()})
_secret_source: Final = ClosedMapping(
    {"name": SECRET, "key": Text(), "items": Anything(), "optional": Anything()}
)
_env: Final = ClosedMapping(
    {
        "name": Text(),
        "value": Text(),
        "valueFrom": ClosedMapping(
            {
                "fieldRef": Anything(),
                "resourceFieldRef": Anything(),
                "configMapKeyRef": _config_map,
                "secretKeyRef": _secret_source,
            }
        ),
    }
)
_env_from: Final = ClosedMapping({"prefix": Text(), "configMapRef": _config_map, "secretRef": _secret_source})
_no_host: Final = OneOf((None, ""))
_handler: Final[Mapping[str, Shape]] = {
    "exec": Anything(),
    # Otherwise a Worker's author could make the kubelet send requests to any host.
    "httpGet": ClosedMapping(
        {"host": _no_host, "path": Text(), "port": Anything(), "scheme": Text(), "httpHeaders": Anything()}
    ),
    "tcpSocket": ClosedMapping({"host": _no_host, "port": Anything()}),
}
_probe: Final = ClosedMapping(
    {
        **_handler,
        "grpc": Anything(),
        "initialDelaySeconds": Anything(),
        "periodSeconds": Anything(),
        "timeoutSeconds": Anything(),
        "successThreshold": Anything(),
        "failureThreshold": Anything(),
        "terminationGracePeriodSeconds": Anything(),
    }
)
_hook: Final = ClosedMapping({**_handler, "sleep": Anything()})
_CONTAINER: Final[Mapping[str, Shape]] = {
    "name": Text(),
    "image": Text(),
    "imagePullPolicy": Text(),
    "command": Anything(),
    "args": Anything(),
    "workingDir": Text(),
    "restartPolicy": Text(),
    "resources": Anything(),
    "env": ListOf(_env, ("name",)),
    "envFrom": ListOf(_env_from),
    "ports": ListOf(ClosedMapping({"name": Text(), "containerPort": Anything(), "protocol": Text()})),
    "volumeMounts": ListOf(
        ClosedMapping(
            {
                "name": Text(),
                "mountPath": Text(),
                "readOnly": Anything(),
                "recursiveReadOnly": Text(),
                "subPath": Text(),
                "subPathExpr": Text(),
            }
        ),
        ("name", "mountPath"),
    ),
    "livenessProbe": _probe,
    "readinessProbe": _probe,
    "startupProbe": _probe,
    "lifecycle": ClosedMapping({"preStop": _hook, "postStart": _hook, "stopSignal": Text()}),
    "terminationMessagePath": Text(),
    "terminationMessagePolicy": Text(),
    "stdin": Anything(),
    "stdinOnce": Anything(),
    "tty": Anything(),
}
_OWN_CONTAINER: Final = ClosedMapping({**_CONTAINER, "securityContext": _context({})})
_OTHER_CONTAINER: Final = ClosedMapping(
    {**_CONTAINER, "securityContext": _context(_NEEDED)},
    {
        "securityContext": "write {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, as Pod "
        "Security's level restricted requires"
    },
)


_projected: Final = ClosedMapping(
    {
        "secret": _secret_source,
        "configMap": ClosedMapping({"name": Text(), "items": Anything(), "optional": Anything()}),
        "downwardAPI": Anything(),
        "clusterTrustBundle": Anything(),
    }
)
_volume: Final = ClosedMapping(
    {
        "name": Text(),
        "emptyDir": Anything(),
        "persistentVolumeClaim": ClosedMapping({"claimName": Text(), "readOnly": Anything()}),
        "ephemeral": Anything(),
        "configMap": ClosedMapping(
            {"name": Text(), "items": Anything(), "defaultMode": Anything(), "optional": Anything()}
        ),
        "secret": ClosedMapping(
            {"secretName": SECRET, "items": Anything(), "defaultMode": Anything(), "optional": Anything()}
        ),
        "downwardAPI": Anything(),
        "projected": ClosedMapping({"sources": ListOf(_projected), "defaultMode": Anything()}),
    }
)
POD: Final = ClosedMapping(
    {
        "affinity": Anything(),
        "automountServiceAccountToken": Anything(),
        "containers": ListOf(MappingByName(WORKER_CONTAINER, _OWN_CONTAINER, _OTHER_CONTAINER), ("name",)),
        "dnsConfig": Anything(),
        "dnsPolicy": Text(),
        "enableServiceLinks": Anything(),
        "hostAliases": Anything(),
        "hostIPC": _false,
        "hostNetwork": _false,
        "hostPID": _false,
        "initContainers": ListOf(_OTHER_CONTAINER, ("name",)),
        "nodeSelector": Anything(),
        "os": Anything(),
        "preemptionPolicy": Text(),
        "priorityClassName": NoSystemClass(),
        "readinessGates": ListOf(Anything(), ("conditionType",)),
        "runtimeClassName": Text(),
        "schedulerName": Text(),
        "securityContext": _POD_CONTEXT,
        "setHostnameAsFQDN": Anything(),
        "shareProcessNamespace": Anything(),
        "tolerations": ListOf(Anything()),
        "topologySpreadConstraints": ListOf(Anything(), ("topologyKey",)),
        "volumes": ListOf(_volume, ("name",)),
    }
)
