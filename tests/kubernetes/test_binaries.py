"""Where Kubernetes' programs come from."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes import binaries as module
from tests.kubernetes.binaries import PROGRAMS, NoKubernetes, binaries

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    binaries.cache_clear()
    yield
    binaries.cache_clear()


def folder_with(folder: Path, *programs: str) -> Path:
    folder.mkdir()
    for program in programs:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    return folder


def test_the_named_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, path = folder_with(tmp_path / "named", *PROGRAMS), folder_with(tmp_path / "path", *PROGRAMS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named))
    monkeypatch.setenv("PATH", str(path))
    assert binaries()["etcd"] == str(named / "etcd")


def test_a_named_folder_that_lacks_programs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = folder_with(tmp_path / "named", "etcd", "kube-apiserver", "kubectl")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(named))
    with pytest.raises(
        NoKubernetes, match="lacks kube-controller-manager, kube-proxy, kube-scheduler, kubelet"
    ):
        binaries()


def test_the_path_counts_only_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = folder_with(tmp_path / "built", *PROGRAMS)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(module, "build", lambda: built)
    monkeypatch.setenv("PATH", str(folder_with(tmp_path / "some", "kubectl", "etcd")))
    assert binaries()["kubectl"] == str(built / "kubectl")
    binaries.cache_clear()
    monkeypatch.setenv("PATH", str(folder_with(tmp_path / "all", *PROGRAMS)))
    assert binaries()["kubectl"] == str(tmp_path / "all" / "kubectl")


def test_an_old_go_is_refused_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = folder_with(tmp_path / "old", "go")
    (old / "go").write_text("#!/bin/sh\necho go1.19.8\n")
    monkeypatch.setenv("PATH", f"{old}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(NoKubernetes, match=r"go1\.19\.8, which is too old: .*KUBEBUILDER_ASSETS"):
        module.build()
    assert not list((tmp_path / "cache").rglob("kubectl"))


@pytest.mark.real
def test_each_program_is_the_one_it_is_named() -> None:
    said = {
        subprocess.run([binaries()[program], "--version"], capture_output=True, text=True, check=True).stdout
        for program in set(PROGRAMS) - {"etcd", "kubectl"}
    }
    assert len(said) == 1
    assert re.fullmatch(r"Kubernetes v1\.\d+\.\d+\n", said.pop())
    etcd = subprocess.run([binaries()["etcd"], "--version"], capture_output=True, text=True, check=True)
    assert etcd.stdout.startswith("etcd Version: 3.")


def test_this_folder_does_not_hide_the_client_library() -> None:
    # tests/ is on the path of every test: with an __init__ this folder would be `import kubernetes`.
    from kubernetes import client

    assert HERE not in Path(client.__file__).parents
    assert not (HERE / "__init__.py").exists()
