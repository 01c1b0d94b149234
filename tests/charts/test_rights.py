"""The operator's rights in the chart are those that the code needs, where it needs them, and no more."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from cooperator.controller.api import client as api
from cooperator.controller.api.client import Kind
from tests.charts.rendered import CLUSTERWIDE, CONFINED, MODES, NAMESPACED, OPERATOR, ROOT, Release
from tests.kubernetes.helm import HelmFailed

KINDS: Mapping[str, Kind] = {name: kind for name, kind in vars(api).items() if isinstance(kind, Kind)}
VERBS = {
    "get": {"get"},
    "list": {"list"},
    # Server-side apply creates missing objects.
    "apply": {"patch", "create"},
    "create": {"create"},
    "replace": {"update"},
    "merge": {"patch"},
    "delete": {"delete"},
}
"""Kubernetes' verbs by the method of ``Api``."""
CODE = ROOT / "operator" / "cooperator" / "controller"

Right = tuple[str, str, str]
"""(group, resource, verb)"""


def rights(rules: Any) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def granted(release: Release, values: Mapping[str, Any]) -> dict[str, set[Right]]:
    """Rights by namespace, or ``*`` for the cluster. Follows each binding to its role and to the operator's
    account."""
    manifests = release.manifests(values)
    roles = {
        (manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"]): manifest
        for manifest in manifests
        if "rules" in manifest
    }
    account = release.operator_pod(values)["spec"]["serviceAccountName"]
    found: dict[str, set[Right]] = {}
    for manifest in manifests:
        if not manifest["kind"].endswith("Binding"):
            continue
        [subject] = manifest["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": account, "namespace": release.namespace}
        where = manifest["metadata"].get("namespace")
        reference = manifest["roleRef"]
        assert f"{reference['kind']}Binding" == manifest["kind"]
        role = roles.pop((reference["kind"], where, reference["name"]))
        found.setdefault(where or "*", set()).update(rights(role["rules"]))
    assert not roles, "every role is bound"
    return found


def of(file: str) -> set[Right]:
    return rights(yaml.safe_load((OPERATOR / "files" / f"{file}-rules.yaml").read_text()))


CLUSTER, NAMESPACE, SECRET, OWN = (of(file) for file in ("cluster", "namespace", "secret", "own"))
REST, REVIEW, TLS = of("rest"), of("review"), of("tls")


def test_a_clusterwide_operator_has_its_rights_everywhere(release: Release) -> None:
    assert granted(release, CLUSTERWIDE) == {"*": CLUSTER | NAMESPACE | SECRET, "home": OWN}


def test_by_default_an_operator_has_its_rights_in_its_own_namespace_only(release: Release) -> None:
    assert granted(release, {}) == {"*": CLUSTER, "home": OWN | NAMESPACE | SECRET}
    assert "--namespace=home" in release.operator_container()["args"]


def test_a_namespaced_operator_has_its_rights_in_its_namespaces_only(release: Release) -> None:
    there = NAMESPACE | SECRET
    assert granted(release, NAMESPACED) == {"*": CLUSTER, "a": there, "b": there, "home": OWN}
    # The operator's own namespace is included if it serves that one.
    assert granted(release, {"namespaces": ["home"]}) == {"*": CLUSTER, "home": OWN | there}


def test_without_cluster_rights_all_objects_are_namespaced(release: Release) -> None:
    there = NAMESPACE | SECRET
    assert granted(release, CONFINED) == {"a": there, "b": there, "home": OWN}
    assert not [m for m in release.manifests(CONFINED) if m["kind"].startswith("Cluster")]


def test_secrets_are_readable_in_the_listed_namespaces_only(release: Release) -> None:
    found = granted(release, MODES["of the cluster, Secrets of some"])
    assert found == {"*": CLUSTER | NAMESPACE, "a": SECRET, "b": SECRET, "home": OWN}


def test_an_operator_with_the_rest_api_may_review_its_callers_and_act_for_them(release: Release) -> None:
    rest = {"rest": {"enabled": True}}
    everywhere = {"*": CLUSTER | REVIEW | NAMESPACE | REST | SECRET, "home": OWN}
    assert granted(release, {**CLUSTERWIDE, **rest}) == everywhere
    there = NAMESPACE | REST | SECRET
    found = granted(release, {**NAMESPACED, **rest})
    assert found == {"*": CLUSTER | REVIEW, "a": there, "b": there, "home": OWN}
    assert "--rest" in release.operator_pod(rest)["spec"]["containers"][0]["args"]
    assert "--rest" not in release.operator_pod({})["spec"]["containers"][0]["args"]
    with pytest.raises(HelmFailed, match="tokenreviews"):
        release.manifests({**CONFINED, **rest})


def test_an_operator_that_serves_https_may_give_its_ca_to_members(release: Release) -> None:
    tls = {"tls": {"secretName": "leader"}}
    assert granted(release, {**CLUSTERWIDE, **tls}) == {"*": CLUSTER | NAMESPACE | SECRET | TLS, "home": OWN}
    there = NAMESPACE | SECRET | TLS
    assert granted(release, {**NAMESPACED, **tls}) == {"*": CLUSTER, "a": there, "b": there, "home": OWN}
    written = {right for right in granted(release, {})["home"] if right[1] == "configmaps"}
    assert written == {("", "configmaps", "get")}, "otherwise they are only read"


@pytest.mark.parametrize("values", [{}, NAMESPACED])
def test_secrets_outside_of_the_served_namespaces_are_refused(release: Release, values: Any) -> None:
    with pytest.raises(HelmFailed, match="secretNamespaces is for clusterWide"):
        release.manifests({**values, "secretNamespaces": ["c"]})


def test_an_operator_serves_all_namespaces_or_some(release: Release) -> None:
    with pytest.raises(HelmFailed, match="clusterWide serves all namespaces, but namespaces are named"):
        release.manifests({**CLUSTERWIDE, **NAMESPACED})


def test_the_chart_passes_the_allowed_names_to_the_operator(release: Release) -> None:
    def arguments(**worker: Any) -> set[str]:
        [container] = release.operator_pod({"worker": worker})["spec"]["containers"]
        return {word for word in container["args"] if "worker-" in word and not word.startswith("--image")}

    assert arguments() == set(), "nothing by default"
    assert arguments(secrets=["login", "a/store"], serviceAccounts=["wide"]) == {
        "--worker-secret=login",
        "--worker-secret=a/store",
        "--worker-service-account=wide",
    }
    assert arguments(template="Any") == {"--any-worker-template"}
    for wrong in ("../x", "a/b/c", "*", "A"):
        with pytest.raises(HelmFailed, match="'/worker/secrets/0'"):
            arguments(secrets=[wrong])


@pytest.mark.parametrize("mode", MODES)
def test_secrets_are_read_one_by_one(release: Release, mode: str) -> None:
    found = granted(release, MODES[mode])
    assert {verb for rights in found.values() for _, what, verb in rights if what == "secrets"} == {"get"}
    everywhere = {what for _, what, _ in found.get("*", ())}
    assert ("secrets" in everywhere) is (mode == "of the cluster")


def test_no_roles_are_created_for_users_who_create_their_own(release: Release) -> None:
    made = {manifest["kind"] for manifest in release.manifests({"rbac": {"create": False}})}
    assert not made & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}


