"""The chart's quick start: the objects of `examples/quickstart`, and what they need on an empty cluster."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from cooperator.artifacts.bundles import KAFKA_VERSION
from cooperator.crd import parse
from tests.charts.rendered import OPERATOR, ROOT, Release, pods, selects
from tests.charts.test_restricted import assert_restricted
from tests.kubernetes.helm import run_helm

ON: dict[str, Any] = {"quickstart": {"enabled": True}}
EXAMPLES = ROOT / "examples" / "quickstart"
OURS = {"Worker", "Connector"}


def of_hook(release: Release, hook: str) -> dict[str, Any]:
    found = [
        m for m in release.manifests(ON) if m["metadata"].get("annotations", {}).get("helm.sh/hook") == hook
    ]
    return {manifest["kind"]: manifest for manifest in found}


def test_the_pipelines_are_those_that_a_user_would_apply_by_hand(release: Release) -> None:
    by_hand = [each for path in EXAMPLES.glob("*.yaml") for each in yaml.safe_load_all(path.read_text())]
    made = [manifest for manifest in release.manifests(ON) if manifest["kind"] in OURS]
    assert len(made) == 3
    for manifest in made:
        metadata = manifest["metadata"]
        assert metadata.pop("namespace") == "home"
        assert metadata.pop("labels")
        if manifest["kind"] == "Worker":
            assert manifest["spec"].pop("bootstrapServers") == "cooperator-kafka.home.svc:9092"
    key = str
    assert sorted(made, key=key) == sorted(by_hand, key=key)


def test_the_spec_of_its_worker_can_be_changed(release: Release) -> None:
    worker = {"replicas": 1, "spark": {"heapMb": 512}, "imagePullPolicy": "Never"}
    made = release.one("Worker", {"quickstart": {"enabled": True, "worker": worker}})
    assert made["spec"].items() >= worker.items()
    assert parse(yaml.safe_dump(made), "worker.yaml")


def test_a_package_brings_the_definitions_only_for_the_quick_start(tmp_path: Path, release: Release) -> None:
    run_helm("package", str(OPERATOR), "--destination", str(tmp_path))
    [archive] = tmp_path.iterdir()
    with tarfile.open(archive) as members:
        definitions = [member for member in members if "/crds/" in member.name]
        assert len(definitions) == 2
        assert all(member.isreg() for member in definitions)

    def kinds(*options: str) -> set[str]:
        text = run_helm("template", "cooperator", str(archive), "--include-crds", *options)
        return {manifest["kind"] for manifest in yaml.safe_load_all(text) if manifest}

    assert not kinds() & {"CustomResourceDefinition", *OURS}
    assert kinds("--set", "quickstart.enabled=true") >= {"CustomResourceDefinition", *OURS}


def test_its_pods_are_restricted_and_have_no_token_but_that_of_the_last_job(release: Release) -> None:
    found = [(kind, pod) for kind, pod in pods(release.manifests(ON)) if kind != "Worker"]
    assert {kind for kind, _ in found} == {"Deployment", "StatefulSet", "Pod", "Job"}
    for kind, pod in found:
        assert_restricted(pod["spec"])
        operators = "serviceAccountName" in pod["spec"]
        assert pod["spec"].get("automountServiceAccountToken", True) is operators, kind


def test_kafka_is_found_by_its_service(release: Release) -> None:
    kafka = release.one("StatefulSet", ON)
    [container] = kafka["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"apache/kafka:{KAFKA_VERSION}"
    services = [m for m in release.manifests(ON) if m["kind"] == "Service"]
    [service] = [each for each in services if each["metadata"]["name"] == "cooperator-kafka"]
    assert selects(service["spec"]["selector"], kafka["spec"]["template"])
    [operators] = [each for each in services if each is not service]
    assert not selects(operators["spec"]["selector"], kafka["spec"]["template"])


@pytest.mark.parametrize(("address", "said"), [("10.0.0.9", "10.0.0.9:9092"), ("fd00::9", "[fd00::9]:9092")])
def test_a_fixed_address_replaces_the_name(release: Release, address: str, said: str) -> None:
    values = {"quickstart": {"enabled": True, "kafka": {"clusterIP": address}}}
    assert release.one("Worker", values)["spec"]["bootstrapServers"] == said
    settings = [m["data"] for m in release.manifests(values) if m["kind"] == "ConfigMap"]
    assert f"PLAINTEXT://{said}," in settings[0]["server.properties"]


def test_an_uninstallation_first_deletes_its_objects_and_may_do_no_more(release: Release) -> None:
    hook = of_hook(release, "pre-delete")
    assert hook.keys() == {"ServiceAccount", "Role", "RoleBinding", "Job"}
    rules = hook["Role"]["rules"]
    assert [(rule["resources"], rule["resourceNames"], rule["verbs"]) for rule in rules] == [
        (["connectors"], ["copy", "oslo"], ["delete"]),
        (["workers"], ["lake"], ["delete"]),
    ]
    [container] = hook["Job"]["spec"]["template"]["spec"]["containers"]
    script, *names = container["args"]
    compile(script, "leave", "exec")
    assert names == ["home", "connectors/copy", "connectors/oslo", "workers/lake"], "the Worker is last"


def test_the_notes_of_the_quick_start_say_what_it_is_for_and_how_to_see_a_hold(release: Release) -> None:
    said = release.notes(ON)
    assert "FOR TRYING ONLY" in said
    assert "helm test cooperator --namespace home" in said
    assert "kubectl exec lake-0 --namespace home --container worker -- kill -9 -- -1" in said
    assert "IS EMPTY" not in said
    assert "not installed yet" not in said
