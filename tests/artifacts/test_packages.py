"""A user's libraries from a directory that serves as a registry: no network."""

from pathlib import Path

import pytest

from cooperator.artifacts import Artifact, ArtifactError, resolve_packages
from tests.artifacts.folder_registry import folder_registry, publish

pytestmark = pytest.mark.real

A, B, COMMONS = (
    Artifact("org.a", "one", "1.0"),
    Artifact("org.b", "two", "2.0"),
    Artifact("c", "commons-pool2", "9"),
)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``one`` needs ``two``, and a library that Spark has in another version."""
    root = folder_registry(tmp_path, monkeypatch)
    monkeypatch.setenv("COOPERATOR_CACHE", str(tmp_path / "cache"))
    publish_needing(root, A, b"first", B, COMMONS)
    publish_needing(root, B, b"second")
    publish_needing(root, COMMONS, b"not this one")
    return root


def publish_needing(root: Path, artifact: Artifact, content: bytes, *needs: Artifact) -> None:
    folder = publish(root, artifact, content)
    needed = "".join(
        f"<dependency><groupId>{n.group}</groupId><artifactId>{n.name}</artifactId>"
        f"<version>{n.version}</version></dependency>"
        for n in needs
    )
    (folder / f"{artifact.name}-{artifact.version}.pom").write_text(
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{artifact.group}</groupId>"
        f"<artifactId>{artifact.name}</artifactId><version>{artifact.version}</version>"
        f"<dependencies>{needed}</dependencies></project>"
    )


def contents(jars: tuple[Path, ...]) -> dict[str, bytes]:
    return {jar.name: jar.read_bytes() for jar in jars}


def test_packages_come_with_their_dependencies_except_sparks_own(registry: Path, tmp_path: Path) -> None:
    jars = resolve_packages([str(A)], tmp_path / "mine")
    assert contents(jars) == {"one-1.0.jar": b"first", "two-2.0.jar": b"second"}
    assert all(jar.is_relative_to(tmp_path / "cache") for jar in jars)


def test_packages_are_fetched_once(registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = resolve_packages([str(A), str(B)], tmp_path / "mine")
    monkeypatch.setenv("COOPERATOR_IVY_SETTINGS", str(tmp_path / "gone.xml"))
    assert resolve_packages([str(B), str(A)], tmp_path / "mine") == jars


def test_without_a_writable_cache_a_member_keeps_its_own(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "image").write_text("no directory")
    monkeypatch.setenv("COOPERATOR_CACHE", str(tmp_path / "image"))
    assert all(jar.is_relative_to(tmp_path / "mine") for jar in resolve_packages([str(B)], tmp_path / "mine"))


def test_a_missing_package_is_named_with_its_field_and_a_remedy(registry: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ArtifactError, match=r"spec\.spark\.packages: org\.a:one:7\.7 is not in the reg.*version"
    ):
        resolve_packages(["org.a:one:7.7", str(B)], tmp_path / "mine")
    with pytest.raises(
        ArtifactError, match=r"spec\.spark\.packages: 'one' is not a package: write group:artifact"
    ):
        resolve_packages(["one"], tmp_path / "mine")


def test_a_jar_that_was_changed_is_refused(registry: Path, tmp_path: Path) -> None:
    (jar,) = resolve_packages([str(B)], tmp_path / "mine")
    jar.write_bytes(b"something else")
    with pytest.raises(ArtifactError, match=r"two-2\.0\.jar differs from the org\.b:two:2\.0 that.*remove"):
        resolve_packages([str(B)], tmp_path / "mine")
