"""Pod templates of Workers are limited to the level restricted and to listed Secrets."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.controller.manifests.allowed import Allowance, kafka_not_allowed, not_allowed
from cooperator.controller.manifests.children import references
from cooperator.controller.manifests.pods import Defaults, pod_manifest, template
from cooperator.crd import ResourceError, Worker, from_object
from tests.harness.examples import examples

DEFAULTS = Defaults("registry.example/cooperator:1.0", "kafka:9092")
STRICT = Allowance()
ANY = Allowance(any_template=True)
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def worker(spec: Mapping[str, Any] | None = None, /, **more: Any) -> Worker:
    """A Worker whose pod template has this ``spec``."""
    body = {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "lake", "namespace": "data", "uid": "u"},
        "spec": {"template": {"spec": dict(spec or {})}, **more},
    }
    found = from_object(body)
    assert isinstance(found, Worker)
    return found


def own(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "worker", **container}]}


def sidecar(context: Any = RESTRICTED, **container: Any) -> dict[str, Any]:
    return {"name": "proxy", "image": "proxy:1", "securityContext": context, **container}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def env(source: Mapping[str, Any]) -> dict[str, Any]:
    return own(env=[{"name": "A", "valueFrom": source}])


# Above the level restricted.
REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "the node's files": (volume(hostPath={"path": "/"}), ".volumes[0].hostPath is a mapping: remove it"),
    "a share of the network": (
        volume(nfs={"server": "a", "path": "/"}),
        ".volumes[0].nfs is a mapping: remove",
    ),
    "a driver that reads Secrets": (
        volume(csi={"driver": "secrets"}),
        ".volumes[0].csi is a mapping: remove it",
    ),
    "an account's token": (
        volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}),
        ".projected.sources[0].serviceAccountToken is a mapping: remove it",
    ),
    "the node's processes": ({"hostPID": True}, ".hostPID is true: use false"),
    "the node's network": ({"hostNetwork": True}, ".hostNetwork is true: use false"),
    "the node's memory": ({"hostIPC": True}, ".hostIPC is true: use false"),
    "a node past the scheduler": ({"nodeName": "control"}, ".nodeName is 'control': remove it"),
    "a class that evicts the system": (
        {"priorityClassName": "system-node-critical"},
        ".priorityClassName is 'system-node-critical': use a class of your own",
    ),
    "root in every container": (
        {"securityContext": {"runAsUser": 0}},
        ".securityContext.runAsUser is 0: use the number of a user other than root",
    ),
    "a user that is a text": (
        {"securityContext": {"runAsUser": "0"}},
        ".securityContext.runAsUser is '0': use",
    ),
    "root by the image": (
        {"securityContext": {"runAsNonRoot": False}},
        ".securityContext.runAsNonRoot is false: use true",
    ),
    "no restriction at all": ({"securityContext": None}, ".securityContext is null: write a mapping"),
    "settings of the kernel": (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        ".securityContext.sysctls is a list: remove it",
    ),
    "no filter of system calls": (
        own(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        ".seccompProfile.type is 'Unconfined': use 'RuntimeDefault' or 'Localhost'",
    ),
    "another SELinux type": (
        {"securityContext": {"seLinuxOptions": {"type": "spc_t"}}},
        ".seLinuxOptions.type is 'spc_t': use",
    ),
    "a privileged member": (
        own(securityContext={"privileged": True}),
        ".containers[0].securityContext.privileged is true: use false",
    ),
    "a member that gains rights": (
        own(securityContext={"allowPrivilegeEscalation": True}),
        ".allowPrivilegeEscalation is true: use false",
    ),
    "a capability": (
        own(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        ".capabilities.add is a list: remove it",
    ),
    "capabilities that are kept": (
        own(securityContext={"capabilities": {"drop": []}}),
        ".capabilities.drop is a list: write [ALL]",
    ),
    "no capabilities said": (
        own(securityContext={"capabilities": None}),
        ".capabilities is null: write a mapping",
    ),
    "the proc of the node": (
        own(securityContext={"procMount": "Unmasked"}),
        ".procMount is 'Unmasked': remove it",
    ),
    "a port of the node": (
        own(ports=[{"containerPort": 1, "hostPort": 1}]),
        ".ports[0].hostPort is 1: remove it",
    ),
    "mounts of the node": (
        own(volumeMounts=[{"name": "state", "mountPath": "/a", "mountPropagation": "Bidirectional"}]),
        ".volumeMounts[0].mountPropagation is 'Bidirectional': remove it",
    ),
    "a request of the kubelet to elsewhere": (
        own(livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
        ".httpGet.host is '169.254.169.254': use null or ''",
    ),
    "a sidecar that says nothing": (
        {"containers": [{"name": "proxy", "image": "proxy:1"}]},
        ".containers[0].securityContext is not set: write {allowPrivilegeEscalation: false,",
    ),
    "a sidecar that keeps capabilities": (
        {"containers": [sidecar({"allowPrivilegeEscalation": False})]},
        ".containers[0].securityContext.capabilities is not set: write {drop: [ALL]}",
    ),
    "an init container as root": (
        {"initContainers": [sidecar({**RESTRICTED, "runAsUser": 0})]},
        ".initContainers[0].securityContext.runAsUser is 0: use",
    ),
    "an init container with a Secret": (
        {"initContainers": [sidecar(envFrom=[{"secretRef": {"name": "admin"}}])]},
        ".initContainers[0].envFrom[0].secretRef.name is 'admin', which this installation",
    ),
    "containers that are added later": (
        {"ephemeralContainers": []},
        ".ephemeralContainers is a list: remove it",
    ),
    "devices": ({"resourceClaims": []}, ".resourceClaims is a list: remove it"),
    "a Secret as a variable": (
        env({"secretKeyRef": {"name": "admin", "key": "k"}}),
        ".secretKeyRef.name is 'admin'",
    ),
    "a Secret as variables": (
        own(envFrom=[{"secretRef": {"name": "admin"}}]),
        ".envFrom[0].secretRef.name is 'adm",
    ),
    "a Secret as files": (volume(secret={"secretName": "admin"}), ".volumes[0].secret.secretName is 'admin'"),
    "a Secret among other files": (
        volume(projected={"sources": [{"secret": {"name": "admin"}}]}),
        ".projected.sources[0].secret.name is 'admin'",
    ),
    "a Secret of another namespace": (
        volume(secret={"secretName": "../../kube-system/secrets/x"}),
        ".secretName is '../../kube-system/secrets/x', which this installation",
    ),
    "the token of the namespace's account": (
        {"automountServiceAccountToken": True},
        ".automountServiceAccountToken is true, and the account is 'default', which this installation",
    ),
}
# Entries of lists that cannot be merged, refused when the Worker is read.
UNMERGEABLE: Mapping[str, tuple[dict[str, Any], str]] = {
    "a volume as a number": ({"volumes": [5]}, "volumes[0] is no mapping: write one with name"),
    "a volume without a name": ({"volumes": [{"emptyDir": {}}]}, "volumes[0] has no name, by which"),
    "a name as a mapping": ({"volumes": [{"name": {}}]}, "volumes[0] has no name, by which"),
    "mounts without a path": (
        own(volumeMounts=[{"name": "a"}]),
        "volumeMounts[0] has no mountPath, by which",
    ),
}
# Wrong types, refused even where an installation allows any template: rendering must not fail on them.
MISTYPED: Mapping[str, tuple[dict[str, Any], str]] = {
    "volumes as a text": ({"volumes": "none"}, ".volumes is 'none': write a list"),
    "volumes that are nothing": ({"volumes": None}, ".volumes is null: write a list"),
    "variables as a mapping": (own(env={"A": "1"}), ".containers[0].env is a mapping: write a list"),
    "tolerations as a flag": ({"tolerations": True}, ".tolerations is true: write a list"),
    "a context as a list": ({"securityContext": []}, ".securityContext is a list: write a mapping"),
}


USEFUL = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "batch",
    "hostNetwork": False,
    "securityContext": {"runAsUser": 1000650000, "fsGroup": None, "supplementalGroups": [5]},
    "volumes": [
        {"name": "files", "persistentVolumeClaim": {"claimName": "lake-files"}},
        {"name": "own", "configMap": {"name": "settings"}},
    ],
    "initContainers": [sidecar(restartPolicy="Always")],
    "containers": [
        {
            "name": "worker",
            "env": [{"name": "REGION", "value": "north"}],
            "securityContext": {"readOnlyRootFilesystem": False, "runAsUser": None},
            "volumeMounts": [{"name": "files", "mountPath": "/files", "subPath": "a"}],
        },
        {**sidecar(readinessProbe={"httpGet": {"port": 80}}), "name": "log"},
    ],
}
"""A template with what users need."""


@pytest.mark.parametrize("case", REFUSED)
def test_settings_above_level_restricted_are_refused_unless_the_installation_allows_them(case: str) -> None:
    spec, said = REFUSED[case]
    found = not_allowed(worker(spec), STRICT)
    assert found.startswith("spec.template.spec.")
    assert said in found
    assert "the chart's value worker." in found
    assert not_allowed(worker(spec), ANY) == ""


@pytest.mark.parametrize("case", MISTYPED)
@pytest.mark.parametrize("allowance", [STRICT, ANY])
def test_wrong_types_are_refused_by_every_installation(case: str, allowance: Allowance) -> None:
    spec, said = MISTYPED[case]
    assert said in not_allowed(worker(spec), allowance)


@pytest.mark.parametrize("case", UNMERGEABLE)
def test_entries_that_cannot_be_merged_are_refused_with_the_worker(case: str) -> None:
    spec, said = UNMERGEABLE[case]
    with pytest.raises(ResourceError) as refused:
        worker(spec)
    assert said in str(refused.value)


def test_common_templates_are_allowed() -> None:
    assert not_allowed(worker(USEFUL), STRICT) == ""


def test_secrets_and_accounts_are_those_that_the_installation_names() -> None:
    sasl = {"mechanism": "PLAIN", "secretRef": {"name": "login"}}
    asks: Mapping[str, Worker] = {
        "spec.template.spec.volumes[0].secret.secretName": worker(volume(secret={"secretName": "login"})),
        "spec.imagePullSecrets[0]": worker(imagePullSecrets=["login"]),
        "spec.kafka: the Secret": worker(kafka={"securityProtocol": "SASL_SSL", "sasl": sasl}),
    }
    for path, asked in asks.items():
        for here in ("login", "data/login"):
            assert not_allowed(asked, Allowance(secrets=frozenset({here}))) == ""
        for elsewhere in ("other", "prod/login", "data/login/login"):
            said = not_allowed(asked, Allowance(secrets=frozenset({elsewhere})))
            assert said.startswith(f"{path} is 'login'")
            assert "worker.secrets" in said
    account = worker(serviceAccountName="wide")
    assert "worker.serviceAccounts" in not_allowed(account, Allowance(secrets=frozenset({"wide"})))
    assert not_allowed(account, Allowance(service_accounts=frozenset({"data/wide"}))) == ""
    # The operator would send the Secret's value to the brokers that the Worker names.
    kafka = asks["spec.kafka: the Secret"]
    assert "'login'" in kafka_not_allowed(kafka, STRICT)
    assert kafka_not_allowed(kafka, Allowance(secrets=frozenset({"login"}))) == ""


def test_a_token_for_kafka_is_one_of_an_account_that_the_installation_names() -> None:
    source = {"serviceAccountToken": {"audience": "https://kubernetes.default.svc"}}
    sasl = {"mechanism": "OAUTHBEARER", "oauthbearer": source}
    asked = {"kafka": {"securityProtocol": "SASL_SSL", "sasl": sasl}}
    said = not_allowed(worker(**asked), STRICT)
    assert said.startswith(
        "spec.kafka.sasl.oauthbearer.serviceAccountToken is set, and the account is 'default'"
    )
    assert "worker.serviceAccounts" in said
    assert not_allowed(worker(**asked), Allowance(service_accounts=frozenset({"data/default"}))) == ""
    named = worker(**asked, serviceAccountName="lake")
    assert "'lake'" in not_allowed(named, STRICT)
    assert not_allowed(named, Allowance(service_accounts=frozenset({"lake"}))) == ""


def test_older_annotations_that_lift_profiles_are_refused() -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/worker": "unconfined"}
    asked = worker(template={"metadata": {"annotations": annotations}})
    assert "spec.template.metadata.annotations has 'container.apparmor" in not_allowed(asked, STRICT)


def test_a_secret_is_read_where_a_pod_refers_to_one_and_nowhere_else() -> None:
    hidden = {"secret": {"name": "admin", "secretName": "admin"}, "secretRef": {"name": "admin"}}
    spec = {"affinity": hidden, "dnsConfig": hidden, "nodeSelector": hidden, **own(resourcesOf=hidden)}
    assert references(template(worker(spec), DEFAULTS)) == frozenset()


# --- any template ----------------------------------------------------------------------------------------

_FIELDS = st.sampled_from(
    [
        *("name", "image", "env", "envFrom", "volumes", "volumeMounts", "mountPath", "containers", "secret"),
        *("initContainers", "securityContext", "runAsUser", "runAsNonRoot", "capabilities", "drop", "add"),
        *("hostPath", "hostPID", "projected", "sources", "valueFrom", "secretKeyRef", "secretName", "ports"),
        *("privileged", "allowPrivilegeEscalation", "seccompProfile", "type", "tolerations", "metadata"),
    ]
)
_VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.5, "", "worker", "ALL", "a", "RuntimeDefault"]),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(_FIELDS, part, max_size=4),
    max_leaves=12,
)
_CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "runAsUser": st.sampled_from([0, 1, None, "0", True]),
        "runAsNonRoot": st.sampled_from([True, False, None]),
        "privileged": st.booleans(),
        "allowPrivilegeEscalation": st.sampled_from([True, False, None, 0]),
        "capabilities": st.none() | st.dictionaries(st.sampled_from(["drop", "add"]), _VALUES),
        "seccompProfile": st.none() | st.dictionaries(st.just("type"), _VALUES),
    },
)
_CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["worker", "a"]), "image": st.just("a:1")},
        optional={"securityContext": _CONTEXTS | _VALUES, "env": _VALUES, "volumeMounts": _VALUES},
    ),
    max_size=2,
)
SPECS = st.dictionaries(_FIELDS, _VALUES, max_size=4) | st.fixed_dictionaries(
    {}, optional={"containers": _CONTAINERS, "initContainers": _CONTAINERS, "securityContext": _CONTEXTS}
)
EXECUTORS = {
    "serviceAccountName": "wide",
    "checkpointVolume": {"claimName": "c"},
    "spark": {"conf": {"spark.master": "k8s://api"}},
}


def above_restricted(pod: Mapping[str, Any]) -> Iterator[str]:
    """The settings that Pod Security's level restricted forbids, from the published table."""
    spec = pod["spec"]
    allowed = {
        "configMap",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    yield from ({"hostPID", "hostIPC", "hostNetwork"} & {name for name, value in spec.items() if value})
    yield from (str(v) for v in spec["volumes"] if not v.keys() - {"name"} <= allowed)
    of_pod = spec["securityContext"]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        own = container["securityContext"]
        seen = {**of_pod, **{name: value for name, value in own.items() if value is not None}}
        if own.get("privileged") or own["allowPrivilegeEscalation"] is not False:
            yield f"{container['name']} gains rights"
        if "ALL" not in own["capabilities"]["drop"] or set(own["capabilities"].get("add") or ()) - {
            "NET_BIND_SERVICE"
        }:
            yield f"{container['name']} has capabilities"
        if seen["runAsNonRoot"] is not True or seen.get("runAsUser") == 0:
            yield f"{container['name']} is root"
        if seen["seccompProfile"]["type"] not in ("RuntimeDefault", "Localhost"):
            yield f"{container['name']} is unconfined"


@given(SPECS, st.booleans())
@settings(max_examples=examples(150, long=600), deadline=None)
def test_allowed_templates_render_and_meet_level_restricted(spec: dict[str, Any], executors: bool) -> None:
    try:
        asked = worker(spec, **(EXECUTORS if executors else {}))
    except ResourceError:
        return  # The schema refuses it.
    accounts = frozenset({"wide", "default"})
    for allowance in (Allowance(service_accounts=accounts), ANY):
        if not_allowed(asked, allowance) == "":
            pod = pod_manifest(asked, DEFAULTS, "lake-0", "r1")
            assert all(kind in ("Secret", "ConfigMap") for kind, _ in references(pod))
            if not allowance.any_template:
                assert list(above_restricted(pod)) == []
