"""Archives of classes, written and used by a real JVM."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cooperator.artifacts import ArtifactError, find_java, resolve, use_archive, write_archive

pytestmark = pytest.mark.real

MAIN = "org.apache.kafka.clients.producer.ProducerConfig"
"""A small program: it prints what its settings mean."""
JARS = ("kafka-clients-", "slf4j-api-", "argparse4j-")
"""What it needs, and one jar more, at the end."""


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copies of real jars, which tests may change; the cache belongs to the test."""
    folder = tmp_path / "jars"
    folder.mkdir()
    copies = [
        Path(shutil.copy2(jar, folder))
        for name in JARS
        for jar in resolve("kafka")
        if jar.name.startswith(name)
    ]
    assert len(copies) == len(JARS)
    monkeypatch.setenv("COOPERATOR_CACHE", str(tmp_path / "cache"))
    return copies


def run(jars: list[Path], *arguments: str) -> str:
    class_path = os.pathsep.join(map(str, jars))
    command = [str(find_java()), *arguments, "-cp", class_path, MAIN]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def written(jars: list[Path]) -> Path:
    return write_archive("kafka", jars, lambda arguments: run(jars, *arguments))


def test_a_jvm_with_the_same_jars_takes_its_classes_from_the_archive(jars: list[Path]) -> None:
    """It is written once, beside those of other jars, until a jar changes."""
    assert use_archive("kafka", jars) == ()
    archive = written(jars)
    arguments = use_archive("kafka", jars)
    assert f"-XX:SharedArchiveFile={archive}" in arguments
    [loaded] = [
        line for line in run(jars, *arguments, "-Xlog:class+load").splitlines() if f" {MAIN} " in line
    ]
    assert "shared objects file (top)" in loaded
    assert write_archive("kafka", jars, lambda _: pytest.fail("it was there")) == archive

    of_others = written(jars[:-1])
    assert set(archive.parent.glob("*.jsa")) == {archive, of_others}

    os.utime(jars[-1], (1, 1))
    assert use_archive("kafka", jars) == ()
    replaced = written(jars)
    assert replaced != archive
    assert set(archive.parent.glob("*.jsa")) == {replaced, of_others}


def test_a_jvm_that_writes_no_archive_is_reported_and_leaves_no_file(jars: list[Path]) -> None:
    with pytest.raises(ArtifactError, match="ended without writing an archive"):
        write_archive("kafka", jars, lambda _: None)
    assert use_archive("kafka", jars) == ()
