"""The contents of a release's files follow from the commit alone."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from release import documents
from release.errors import ReleaseError
from release.images import platforms
from release.making import CHARTS
from tests.docs.project import ROOT

DIGESTS = {
    name: f"sha256:{letter * 64}" for letter, (_, name) in zip("ab", documents.IMAGES.values(), strict=True)
}
VALUES = (ROOT / "charts" / "cooperator" / "values.yaml").read_text()


def archive(files: Mapping[str, bytes], time_s: int, owner: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname = len(content), time_s, owner
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@given(st.dictionaries(st.text("abc/", min_size=1).map(lambda name: f"x{name}y"), st.binary()), st.randoms())
def test_an_archive_is_the_same_whoever_packed_it_when_and_in_what_order(files: Any, random: Any) -> None:
    shuffled = list(files.items())
    random.shuffle(shuffled)
    packed = documents.packed_again(archive(files, 1_700_000_000, "me"), 86_400)
    assert packed == documents.packed_again(archive(dict(shuffled), 1_800_000_000, "you"), 86_400)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert {each.name: tar.extractfile(each).read() for each in tar} == files
        assert {(each.mtime, each.uname) for each in tar} <= {(86_400, "")}
    assert gzip.decompress(packed)


def test_the_chart_names_its_images_by_their_digests() -> None:
    text = documents.pinned(VALUES, "registry.example/team", DIGESTS)
    before, after = yaml.safe_load(VALUES), yaml.safe_load(text)
    assert after["image"]["repository"] == "registry.example/team/cooperator-operator"
    assert after["image"]["digest"] == DIGESTS["cooperator-operator"]
    assert after["worker"]["image"] == "registry.example/team/cooperator-worker"
    assert after["worker"]["digest"] == DIGESTS["cooperator-worker"]
    for group, (key, _) in documents.IMAGES.items():
        after[group] |= {name: before[group][name] for name in (key, "digest")}
    assert after == before, "no other value changes"
    assert text.count("#") == VALUES.count("#")


def test_values_without_an_image_are_refused() -> None:
    with pytest.raises(ReleaseError, match=r"values.yaml has no image.digest"):
        documents.pinned("image:\n  repository: a\n", "registry.example", DIGESTS)


@pytest.mark.parametrize("name", CHARTS)
def test_each_chart_describes_itself_as_artifact_hub_reads_it(name: str) -> None:
    described = (ROOT / "charts" / name / "Chart.yaml").read_text()
    chart = yaml.safe_load(documents.annotated(described, "0.1.0rc1", "registry.example", DIGESTS))
    assert all(chart[key] for key in ("home", "icon", "sources", "maintainers", "keywords"))
    annotations = chart["annotations"]
    assert all(isinstance(value, str) for value in annotations.values()), "Artifact Hub reads texts"
    assert annotations["artifacthub.io/prerelease"] == "true"
    images = yaml.safe_load(annotations["artifacthub.io/images"])
    assert {image["image"] for image in images} == {
        f"registry.example/{image}@{digest}" for image, digest in DIGESTS.items()
    }
    kinds = {crd["name"] for crd in yaml.safe_load(annotations["artifacthub.io/crds"])}
    assert kinds == {f"{path.stem.partition('_')[2]}.cooperator.dev" for path in (ROOT / "crds").iterdir()}


@pytest.mark.parametrize(
    ("project", "chart", "said"),
    [
        ("0.2.0", "0.1.0", "VERSION is 0.1.0, and pyproject.toml has 0.2.0: write 0.1.0 there"),
        ("0.1.0", "0.0.9", "VERSION is 0.1.0, and charts/a/Chart.yaml has 0.0.9"),
    ],
)
def test_another_version_than_the_projects_is_refused(project: str, chart: str, said: str) -> None:
    documents.check_versions("0.1.0", "0.1.0", {"a": {"appVersion": "0.1.0"}})
    with pytest.raises(ReleaseError, match=said):
        documents.check_versions("0.1.0", project, {"a": {"appVersion": chart}})


def test_the_notes_are_the_versions_section_of_the_changelog() -> None:
    changelog = (
        "# Changelog\n\n## [Unreleased]\n\n* new\n\n## [0.2.0] - 2026-11-25\n\n* b\n\n## [0.1.0]\n\n* a\n"
    )
    assert documents.notes(changelog, "0.2.0") == ("* b\n", True)
    assert documents.notes(changelog, "0.3.0") == ("* new\n", False)
    with pytest.raises(ReleaseError, match=r"no section \[0.3.0\]: rename Unreleased"):
        documents.notes("# Changelog\n\n## [0.1.0]\n\n* a\n", "0.3.0")


def test_a_bill_of_materials_has_a_number_of_its_image_and_no_clock() -> None:
    bills = [
        json.dumps({"serialNumber": f"urn:uuid:{n}", "metadata": {"timestamp": str(n)}, "components": [1]})
        for n in range(2)
    ]
    first, second = (documents.settled(bill, "sha256:a", 86_400) for bill in bills)
    assert first == second
    assert json.loads(first)["metadata"]["timestamp"] == "1970-01-02T00:00:00+00:00"
    assert documents.settled(bills[0], "sha256:b", 86_400) != first


def test_checksums_are_in_the_form_of_sha256sum() -> None:
    assert documents.checksums({"b": "01", "a": "02"}) == "02  a\n01  b\n"


def test_a_machine_says_for_what_it_cannot_build(tmp_path: Path) -> None:
    found = platforms(tmp_path, "x86_64")
    assert found["amd64"] == ""
    assert "no qemu-aarch64" in found["arm64"]
    (tmp_path / "qemu-aarch64").touch()
    assert platforms(tmp_path, "x86_64") == {"amd64": "", "arm64": ""}
