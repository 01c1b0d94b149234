"""Pods of members whose Spark makes its executors as pods: what they get for it, and what executors get."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cooperator.controller.manifests.executors import TEMPLATE, refusal
from cooperator.controller.manifests.pods import Defaults, pod_manifest, revision
from cooperator.crd import Worker, from_object

EXAMPLE = Path(__file__).parents[2] / "examples" / "recipes" / "executors" / "executors.yaml"
DEFAULTS = Defaults("registry.example/cooperator:1.0", "kafka:9092")


def example(conf: dict[str, Any] | None = None, **spec: Any) -> Worker:
    """The example's Worker, with changes."""
    *_, body = yaml.safe_load_all(EXAMPLE.read_text())
    body["spec"] |= spec
    body["spec"]["spark"]["conf"] |= conf or {}
    body["metadata"]["namespace"] = "data"
    found = from_object(body)
    assert isinstance(found, Worker)
    return found


def pod_of(worker: Worker) -> dict[str, Any]:
    return pod_manifest(worker, DEFAULTS, f"{worker.metadata.name}-0", "r1")


def conf_of(pod: dict[str, Any]) -> dict[str, str]:
    words = pod["spec"]["containers"][0]["args"]
    settings = [word.removeprefix("--spark-conf=") for word in words if word.startswith("--spark-conf=")]
    assert len({setting.partition("=")[0] for setting in settings}) == len(settings), "each is said once"
    return dict(setting.split("=", 1) for setting in settings)


def executor_of(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pod["metadata"]["annotations"][TEMPLATE])
    return found


def test_a_driver_is_told_where_it_is_and_what_executors_are_made_of() -> None:
    conf = conf_of(pod_of(example(imagePullSecrets=["pull", "more"], imagePullPolicy="Always")))
    assert conf.items() >= {
        ("spark.master", "k8s://https://kubernetes.default.svc"),
        ("spark.driver.host", "$(POD_IP)"),
        ("spark.kubernetes.driver.pod.name", "$(POD_NAME)"),
        ("spark.kubernetes.namespace", "data"),
        ("spark.kubernetes.container.image", "registry.example/cooperator:1.0"),
        ("spark.kubernetes.container.image.pullPolicy", "Always"),
        ("spark.kubernetes.container.image.pullSecrets", "pull,more"),
    }


def test_the_users_executor_settings_take_precedence() -> None:
    own = {
        "spark.driver.host": "10.0.0.1",
        "spark.kubernetes.namespace": "batch",
        "spark.kubernetes.container.image": "registry.example/own:2",
        "spark.kubernetes.executor.podTemplateFile": "/own/pod.yaml",
    }
    assert conf_of(pod_of(example(own))).items() >= own.items()


def test_the_driver_reads_the_executors_template_as_a_file_in_its_pod() -> None:
    pod = pod_of(example())
    folder, _, name = conf_of(pod)["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    (mount,) = [m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == folder]
    (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == mount["name"]]
    (item,) = volume["downwardAPI"]["items"]
    assert item == {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['{TEMPLATE}']"}}


def test_an_executor_is_like_its_member_and_no_member() -> None:
    template = {
        "metadata": {"labels": {"team": "data"}, "annotations": {"example.com/cost": "7"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [{"name": "first", "image": "first:1"}],
            "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "lake-files"}}],
            "containers": [
                {
                    "name": "worker",
                    "env": [{"name": "REGION", "value": "$(north)"}],
                    "envFrom": [{"secretRef": {"name": "store"}}],
                    "volumeMounts": [{"name": "files", "mountPath": "/files"}],
                },
                {"name": "log", "image": "log:1"},
            ],
        },
    }
    pod = pod_of(example(template=template, zoneLabel="zone"))
    made = executor_of(pod)
    member, (container,) = pod["spec"]["containers"][0], made["spec"]["containers"]
    for same in ("nodeSelector", "tolerations", "securityContext"):
        assert made["spec"][same] == pod["spec"][same]
    assert container["securityContext"] == member["securityContext"]
    assert container["envFrom"] == member["envFrom"]
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert paths == {"/state", "/tmp", "/checkpoints", "/files"}
    assert {volume["name"] for volume in made["spec"]["volumes"]} == {"state", "tmp", "checkpoints", "files"}
    assert {v["name"]: v["value"] for v in container["env"]} == {"HOME": "/state", "REGION": "$(north)"}

    labels = made["metadata"]["labels"]
    assert labels["team"] == "data"
    assert labels["app.kubernetes.io/component"] == "executor"
    assert not [name for name in labels if name.startswith("cooperator.dev/")], "nobody counts it as a member"
    assert made["metadata"]["annotations"].keys() >= {"example.com/cost"}
    assert TEMPLATE not in made["metadata"]["annotations"]
    assert made["spec"].keys().isdisjoint({"readinessGates", "topologySpreadConstraints", "initContainers"})


def test_the_token_is_for_drivers_that_make_pods_alone() -> None:
    assert pod_of(example())["spec"]["automountServiceAccountToken"] is True
    assert executor_of(pod_of(example()))["spec"]["automountServiceAccountToken"] is False
    elsewhere = pod_of(example({"spark.master": "spark://spark:7077"}))
    assert elsewhere["spec"]["automountServiceAccountToken"] is False
    assert TEMPLATE not in elsewhere["metadata"]["annotations"]
    assert not [name for name in conf_of(elsewhere) if name.startswith("spark.kubernetes.")]


def test_an_upgrade_of_the_operator_does_not_replace_these_members_either() -> None:
    assert revision(example(), DEFAULTS, {}) == revision(example(), Defaults("registry.example/a:2"), {})


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (example(), ""),
        (example({"spark.master": "local[4]"}, serviceAccountName=None), ""),
        (
            example(
                {"spark.kubernetes.authenticate.oauthTokenFile": "/token"},
                serviceAccountName=None,
            ),
            "",
        ),
        (
            example(serviceAccountName=None),
            "spec.serviceAccountName is not set, but spec.spark.conf[spark.master] is "
            "'k8s://https://kubernetes.default.svc': members make executors with the rights of a "
            "ServiceAccount of theirs; name one that has the Role of examples/recipes/executors",
        ),
    ],
)
def test_members_without_rights_are_refused_with_the_field_and_the_remedy(worker: Worker, said: str) -> None:
    assert refusal(worker) == said
