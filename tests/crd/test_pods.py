"""The fields of a Worker for its pods, its volume and its access to Kafka: parsed, refused, kept."""

import json
import re

import pytest

from cooperator.crd import (
    API_VERSION,
    ResourceError,
    SecurityProtocol,
    Worker,
    dump,
    forbidden_changes,
    from_object,
    parse,
)
from tests.crd.refusals import REFUSED, Refused


def worker(**spec: object) -> Worker:
    (made,) = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\n"
        f"spec: {json.dumps(spec)}\n",
        "lake.yaml",
    )
    assert isinstance(made, Worker)
    return made


def test_a_worker_configures_its_pods() -> None:
    spec = worker(
        image="registry:5000/cooperator",
        version="1.2.0",
        imagePullSecrets=["pull"],
        serviceAccountName="lake",
        resources={"requests": {"cpu": 2, "memory": "2Gi"}, "limits": {"memory": "2.5Gi"}},
        template={
            "metadata": {"labels": {"team": "data"}},
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "containers": [{"name": "worker", "env": [{"name": "REGION", "value": "eu"}]}],
            },
        },
        envAllowed=["REGION"],
        capacity=2,
        checkpointVolume={"claimName": "progress"},
        spark={"heapMb": 2048},
    ).spec

    assert spec.resources.requests == {"cpu": "2", "memory": "2Gi"}
    assert spec.template.spec["nodeSelector"] == {"disk": "fast"}
    assert (spec.env_allowed, spec.capacity, spec.spark.heap_mb) == (("REGION",), 2.0, 2048)
    assert (spec.zone_label, spec.pod_disruption_budget) == ("topology.kubernetes.io/zone", True)
    assert spec.checkpoint_root == "/checkpoints"


MOUNTED = {
    "spec": {"containers": [{"name": "worker", "volumeMounts": [{"name": "a", "mountPath": "/files"}]}]}
}


@pytest.mark.parametrize(
    "spec",
    [
        {"checkpointVolume": {"claimName": "progress"}},
        {"checkpointLocation": "s3a://lake/progress"},
        {"checkpointLocation": "/files/progress", "template": MOUNTED},
    ],
)
def test_executors_in_pods_need_checkpoints_that_they_can_reach(spec: dict[str, object]) -> None:
    assert worker(spark={"conf": {"spark.master": "k8s://a"}}, **spec).spec.spark.on_kubernetes


def test_with_an_executor_template_checkpoints_are_the_users_responsibility() -> None:
    conf = {"spark.master": "k8s://a", "spark.kubernetes.executor.podTemplateFile": "/own.yaml"}
    assert worker(spark={"conf": conf}, checkpointLocation="/progress").spec.spark.shapes_executors


def test_a_pod_template_round_trips_including_its_nulls() -> None:
    template = {"spec": {"securityContext": None, "tolerations": [{"operator": "Exists"}, None, 1.5]}}
    made = worker(template=template)

    assert parse(dump([made]), "dumped") == (made,)
    assert made.spec.template.spec == template["spec"]


@pytest.mark.parametrize(
    ("volume", "location", "root"),
    [
        (None, None, None),
        (None, "s3a://lake/progress", "s3a://lake/progress"),
        ({"claimName": "c", "mountPath": "/mnt/c"}, None, "/mnt/c"),
        ({"claimName": "c"}, "/checkpoints/lake", "/checkpoints/lake"),
        ({"claimName": "c"}, "/checkpoints/", "/checkpoints/"),
    ],
)
def test_the_location_of_checkpoints(volume: object, location: object, root: str | None) -> None:
    given = {"checkpointVolume": volume, "checkpointLocation": location}
    assert worker(**{key: value for key, value in given.items() if value}).spec.checkpoint_root == root


def test_kafka_security_with_user_name_password_and_certificates() -> None:
    kafka = worker(
        kafka={
            "securityProtocol": "SASL_SSL",
            "sasl": {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "user"}},
            "tls": {"caSecretRef": {"name": "ca"}},
        }
    ).spec.kafka

    assert kafka.security_protocol is SecurityProtocol.SASL_SSL
    assert kafka.sasl is not None
    assert (kafka.sasl.username_key, kafka.sasl.password_key) == ("username", "password")
    assert kafka.tls is not None
    assert kafka.tls.ca_secret_ref is not None
    assert (kafka.tls.ca_secret_ref.key, kafka.tls.verify_hostname) == ("ca.crt", True)
    assert worker().spec.kafka.security_protocol is SecurityProtocol.PLAINTEXT


@pytest.mark.parametrize("wrong", REFUSED, ids=str)
def test_refusals_name_field_and_remedy(wrong: Refused) -> None:
    body = {"apiVersion": API_VERSION, "kind": wrong.kind, "metadata": {"name": "lake"}, "spec": wrong.spec}
    with pytest.raises(ResourceError) as caught:
        parse(json.dumps(body), "lake.yaml")
    (problem,) = caught.value.problems
    assert problem.field.startswith(wrong.field)
    assert re.search(wrong.said, problem.message, re.DOTALL)
    with pytest.raises(ResourceError) as of_object:
        from_object(body)
    assert [p.message for p in of_object.value.problems] == [problem.message]


def test_the_volume_of_checkpoints_cannot_be_changed() -> None:
    before = worker(checkpointVolume={"claimName": "a"})

    (claim,) = forbidden_changes(before, worker(checkpointVolume={"claimName": "b"}))
    assert claim.startswith("spec.checkpointVolume.claimName cannot be changed from 'a' to 'b': it contains")
    assert len(forbidden_changes(before, worker())) == 2
    assert forbidden_changes(before, worker(checkpointVolume={"claimName": "a"}, version="2")) == ()
