"""The chart of the resource definitions: it contains those of `crds/` and keeps them when it is
uninstalled."""

import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.charts.rendered import CRDS, OPERATOR, ROOT, Release
from tests.kubernetes.helm import HelmFailed, run_helm

pytestmark = pytest.mark.usefixtures("helm")

KEEP = {"helm.sh/resource-policy": "keep"}


def ours() -> list[Any]:
    return [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]


def packed(chart: Path, folder: Path) -> Path:
    run_helm("package", str(chart), "--destination", str(folder))
    [archive] = folder.glob(f"{chart.name}-[0-9]*.tgz")
    return archive


def test_the_chart_has_the_definitions_unchanged_and_keeps_them() -> None:
    made = Release(chart=CRDS).manifests()
    expected = ours()
    assert len(expected) == 2
    for definition in expected:
        definition["metadata"].setdefault("annotations", {}).update(KEEP)
    assert sorted(made, key=lambda m: m["metadata"]["name"]) == sorted(
        expected, key=lambda m: m["metadata"]["name"]
    )


def test_a_package_has_files_in_place_of_the_link(tmp_path: Path) -> None:
    assert (CRDS / "files").is_symlink(), "there is one copy in the repository"
    archive = packed(CRDS, tmp_path)
    with tarfile.open(archive) as members:
        files = {member.name: member for member in members if "/files/" in member.name}
        assert files.keys() == {
            f"cooperator-crds/files/{path.name}" for path in (ROOT / "crds").glob("*.yaml")
        }
        assert all(member.isreg() for member in files.values())
    alone = Release(chart=archive)
    assert alone.manifests() == Release(chart=CRDS).manifests()


def test_a_package_of_the_operators_chart_renders_the_same_manifests(tmp_path: Path) -> None:
    values = {"grafanaDashboard": {"enabled": True}, "prometheusRule": {"enabled": True}}
    packaged = Release(chart=packed(OPERATOR, tmp_path))
    assert packaged.manifests(values) == Release().manifests(values)


def test_the_chart_of_the_definitions_has_no_values() -> None:
    with pytest.raises(HelmFailed, match="additional properties 'keep' not allowed"):
        Release(chart=CRDS).manifests({"keep": False})
