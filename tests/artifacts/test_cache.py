"""The cache: files are complete or absent, checked, and downloaded once. Ivy itself runs in the tests marked
real."""

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cooperator.artifacts import Artifact, ArtifactError, cache, ivy, resolve
from cooperator.artifacts.lockfile import render_lock

ONE, TWO = Artifact("org.a", "one", "1.0"), Artifact("org.b", "two", "2.0")


class Registry:
    """Replaces Ivy: returns bytes by artifact, and counts the downloads."""

    def __init__(self) -> None:
        self.content = {ONE: b"first", TWO: b"second"}
        self.downloads = 0
        self.broken = False

    def retrieve(
        self,
        artifacts: Sequence[Artifact],
        *,
        transitive: bool,
        pattern: str,
        cache: Path,
        progress: Callable[[str], None],
    ) -> None:
        assert not transitive
        self.downloads += 1
        for artifact in artifacts:
            target = Path(
                pattern.replace("[artifact]", artifact.name)
                .replace("[revision]", artifact.version)
                .replace("[ext]", "jar")
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.content[artifact])
            progress(target.name)
            if self.broken:
                raise ArtifactError("connection lost")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Registry:
    registry = Registry()
    lock = render_lock({a: hashlib.sha256(data).hexdigest() for a, data in registry.content.items()})
    monkeypatch.setattr(cache, "read_lock", lambda bundle: lock)
    monkeypatch.setattr(ivy, "retrieve", registry.retrieve)
    monkeypatch.setenv("COOPERATOR_CACHE", str(tmp_path / "cache"))
    return registry


def test_jars_are_fetched_once(registry: Registry) -> None:
    said: list[str] = []
    jars = resolve("kafka", said.append)

    assert [jar.read_bytes() for jar in jars] == [b"first", b"second"]
    assert said == [
        "kafka: downloading 1 of 2, one-1.0.jar",
        "kafka: downloading 2 of 2, two-2.0.jar",
    ]
    assert resolve("kafka") == jars
    assert registry.downloads == 1


def test_processes_that_ask_together_share_one_download(registry: Registry) -> None:
    barrier = threading.Barrier(4)

    def ask() -> tuple[Path, ...]:
        barrier.wait()
        return resolve("kafka")

    with ThreadPoolExecutor(4) as pool:
        answers = [future.result() for future in [pool.submit(ask) for _ in range(4)]]

    assert len(set(answers)) == 1
    assert registry.downloads == 1


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(registry: Registry, tmp_path: Path) -> None:
    registry.content[TWO] = b"tampered"
    with pytest.raises(ArtifactError, match=r"org\.b:two:2\.0 has sha256 .* but the lock has"):
        resolve("kafka")
    assert list((tmp_path / "cache").rglob("*.jar")) == []

    registry.content[TWO] = b"second"
    assert [jar.read_bytes() for jar in resolve("kafka")] == [b"first", b"second"]


def test_an_interrupted_download_leaves_no_half_bundle(registry: Registry) -> None:
    registry.broken = True
    with pytest.raises(ArtifactError, match="connection lost"):
        resolve("kafka")

    registry.broken = False
    assert all(jar.is_file() for jar in resolve("kafka"))


def test_a_jar_missing_from_the_cache_is_fetched_again(registry: Registry) -> None:
    resolve("kafka")[1].unlink()

    assert [jar.read_bytes() for jar in resolve("kafka")] == [b"first", b"second"]


def test_a_cache_that_cannot_be_written_names_the_remedy(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COOPERATOR_CACHE", str(tmp_path / "file"))

    with pytest.raises(ArtifactError, match="Set COOPERATOR_CACHE to another folder"):
        resolve("kafka")
