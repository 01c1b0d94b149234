"""The manifests of the operator's chart, feature by feature."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest
import typer
import yaml

from cooperator.cli.app import program
from cooperator.controller.manifests.pods import Defaults, template
from cooperator.controller.names import WORKER_LABEL
from cooperator.crd import Worker
from cooperator.leader.tls import SERVER_NAME
from tests.charts.rendered import (
    CLUSTERWIDE,
    CRDS,
    EVERYTHING,
    MODES,
    NAMESPACED,
    OPERATOR,
    ROOT,
    Release,
    selects,
)
from tests.kubernetes.helm import HelmFailed

ALWAYS = {
    "ServiceAccount": 1,
    "ClusterRole": 1,
    "ClusterRoleBinding": 1,
    "Role": 2,
    "RoleBinding": 2,
    "Service": 1,
    "Deployment": 1,
    "Pod": 1,
}
OPTIONAL = {
    "podDisruptionBudget": ["PodDisruptionBudget"],
    "networkPolicy": ["NetworkPolicy"],
    "admissionPolicy": ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
    "serviceMonitor": ["ServiceMonitor"],
    "podMonitor": ["PodMonitor"],
    "prometheusRule": ["PrometheusRule"],
    "grafanaDashboard": ["ConfigMap"],
}


def a_member() -> Mapping[str, Any]:
    """A member's pod as the operator creates it."""
    worker = Worker.model_validate({"metadata": {"name": "lake", "namespace": "a"}, "spec": {"replicas": 1}})
    return template(worker, Defaults("cooperator-worker:1", "kafka:9092"))


def kinds(release: Release, values: Mapping[str, Any]) -> Counter[str]:
    return Counter(manifest["kind"] for manifest in release.manifests(values))


def test_optional_objects_are_absent_by_default(release: Release) -> None:
    assert kinds(release, {}) == ALWAYS


@pytest.mark.parametrize("feature", OPTIONAL)
def test_a_feature_adds_its_own_objects_only(release: Release, feature: str) -> None:
    assert kinds(release, {feature: {"enabled": True}}) == {**ALWAYS, **dict.fromkeys(OPTIONAL[feature], 1)}


def test_all_features_together(release: Release) -> None:
    assert kinds(release, EVERYTHING) == {**ALWAYS, **dict.fromkeys(chain(*OPTIONAL.values()), 1)}


