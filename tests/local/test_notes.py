"""Fields that local members do not support are reported on apply."""

import json

import pytest

from cooperator.crd import parse
from cooperator.local.notes import without_effect


def notes(kind: str, **spec: object) -> list[str]:
    (resource,) = parse(
        f"apiVersion: cooperator.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {json.dumps(spec)}",
        "a.yaml",
    )
    return list(without_effect(resource))


@pytest.mark.parametrize(
    "spec",
    [{}, {"replicas": 3, "capacity": 2, "envAllowed": ["A"], "spark": {"heapMb": 512}, "restartNonce": "x"}],
)
def test_supported_fields_have_no_note(spec: dict[str, object]) -> None:
    assert notes("Worker", **spec) == []


def test_the_parts_of_pods_are_told_at_once() -> None:
    (note,) = notes("Worker", image="a", template={"spec": {"nodeSelector": {"a": "b"}}})
    assert note.startswith("spec.image, spec.template: for pods on Kubernetes")


def test_encryption_settings_get_a_note() -> None:
    (note,) = notes("Worker", kafka={"securityProtocol": "SSL"})
    assert "local members speak PLAINTEXT, not SSL" in note


def test_a_restart_nonce_gets_a_note_with_the_command() -> None:
    (note,) = notes("Connector", workerRef={"name": "w"}, **{"class": "noop"}, restartNonce="2")
    assert note.endswith("cooperator local restart a")
