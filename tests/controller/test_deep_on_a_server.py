"""A real API server takes objects that Python's parsers do not: others are served beside them."""

import json
from collections.abc import Iterator

import pytest

from tests.harness.installation import RESOURCES, Installation

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

MARK = '"@"'
LEVELS = (600, 3_000)
"""kopf gives up near 480, Python's parser near 1,000; the API server's beyond 10,000."""


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def objects(namespace: str) -> Iterator[tuple[str, str]]:
    """Plural and text of objects that have ``MARK`` at a place for any value."""
    metadata = {"namespace": namespace}
    spec = {"workerRef": {"name": "none"}, "class": "noop"}
    connector = {"apiVersion": "cooperator.dev/v1alpha1", "kind": "Connector"}
    worker = {"apiVersion": "cooperator.dev/v1alpha1", "kind": "Worker"}
    for name, body in {
        "connectors": {**connector, "metadata": metadata, "spec": {**spec, "config": {"x": "@"}}},
        "workers": {**worker, "metadata": metadata, "spec": {"template": {"spec": {"x": "@"}}}},
    }.items():
        yield name, json.dumps(body)


def test_others_are_served_beside_an_object_of_any_depth(installation: Installation) -> None:
    path = f"{RESOURCES}/{installation.namespace}"

    def create(name: str, levels: int) -> None:
        for plural, text in objects(installation.namespace):
            body = text.replace('"metadata": {', f'"metadata": {{"name": "{name}", ').replace(
                MARK, deep(levels)
            )
            installation.cluster.api._send("POST", f"{path}/{plural}", body.encode(), "application/json", 30)

    def told(plural: str, name: str) -> str:
        # The object is too deep for the test's own parser, too.
        return installation.cluster.kubectl(
            *("get", plural, name, "-n", installation.namespace),
            *("-o", "jsonpath={.status.conditions[?(@.type=='Ready')].message}"),
        )

    for levels in LEVELS:
        create(f"listed-{levels}", levels)
    operator = installation.operator()
    installation.eventually(lambda: "Initial authentication has finished" in operator.log.read_text(), 60)
    for levels in LEVELS:
        create(f"watched-{levels}", levels)
    installation.connector("healthy", worker="missing")
    for name in [f"{when}-{levels}" for when in ("listed", "watched") for levels in LEVELS]:
        for plural in ("connectors", "workers"):
            installation.eventually(
                lambda p=plural, n=name: "nested more than 64 deep: remove the innermost" in told(p, n), 60
            )
            installation.cluster.api._send("DELETE", f"{path}/{plural}/{name}", b"", "application/json", 30)
    installation.eventually(
        lambda: installation.condition("connectors", "healthy", "WorkerFound")["status"] == "False", 60
    )
    assert operator.child.poll() is None
    installation.eventually(lambda: len(installation.cluster.api.get(f"{path}/connectors")["items"]) == 1)
    installation.eventually(lambda: installation.cluster.api.get(f"{path}/workers")["items"] == [])