@pytest.mark.parametrize("chart", [OPERATOR, CRDS], ids=lambda path: path.name)
def test_the_charts_have_the_version_of_the_program(chart: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"] == project["version"]


# --- the operator ----------------------------------------------------------------------------------------


def test_https_is_switched_on_by_a_secret_alone(release: Release) -> None:
    assert kinds(release, {"tls": {"secretName": "leader"}}) == ALWAYS
    plain, served = (release.operator_pod(values) for values in ({}, {"tls": {"secretName": "leader"}}))
    assert served != plain
    [container] = served["spec"]["containers"]
    [option] = [word for word in container["args"] if word.startswith("--tls-directory=")]
    [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == option.partition("=")[2]]
    assert mount["readOnly"]
    assert "subPath" not in mount, "renewals would not arrive"
    assert {"name": mount["name"], "secret": {"secretName": "leader"}} in served["spec"]["volumes"]
    assert "tls" not in str(plain)


def test_https_is_switched_on_by_an_issuer_of_cert_manager_alone(release: Release) -> None:
    issuer = {"name": "own-ca", "kind": "ClusterIssuer"}
    values: dict[str, Any] = {"tls": {"certManager": {"issuerRef": issuer}}}
    assert kinds(release, values) == {**ALWAYS, "Certificate": 1}
    certificate = release.one("Certificate", values)["spec"]
    assert certificate["issuerRef"] == issuer
    assert certificate["dnsNames"] == [SERVER_NAME, "*.home.svc", "*.home.svc.cluster.local"]
    secret = {"secretName": certificate["secretName"]}
    assert secret in [volume.get("secret") for volume in release.operator_pod(values)["spec"]["volumes"]]

    values["tls"] |= {"secretName": "leader"}
    values["tls"]["certManager"] |= {"dnsNames": ["lake-rest.a.svc"]}
    certificate = release.one("Certificate", {**CLUSTERWIDE, **values})["spec"]
    assert (certificate["secretName"], certificate["dnsNames"]) == (
        "leader",
        [SERVER_NAME, "lake-rest.a.svc"],
    )


@pytest.mark.parametrize(
    ("tls", "named"),
    [
        ({"secretName": "../x"}, "/tls/secretName"),
        ({"certManager": {"issuerRef": {"kind": "Issuer"}}}, "/tls/certManager/issuerRef"),
        ({"certManager": {"dnsNames": ["a b"]}}, "/tls/certManager/dnsNames/0"),
        ({"enabled": True}, "/tls"),
    ],
)
def test_malformed_values_of_tls_are_refused(release: Release, tls: Any, named: str) -> None:
    with pytest.raises(HelmFailed, match=named):
        release.manifests({"tls": tls})


def understood(arguments: list[str]) -> Mapping[str, Any]:
    """The program's parsed options. Raises click's errors."""
    command = typer.main.get_command(program())
    known = command.get_command(typer.Context(command), arguments[0])  # type: ignore[attr-defined]
    return dict(known.make_context(arguments[0], arguments[1:]).params)


@pytest.mark.parametrize(
    "values",
    [
        *MODES.values(),
        EVERYTHING,
        {"clusterName": "here", "leaderElection": {"leaseDurationMs": 600_000}},
    ],
)
def test_the_program_accepts_its_arguments(release: Release, values: Mapping[str, Any]) -> None:
    options = understood(release.operator_container(values)["args"])
    served = [] if values.get("clusterWide") else values.get("namespaces", ["home"])
    assert list(options["namespace"]) == served
    assert options["nodes"] is values.get("clusterRights", True)
    lease = values.get("leaderElection", {"leaseDurationMs": 15_000})
    assert options["leader_election_lease_duration_ms"] == lease["leaseDurationMs"]
    assert options["cluster"] == values.get("clusterName", "")
    assert options["bootstrap_servers"] == values.get("bootstrapServers", "")
    assert options["leader_election_lease_name"] == "cooperator"
    assert options["health_port"] == 8080


def test_metrics_by_otlp_are_switched_on_by_one_value(release: Release) -> None:
    secret = {"name": "collector", "key": "headers"}
    receiver = {"otlpEndpoint": "http://collector:4318", "headersSecret": secret}
    container = release.operator_container({"telemetry": receiver})
    assert understood(container["args"])["otlp_endpoint"] == "http://collector:4318"
    headers = {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": {"secretKeyRef": secret}}
    assert headers in container["env"]
    assert "OTEL_" not in str(release.operator_container())
    assert understood(release.operator_container()["args"])["otlp_endpoint"] == ""


def test_more_arguments_come_last(release: Release) -> None:
    arguments = release.operator_container(
        {"extraArgs": ["--listen=::", "--leader-election-lease-duration-ms=20000"]}
    )["args"]
    options = understood(arguments)
    assert (options["listen"], options["leader_election_lease_duration_ms"]) == ("::", 20_000)
    with pytest.raises(Exception, match="No such option"):
        understood([*arguments, "--no-such-thing"])


def test_images_have_the_charts_version_by_default(release: Release) -> None:
    version = yaml.safe_load((OPERATOR / "Chart.yaml").read_text())["appVersion"]
    digest = "sha256:" + "ab" * 32

    def images(**values: Any) -> tuple[str, str]:
        container = release.operator_container(values)
        return container["image"], container["args"][1]

    assert images() == (f"cooperator-operator:{version}", f"--image=cooperator-worker:{version}")
    ours = {"repository": "registry.example:5000/op", "tag": "7"}
    theirs = {"image": "registry.example/worker", "tag": "8"}
    assert images(image=ours, worker=theirs) == (
        "registry.example:5000/op:7",
        "--image=registry.example/worker:8",
    )
    pinned = images(image={**ours, "digest": digest}, worker={**theirs, "digest": digest})
    assert pinned == (f"registry.example:5000/op@{digest}", f"--image=registry.example/worker@{digest}")


def test_settings_of_the_pod_reach_it(release: Release) -> None:
    taint = {"key": "dedicated", "operator": "Exists"}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    options = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [taint],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [spread],
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
    }
    pod = release.operator_pod(
        {
            **options,
            "podLabels": {"team": "lakes"},
            "podAnnotations": {"note": "1"},
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "resources": {"limits": {"cpu": 2}},
            "podSecurityContext": {"runAsUser": 1000650000},
        }
    )
    assert {name: pod["spec"][name] for name in options} == options
    assert pod["metadata"]["labels"]["team"] == "lakes"
    assert pod["metadata"]["annotations"] == {"note": "1"}
    assert {"name": "TZ", "value": "UTC"} in pod["spec"]["containers"][0]["env"]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": 2, "memory": "1Gi"}
    assert pod["spec"]["securityContext"]["runAsUser"] == 1000650000


def test_probes_request_a_path_that_the_operator_serves(release: Release) -> None:
    container = release.operator_container()
    [port] = container["ports"]
    assert port["containerPort"] == 8080
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": port["name"]}


def test_the_selector_of_the_deployment_never_changes(release: Release) -> None:
    # Selectors are immutable: another one would make `helm upgrade` fail.
    assert release.one("Deployment")["spec"]["selector"]["matchLabels"] == {
        "app.kubernetes.io/name": "cooperator",
        "app.kubernetes.io/instance": "cooperator",
        "app.kubernetes.io/component": "operator",
    }


@pytest.mark.parametrize("kind", ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"])
def test_selectors_match_the_operators_pods_only(release: Release, kind: str) -> None:
    spec = release.one(kind, EVERYTHING)["spec"]
    selector = spec["podSelector"] if kind == "NetworkPolicy" else spec["selector"]
    labels = selector.get("matchLabels", selector)
    assert selects(labels, release.operator_pod(EVERYTHING))
    assert not selects(labels, release.one("Pod", EVERYTHING))
    assert not selects(labels, a_member())
    other = Release(name="second")
    assert not selects(labels, other.operator_pod(EVERYTHING))


# --- what is around it -----------------------------------------------------------------------------------


def test_the_service_leads_to_health_and_metrics(release: Release) -> None:
    [port] = release.one("Service")["spec"]["ports"]
    assert port["targetPort"] in {each["name"] for each in release.operator_container()["ports"]}
    assert (port["name"], port["port"]) == ("health", 8080)


def test_the_operator_is_scraped_through_its_service(release: Release) -> None:
    monitor = release.one("ServiceMonitor", {"serviceMonitor": {"enabled": True, "labels": {"release": "p"}}})
    service = release.one("Service")
    assert monitor["metadata"]["labels"]["release"] == "p"
    assert selects(monitor["spec"]["selector"]["matchLabels"], service)
    assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]]
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    # `namespace` is a label of the metrics themselves: a Worker's, not the operator's.
    assert endpoint["honorLabels"] is True


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, {"matchNames": ["home"]}),
        (CLUSTERWIDE, {"any": True}),
        (NAMESPACED, {"matchNames": ["a", "b"]}),
    ],
)
def test_members_are_scraped_in_their_namespaces(release: Release, values: Any, where: Any) -> None:
    spec = release.one("PodMonitor", {**values, "podMonitor": {"enabled": True}})["spec"]
    assert spec["selector"] == {"matchExpressions": [{"key": WORKER_LABEL, "operator": "Exists"}]}
    assert spec["namespaceSelector"] == where
    endpoint, of_stock_workers = spec["podMetricsEndpoints"]
    assert of_stock_workers == {**endpoint, "port": "metrics"}
    member = a_member()
    assert endpoint["port"] in {port["name"] for port in member["spec"]["containers"][0]["ports"]}
    assert WORKER_LABEL in member["metadata"]["labels"]
    [relabeling] = endpoint["relabelings"]
    known_to_prometheus = "__meta_kubernetes_pod_label_" + WORKER_LABEL.translate(str.maketrans("./", "__"))
    assert relabeling == {"sourceLabels": [known_to_prometheus], "targetLabel": "worker"}


