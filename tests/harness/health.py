"""The health of a resource as GitOps tools compute it: Argo CD by the checks of the examples, and kstatus."""

import functools
import json
from pathlib import Path
from typing import Any, Final

import yaml
from lupa import LuaRuntime

CHECKS: Final = Path(__file__).parents[2] / "examples" / "gitops" / "argocd-cm.yaml"
AGREED: Final = {"Healthy": "Current", "Progressing": "InProgress", "Degraded": "Failed"}
"""Argo CD's health, and kstatus' word for the same."""


@functools.cache
def _script(kind: str) -> str:
    scripts: dict[str, str] = yaml.safe_load(CHECKS.read_text())["data"]
    return scripts[f"resource.customizations.health.cooperator.dev_{kind}"]


def argo_cd(kind: str, body: dict[str, Any]) -> tuple[str, str]:
    """The health and the message that Argo CD shows: it runs the script with the resource as ``obj``."""
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(body, recursive=True)
    health = lua.execute(_script(kind))
    return health.status, health.message


def kstatus(body: dict[str, Any]) -> str:
    """The status that kstatus (cli-utils) computes of a custom resource, apart from its deletion."""
    status = body.get("status", {})
    if status.get("observedGeneration", body["metadata"]["generation"]) != body["metadata"]["generation"]:
        return "InProgress"
    holds = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if holds.get("Reconciling") == "True":
        return "InProgress"
    if holds.get("Stalled") == "True":
        return "Failed"
    return "InProgress" if holds.get("Ready", "True") != "True" else "Current"


def check(kind: str, body: dict[str, Any]) -> tuple[str, str]:
    """Argo CD's health and message. Raises AssertionError if kstatus says something else, or if the health
    does not follow from the conditions."""
    health, message = argo_cd(kind, body)
    assert AGREED[health] == kstatus(body), (health, body)
    assert message, body
    status = body.get("status", {})
    holds = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    if status.get("observedGeneration") == body["metadata"]["generation"]:
        assert (health == "Degraded") == ("Stalled" in holds), body
        assert (health == "Healthy") == ("Ready" in holds and "Reconciling" not in holds), body
    return health, message


class Statuses:
    """Every different status of Workers and Connectors that a test has met, each checked once."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def meet(self, body: dict[str, Any]) -> None:
        """Raises as ``check`` does; other kinds are ignored."""
        if body.get("kind") not in ("Worker", "Connector"):
            return
        met = {"status": body.get("status", {}), "metadata": {"generation": body["metadata"]["generation"]}}
        text = json.dumps({**met, "kind": body["kind"]}, sort_keys=True)
        if text not in self._seen:
            self._seen.add(text)
            check(body["kind"], met)
