"""Archives of classes, written and used by a real JVM."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cooperator.artifacts import ArtifactError, find_java, resolve, use_archive, write_archive

pytestmark = pytest.mark.real

MAIN = ("kafka.tools.StorageTool", "random-uuid")


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copies of real jars, which tests may change; the cache belongs to the test."""
    folder = tmp_path / "jars"
    folder.mkdir()
    copies = [Path(shutil.copy2(jar, folder)) for jar in resolve("kafka")]
    monkeypatch.setenv("COOPERATOR_CACHE", str(tmp_path / "cache"))
    return copies


def run(jars: list[Path], *arguments: str) -> str:
    class_path = os.pathsep.join(map(str, jars))
    command = [str(find_java()), *arguments, "-cp", class_path, *MAIN]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def written(jars: list[Path]) -> Path:
    return write_archive("kafka", jars, lambda arguments: run(jars, *arguments))


def test_a_jvm_with_the_same_jars_takes_its_classes_from_the_archive(jars: list[Path]) -> None:
    assert use_archive("kafka", jars) == ()
    archive = written(jars)
    arguments = use_archive("kafka", jars)
    assert f"-XX:SharedArchiveFile={archive}" in arguments
    [loaded] = [
        line
        for line in run(jars, *arguments, "-Xlog:class+load").splitlines()
        if " kafka.tools.StorageTool " in line
    ]
    assert "shared objects file (top)" in loaded


def test_an_archive_is_written_once(jars: list[Path]) -> None:
    archive = written(jars)
    assert write_archive("kafka", jars, lambda _: pytest.fail("it was there")) == archive


def test_a_changed_jar_invalidates_the_archive_and_the_next_one_replaces_it(jars: list[Path]) -> None:
    first = written(jars)
    os.utime(jars[0], (1, 1))
    assert use_archive("kafka", jars) == ()
    second = written(jars)
    assert sorted(second.parent.glob("*.jsa")) == [second]
    assert first != second


def test_an_archive_of_other_jars_stays(jars: list[Path]) -> None:
    both = {written(jars), written(jars[:-1])}
    assert set(next(iter(both)).parent.glob("*.jsa")) == both


def test_a_jvm_that_writes_no_archive_is_reported_and_leaves_no_file(jars: list[Path]) -> None:
    with pytest.raises(ArtifactError, match="ended without writing an archive"):
        write_archive("kafka", jars, lambda _: None)
    assert use_archive("kafka", jars) == ()
