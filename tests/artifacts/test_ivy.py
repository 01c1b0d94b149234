"""Ivy as pyspark ships it, with a directory as its registry: no network."""

from pathlib import Path

import pytest

from cooperator.artifacts import Artifact, ArtifactError, ivy
from tests.artifacts.folder_registry import folder_registry, publish

pytestmark = pytest.mark.real


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = folder_registry(tmp_path, monkeypatch)
    publish(root, Artifact("org.a", "one", "1.0"), b"first")
    publish(root, Artifact("org.b", "two", "2.0"), b"second")
    return root


def retrieve(folder: Path, *artifacts: Artifact) -> dict[str, bytes]:
    ivy.retrieve(
        artifacts,
        transitive=False,
        pattern=str(folder / "jars" / "[artifact]-[revision].[ext]"),
        cache=folder / "ivy",
        progress=lambda _: None,
    )
    return {jar.name: jar.read_bytes() for jar in (folder / "jars").iterdir()}


def test_a_mirror_named_by_the_user_is_used(registry: Path, tmp_path: Path) -> None:
    jars = retrieve(tmp_path, Artifact("org.a", "one", "1.0"), Artifact("org.b", "two", "2.0"))

    assert jars == {"one-1.0.jar": b"first", "two-2.0.jar": b"second"}


def test_a_missing_artifact_is_named(registry: Path, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"org\.c:three:3\.0.*COOPERATOR_IVY_SETTINGS"):
        retrieve(tmp_path, Artifact("org.a", "one", "1.0"), Artifact("org.c", "three", "3.0"))