@pytest.mark.parametrize("mode", ["by default", "of the cluster", "of namespaces"])
def test_members_reach_their_leaders_and_others_only_the_health_port(release: Release, mode: str) -> None:
    values = MODES[mode]
    spec = release.one("NetworkPolicy", {**values, "networkPolicy": {"enabled": True}})["spec"]
    assert spec["policyTypes"] == ["Ingress"], "egress is unrestricted"
    everybody, members = spec["ingress"]
    assert everybody == {"ports": [{"port": "health", "protocol": "TCP"}]}
    [who] = members["from"]
    assert who["podSelector"] == {"matchExpressions": [{"key": WORKER_LABEL, "operator": "Exists"}]}
    served = values.get("namespaces", ["home"])
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": served}
    everywhere = values.get("clusterWide", False)
    assert who["namespaceSelector"] == ({} if everywhere else {"matchExpressions": [names]})
    assert members["ports"] == [{"protocol": "TCP", "port": 1024, "endPort": 65535}]


def test_callers_of_the_rest_api_are_those_that_are_named(release: Release) -> None:
    def admitted(*clients: Any) -> list[Any]:
        rest = {"enabled": True, "clients": list(clients)}
        values = {"networkPolicy": {"enabled": True}, "rest": rest}
        found: list[Any] = release.one("NetworkPolicy", values)["spec"]["ingress"]
        return found

    everybody, members = admitted()
    assert everybody["ports"] == [{"port": "health", "protocol": "TCP"}], "nobody else at the other ports"
    assert members["from"], "an empty or missing `from` would admit everybody"
    client = {"podSelector": {"matchLabels": {"app": "deployer"}}}
    [*others, callers] = admitted(client)
    assert others == [everybody, members]
    assert callers == {"from": [client], "ports": [{"protocol": "TCP", "port": 1024, "endPort": 65535}]}


