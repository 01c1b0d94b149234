"""Objects as an API server returns them: fields of the server are ignored, users' mistakes are reported."""

import re
from types import MappingProxyType
from typing import Any

import pytest

from cooperator.crd import Connector, ResourceError, Worker, from_object


def worker(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {
            "name": "lake",
            "namespace": "data",
            "uid": "0b1e",
            "generation": 3,
            "resourceVersion": "812",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z",
            "deletionGracePeriodSeconds": 0,
            "finalizers": ["cooperator.dev/clean-end"],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            "ownerReferences": [{"kind": "App", "name": "a", "uid": "1", "apiVersion": "v1"}],
            "labels": {"team": "data"},
        },
        "spec": spec,
        "status": {"replicas": 3, "conditions": []},
    }


def refusal(body: dict[str, Any]) -> str:
    with pytest.raises(ResourceError) as caught:
        from_object(body)
    return "\n".join(problem.message for problem in caught.value.problems)


def test_fields_added_by_the_server_are_ignored() -> None:
    lake = from_object(worker(replicas=3))

    assert isinstance(lake, Worker)
    assert (lake.metadata.namespace, lake.metadata.name, lake.spec.replicas) == ("data", "lake", 3)
    assert (lake.metadata.uid, lake.metadata.generation, lake.metadata.resource_version) == ("0b1e", 3, "812")
    assert lake.metadata.deletion_timestamp == "2026-01-02T00:00:00Z"
    assert lake.metadata.labels == {"team": "data"}


def test_any_mapping_is_accepted() -> None:
    body = worker(replicas=2, template={"spec": {"tolerations": ({"operator": "Exists"},)}})
    frozen = MappingProxyType({**body, "spec": MappingProxyType(body["spec"])})

    lake = from_object(frozen)

    assert isinstance(lake, Worker)
    assert lake.spec.template.spec == {"tolerations": [{"operator": "Exists"}]}


def test_settings_may_be_numbers_and_booleans() -> None:
    body = {
        **worker(workerRef={"name": "lake"}, config={"rows": 3, "header": True}),
        "kind": "Connector",
    }
    body["spec"]["class"] = "files-to-kafka"

    made = from_object(body)

    assert isinstance(made, Connector)
    assert made.spec.config == {"rows": "3", "header": "true"}


def test_fields_of_a_newer_version_are_ignored() -> None:
    body = worker(replicas=2, surge={"max": 1}, rollout={"strategy": "Drain", "pause": "1h"})

    lake = from_object(body)

    assert isinstance(lake, Worker)
    assert (lake.spec.replicas, lake.spec.rollout.strategy) == (2, "Drain")
    assert "surge" in body["spec"], "the caller's object stays unchanged"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (worker(replicas="three"), r"spec\.replicas is 'three', but must be a whole number"),
        (worker(surge=1, replicas=-1), r"^spec\.replicas is -1, but must be at least 0[^\n]*$"),
        (worker(surge=1, leaseMs=5), r"leaseMs \(5\) is not greater than"),
        ({**worker(), "kind": "Wrker"}, r"kind is 'Wrker': did you mean 'Worker'\?"),
        ({**worker(), "apiVersion": "cooperator.dev/v2"}, r"apiVersion is 'cooperator\.dev/v2', but must be"),
        ({**worker(), "spec": None}, r"spec is empty, but must be a mapping"),
        ({}, r"apiVersion is missing"),
    ],
)
def test_errors_are_those_of_a_manifest(body: dict[str, Any], said: str) -> None:
    assert re.search(said, refusal(body))
