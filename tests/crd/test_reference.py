"""The reference is what the models say, and the examples are manifests as they are."""

import importlib.util
from pathlib import Path

import pytest

from cooperator.crd import parse

ROOT = Path(__file__).parents[2]
OF_KUBERNETES = ("volumes.yaml", "autoscaler.yaml", "executors.yaml", "rest.yaml")
"""Kinds of Kubernetes' own, which only an API server can check (test_api_server.py)."""
EXAMPLES = sorted(
    path for path in (ROOT / "examples" / "kubernetes").glob("*.yaml") if path.name not in OF_KUBERNETES
)


def test_the_reference_is_what_the_command_writes() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)

    committed = (ROOT / "docs" / "reference.md").read_text()
    assert committed == page.reference(), "out of date: python docs/reference.py"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_read_without_a_problem(path: Path) -> None:
    assert parse(path.read_text(), path.name)


def test_the_connectors_of_the_examples_find_their_worker() -> None:
    resources = [r for path in EXAMPLES for r in parse(path.read_text(), path.name)]

    workers = {r.metadata.name for r in resources if r.kind == "Worker"}
    assert {r.spec.worker_ref.name for r in resources if r.kind == "Connector"} <= workers
