"""Connectors with one directory, on a real API server: its owner goes on, later Connectors get a
condition."""

from typing import Any

import pytest

from tests.harness.installation import Installation

pytestmark = pytest.mark.real


def files(installation: Installation, name: str, path: str) -> None:
    """Paused: nothing but what is wanted of it is looked at here."""
    config = {"source.format": "rate", "sink.format": "parquet", "sink.options.path": path}
    installation.connector(name, **{"class": "spark"}, tasksMax=1, state="Paused", config=config)


def ready(installation: Installation, name: str) -> Any:
    return installation.condition("connectors", name, "Ready").get("reason") == "Paused"


def stalled(installation: Installation, name: str, other: str) -> bool:
    found = installation.condition("connectors", name, "Stalled")
    said = f"as Connector {other} does" in found.get("message", "")
    return (found["status"], found.get("reason")) == ("True", "OutputShared") and said


def test_a_directorys_owner_keeps_it_over_operators_and_others_wait(
    installation: Installation,
) -> None:
    operator = installation.operator()
    installation.worker(replicas=1)
    files(installation, "first", "/out")
    installation.eventually(lambda: ready(installation, "first"))
    files(installation, "second", "file:/out/")
    installation.eventually(lambda: stalled(installation, "second", "first"))
    files(installation, "third", "/other")
    installation.eventually(lambda: ready(installation, "third"))
    assert installation.get("connectors", "second")["status"]["state"] != "PAUSED", "it is not even that"

    # The older one is given what the third has, and the next operator has not seen which was first.
    files(installation, "first", "/other")
    installation.eventually(lambda: stalled(installation, "first", "third"))
    installation.eventually(lambda: ready(installation, "second"), what="nobody is in its way any more")
    operator.kill()
    installation.operator()
    installation.delete("connectors", "third")
    installation.eventually(lambda: ready(installation, "first"))
    assert ready(installation, "second")