@pytest.mark.parametrize(
    ("account", "called"),
    [
        ({}, "cooperator"),
        ({"name": "op"}, "op"),
        ({"create": False, "name": "op"}, "op"),
        ({"create": False}, "default"),
    ],
)
def test_roles_are_bound_to_the_operators_account(release: Release, account: Any, called: str) -> None:
    values = {"serviceAccount": account}
    assert granted(release, values)["home"] == OWN | NAMESPACE | SECRET
    assert release.operator_pod(values)["spec"]["serviceAccountName"] == called
    made = [m["metadata"]["name"] for m in release.manifests(values) if m["kind"] == "ServiceAccount"]
    assert made == ([called] if account.get("create", True) else [])


def test_only_the_operator_s_own_pods_have_its_token(release: Release) -> None:
    assert release.one("ServiceAccount")["automountServiceAccountToken"] is False
    assert release.operator_pod()["spec"]["automountServiceAccountToken"] is True
    assert release.one("Pod")["spec"]["automountServiceAccountToken"] is False


# --- the code --------------------------------------------------------------------------------------------


def calls() -> Iterator[Right]:
    """The requests in the controller's code, with the kind where the code names it."""
    for path in sorted(CODE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=method, value=ast.Name(id=of) | ast.Attribute(attr=of)),
                    args=[ast.Name(id=name), *more],
                ) if of in ("api", "_api") and name in KINDS:
                    kind = KINDS[name]
                    part = [
                        str(each.value) for each in more if isinstance(each, ast.Constant) and method != "get"
                    ]
                    for verb in VERBS[method] - ({"create"} if part else set()):
                        yield kind.group, "/".join([kind.plural, *part]), verb


def test_every_request_of_the_code_is_granted() -> None:
    asked = set(calls())
    assert {("", "pods", "delete"), ("", "pods/status", "patch"), ("", "secrets", "get")} <= asked
    assert asked <= CLUSTER | NAMESPACE | SECRET | OWN | REST | REVIEW | TLS


def test_watched_kinds_may_be_listed_and_watched() -> None:
    watched = [api.WORKERS, api.CONNECTORS, api.PODS]
    assert {(k.group, k.plural, verb) for k in watched for verb in ("list", "watch")} <= NAMESPACE
    assert {("", "nodes", verb) for verb in ("list", "watch")} <= CLUSTER


def test_no_right_is_granted_that_the_code_does_not_use() -> None:
    ours = {(kind.group, kind.plural) for kind in KINDS.values()}
    # kopf looks for the resource definition of each watched kind.
    of_kopf = {("apiextensions.k8s.io", "customresourcedefinitions")}
    everything = CLUSTER | NAMESPACE | SECRET | OWN | REST | REVIEW | TLS
    assert {(group, resource.partition("/")[0]) for group, resource, _ in everything} == ours | of_kopf
    assert not [right for right in everything if "*" in right]
    assert not {verb for _, _, verb in everything} & {"deletecollection", "escalate", "bind", "impersonate"}


def test_cluster_scoped_objects_are_only_read() -> None:
    assert {verb for _, _, verb in CLUSTER} <= {"get", "list", "watch"}
