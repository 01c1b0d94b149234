"""Ownership of fields, from managedFields of an API server."""

from typing import Any

from cooperator.controller.rest_store import REST, foreign, refusal


def body(**managers: Any) -> dict[str, Any]:
    fields = [
        {"manager": manager, "fieldsV1": {"f:spec": {f"f:{name}": {} for name in names}}}
        for manager, names in managers.items()
    ]
    return {"metadata": {"managedFields": [*fields, {"manager": "x", "subresource": "status"}]}}


def test_fields_of_other_managers_are_foreign() -> None:
    found = body(helm=["class", "config"], kubectl=["config"])
    assert foreign(found, ["config", "state"]) == {"config": "helm"}
    assert foreign(found, ["state"]) == {}
    assert foreign({"metadata": {}}, ["config"]) == {}


def test_fields_set_by_the_rest_api_are_not_foreign() -> None:
    assert foreign(body(**{REST: ["config", "state"]}), ["config", "state"]) == {}
    both = body(**{REST: ["config"], "argocd-controller": ["config"]})
    assert foreign(both, ["config"]) == {"config": "argocd-controller"}


def test_a_refusal_names_field_and_manager() -> None:
    assert "spec.config by 'helm', spec.state by 'kubectl'" in refusal(
        "a", {"state": "kubectl", "config": "helm"}
    )
