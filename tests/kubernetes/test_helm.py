"""Where helm comes from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import helm as module
from tests.kubernetes.helm import HELM, NoHelm


@pytest.fixture
def asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is first on the PATH; nothing is in the cache."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    module.helm.cache_clear()
    yield folder
    module.helm.cache_clear()


def put(folder: Path, program: str, says: str) -> Path:
    path = folder / program
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def test_the_path_comes_first(asked_anew: Path) -> None:
    theirs = put(asked_anew, "helm", "v4.0.0")
    assert module.problem() is None
    assert module.helm() == str(theirs)


def test_another_major_version_on_the_path_is_passed_over(
    asked_anew: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(asked_anew, "helm", "v3.18.0")
    monkeypatch.setattr(module, "build", lambda: tmp_path / "built")
    assert module.helm() == str(tmp_path / "built" / "helm")


def test_an_old_go_is_refused_with_what_helps(asked_anew: Path, tmp_path: Path) -> None:
    put(asked_anew, "go", "go1.19.8")
    put(asked_anew, "helm", "v3.18.0")
    with pytest.raises(NoHelm, match=r"helm v4 .*go1\.19\.8, which is too old: install helm 4"):
        module.build()
    assert module.problem() is not None
    assert not list((tmp_path / "cache" / "cooperator" / "helm").glob("4*"))


def test_it_is_of_the_version_that_charts_are_tested_with(helm: str) -> None:
    command = [helm, "version", "--template", "{{.Version}}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split(".")[0] == HELM.split(".")[0]
