"""What Workers say of their pods, their volume and their way to Kafka: read, refused, kept."""

import json
import re

import pytest

from cooperator.crd import ResourceError, SecurityProtocol, Worker, dump, forbidden_changes, parse


def worker(**spec: object) -> Worker:
    (made,) = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\n"
        f"spec: {json.dumps(spec)}\n",
        "lake.yaml",
    )
    assert isinstance(made, Worker)
    return made


def test_a_worker_says_all_of_its_pods() -> None:
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


def test_a_pod_template_comes_back_as_it_was_written_also_its_nulls() -> None:
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
def test_where_checkpoints_are(volume: object, location: object, root: str | None) -> None:
    given = {"checkpointVolume": volume, "checkpointLocation": location}
    assert worker(**{key: value for key, value in given.items() if value}).spec.checkpoint_root == root


def test_kafka_with_name_password_and_certificates() -> None:
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


SASL = {"mechanism": "PLAIN", "secretRef": {"name": "user"}}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("image", "a b", r"image is 'a b': name an image, such as"),
        ("version", "1.0/x", r"version is '1\.0/x': use an image tag"),
        ("imagePullPolicy", "Sometimes", r"must be 'Always', 'IfNotPresent' or 'Never'"),
        ("imagePullSecrets", ["A_b"], r"imagePullSecrets\.0 is 'A_b': use 1 to 253 lower-case"),
        ("imagePullSecrets", ["a", "a"], r"imagePullSecrets: has 'a' twice: remove one"),
        ("resources", {"requests": {"cpu": 0.5}}, r"requests\.cpu is 0\.5, .* '0\.5' .*in quotes"),
        ("resources", {"limits": {"memory": "2 GB"}}, r"limits\.memory is '2 GB', but must be a quantity"),
        ("resources", {"limits": {"memory": True}}, r"limits\.memory is no number"),
        ("resources", {"limits": {"a b": 1}}, r"limits: has 'a b': name a resource"),
        ("envAllowed", ["1A"], r"envAllowed\.0 is '1A': name an environment variable"),
        ("envAllowed", [f"A{n}" for n in range(101)], r"envAllowed has more than 100 entries: remove some"),
        ("capacity", 0, r"capacity is 0, but must be at least 0\.001"),
        ("zoneLabel", "a b", r"zoneLabel is 'a b': name a label"),
        ("restartNonce", "x" * 254, r"must be at most 253 characters long"),
        ("spark", {"heapMb": 10}, r"spark\.heapMb is 10, but must be at least 256"),
        ("checkpointVolume", {}, r"checkpointVolume\.claimName is missing: add it"),
        ("checkpointVolume", {"claimName": "c", "mountPath": "a/b"}, r"mountPath is 'a/b': use an absolute"),
        ("checkpointVolume", {"claimName": "c", "mountPath": "/a/.."}, r"use an absolute path"),
        ("template", {"metadata": {"labels": {"a": "b c"}}}, r"labels: has 'a': 'b c', which is no label"),
        ("template", {"metadata": {"annotations": {"cooperator.dev/x": ""}}}, r"written by the operator"),
        ("template", {"spec": {"containers": {}}}, r"containers is no list"),
        ("template", {"spec": {"containers": [{"image": "a"}]}}, r"containers has an entry without a name"),
        ("template", {"spec": {"containers": [{"name": "log"}]}}, r"'log' without an image: add it, or"),
        (
            "template",
            {"spec": {"containers": [{"name": "a", "image": "i"}] * 2}},
            r"containers has 'a' twice: keep one",
        ),
        (
            "template",
            {"spec": {"containers": [{"name": "worker", "image": "other"}]}},
            r"image in the container 'worker', which is set by spec\.image: remove it",
        ),
        (
            "template",
            {"spec": {"terminationGracePeriodSeconds": 5}},
            r"terminationGracePeriodSeconds, which is set by spec\.drainTimeoutSeconds",
        ),
        ("kafka", {"securityProtocol": "SASL_SSL"}, r"needs a name and a password: add sasl: \{mechanism"),
        (
            "kafka",
            {"securityProtocol": "SSL", "sasl": SASL},
            r"remove sasl, or set securityProtocol: SASL_SSL",
        ),
        ("kafka", {"sasl": SASL}, r"remove sasl, or set securityProtocol: SASL_PLAINTEXT"),
        ("kafka", {"tls": {}}, r"does not encrypt: remove tls, or set securityProtocol: SSL"),
        ("kafka", {"securityProtocol": "SASL_PLAINTEXT", "sasl": SASL, "tls": {}}, r"Protocol: SASL_SSL$"),
        ("kafka", {"sasl": {**SASL, "passwordKey": "a b"}}, r"passwordKey is 'a b': name a key"),
    ],
)
def test_refusals_name_field_value_and_remedy(field: str, value: object, said: str) -> None:
    with pytest.raises(ResourceError) as caught:
        worker(**{field: value})
    (problem,) = caught.value.problems
    assert problem.field.startswith(f"spec.{field}")
    assert re.search(said, problem.message, re.DOTALL)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"image": "a:1", "version": "2"}, r"image \(a:1\) has a tag or digest already.*remove"),
        ({"image": "r/a@sha256:0", "version": "2"}, r"has a tag or digest already"),
        (
            {"checkpointVolume": {"claimName": "c"}, "checkpointLocation": "/checkpoints-2"},
            r"checkpointLocation \(/checkpoints-2\) is not below checkpointVolume\.mountPath",
        ),
        (
            {"checkpointVolume": {"claimName": "c"}, "checkpointLocation": "/checkpoints/../a"},
            r"is not below",
        ),
        ({"checkpointVolume": {"claimName": "c"}, "checkpointLocation": "s3a://b/c"}, r"is not below"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(spec: dict[str, object], said: str) -> None:
    with pytest.raises(ResourceError, match=said):
        worker(**spec)


def test_the_volume_of_checkpoints_stays() -> None:
    before = worker(checkpointVolume={"claimName": "a"})

    (claim,) = forbidden_changes(before, worker(checkpointVolume={"claimName": "b"}))
    assert claim.startswith("spec.checkpointVolume.claimName cannot be changed from 'a' to 'b': the progress")
    assert len(forbidden_changes(before, worker())) == 2
    assert forbidden_changes(before, worker(checkpointVolume={"claimName": "a"}, version="2")) == ()