def test_helm_test_sends_its_request_through_the_service(release: Release) -> None:
    pod = release.one("Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    [container] = pod["spec"]["containers"]
    assert container["image"] == release.operator_container()["image"]
    service = release.one("Service")["metadata"]
    [script] = container["args"]
    compile(script, "helm test", "exec")
    assert f"{service['name']}.{service['namespace']}" in script
    # The variable by which the kubelet names that Service to a pod.
    assert f'"{service["name"].upper().replace("-", "_")}_SERVICE_HOST"' in script
    assert ":8080/healthz" in script


# --- releases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "called"),
    [("lakes", "lakes-cooperator"), ("my-cooperator", "my-cooperator"), ("a" * 53, "a" * 50)],
)
def test_objects_are_named_after_the_release(release: Release, name: str, called: str) -> None:
    other = Release(name=name)
    assert other.one("Deployment", EVERYTHING)["metadata"]["name"] == called
    assert all(len(manifest["metadata"]["name"]) <= 63 for manifest in other.manifests(EVERYTHING))


@pytest.mark.parametrize("name", ["1st", "lakes.north"])
def test_a_release_whose_name_no_service_can_have_is_refused(release: Release, name: str) -> None:
    with pytest.raises(HelmFailed, match=f'the release is called "{name}", .* a letter and has no dots'):
        Release(name=name).manifests()


def names(release: Release, values: Any, clusterwide: bool) -> set[tuple[str, ...]]:
    return {
        (manifest["kind"], metadata.get("namespace", ""), metadata["name"])
        for manifest in release.manifests(values)
        if ("namespace" not in (metadata := manifest["metadata"])) is clusterwide
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("cooperator", "a"), ("cooperator", "b")),
        (("one", "a"), ("two", "a")),
        # The same letters, split elsewhere.
        (("b-cooperator", "a"), ("cooperator", "a-b")),
    ],
)
@pytest.mark.parametrize("values", [EVERYTHING, {**EVERYTHING, "namespaces": ["a", "b", "a-b"]}])
def test_two_releases_share_no_name(release: Release, one: Any, other: Any, values: Any) -> None:
    first, second = (Release(*words) for words in (one, other))
    for clusterwide in (True, False):
        assert names(first, values, clusterwide), "the release has names to compare"
        assert not names(first, values, clusterwide) & names(second, values, clusterwide)


# --- notes -----------------------------------------------------------------------------------------------


def test_the_notes_say_what_is_missing_and_what_comes_next(release: Release) -> None:
    said = release.notes()
    assert "serves the namespace home." in said
    assert "serves all namespaces." in release.notes(CLUSTERWIDE)
    assert "helm install cooperator-crds" in said
    assert "bootstrapServers IS EMPTY" in said
    assert "helm test cooperator --namespace home" in said
    assert "kind: Worker" in said


def test_the_notes_are_short_when_nothing_is_missing(release: Release) -> None:
    said = release.notes({**NAMESPACED, "bootstrapServers": "kafka:9092"})
    assert "serves the namespaces a, b." in said
    assert "IS EMPTY" not in said
    assert "kubectl apply --namespace a" in said
