"""The reference is generated from the models, and the examples are valid manifests."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cooperator.crd import Connector, parse
from cooperator.local.admission import anchored
from cooperator.local.layout import StateDir
from cooperator.local.store import ManifestStore, StoredChange

ROOT = Path(__file__).parents[2]
OF_KUBERNETES = ("volumes.yaml", "autoscaler.yaml", "executors.yaml", "rest.yaml")
"""Kubernetes' own kinds, which only an API server can check (test_api_server.py)."""
EXAMPLES = sorted(
    path
    for folder in ("quickstart", "recipes/*")
    for path in (ROOT / "examples").glob(f"{folder}/*.yaml")
    if path.name not in OF_KUBERNETES
)


def test_the_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)

    committed = (ROOT / "docs" / "reference.md").read_text()
    assert committed == page.reference(), "out of date: python docs/reference.py"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    assert parse(path.read_text(), path.name)


def test_the_connectors_of_the_examples_find_their_worker() -> None:
    resources = [r for path in EXAMPLES for r in parse(path.read_text(), path.name)]

    workers = {r.metadata.name for r in resources if r.kind == "Worker"}
    assert {r.spec.worker_ref.name for r in resources if r.kind == "Connector"} <= workers


def test_the_first_connector_of_the_readme_works_as_written(tmp_path: Path) -> None:
    steps = (ROOT / "README.md").read_text().partition("## Your first connector")[2].partition("\n## ")[0]
    manifest = re.search(r"<<'YAML'\n(.*?)\nYAML\n", steps, re.DOTALL)
    assert manifest is not None
    resources = anchored(parse(manifest[1], "first.yaml"), tmp_path)
    changes = ManifestStore(StateDir(tmp_path / ".cooperator"), lambda: 0).apply(resources, "first.yaml")
    assert {change for _, change in changes} == {StoredChange.CREATED}
    # Create its input, and count its output, at the paths in the manifest.
    source, sink = (r.spec.config["path"] for r in resources if isinstance(r, Connector))
    fill = re.search(r"^\$ (mkdir .*?)  +#", steps, re.MULTILINE)
    count = re.search(r"^\$ python -c '(.*)'( +#.*)?$", steps, re.MULTILINE)
    assert fill is not None
    assert count is not None
    subprocess.run(["bash", "-c", fill[1]], cwd=tmp_path, check=True)
    assert sum(len(file.read_text().splitlines()) for file in Path(source).iterdir()) == 4_000
    staged = Path(sink) / "_cooperator" / "staging"
    staged.mkdir(parents=True)
    (staged / "b.parquet.staged").write_bytes(b"not complete yet")
    pq.write_table(pa.table({"value": ["a", "b"]}), Path(sink) / "lines+0+00000000000000000000.parquet")
    counted = subprocess.run(
        [sys.executable, "-c", count[1]], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert counted.stdout == "2\n"
