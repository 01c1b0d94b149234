"""helm, with which the charts are tested: found, or built once through the Go module proxy.

The PATH's comes first, if it is of the same major version; else one of our own in the user's cache
(``${XDG_CACHE_HOME:-~/.cache}/cooperator/helm/<version>-<key>/``), which takes some 400 CPU-seconds;
``python -m tests.kubernetes helm`` builds it ahead of the tests.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kubernetes.caches import cache_folder, once
from tests.kubernetes.go import NotBuilt, Toolchain

HELM = "v4.3.1"
_PROGRAM = "helm.sh/helm/v4/cmd/helm"
_FLAGS = ("-trimpath", "-ldflags", f"-s -w -X helm.sh/helm/v4/internal/version.version={HELM}")


class NoHelm(NotBuilt):
    """It cannot be had; the message says what to do."""


GO = Toolchain(
    f"helm {HELM.partition('.')[0]} was",
    (1, 26),
    "install helm 4 onto the PATH, or Go 1.26 or later, with which it is built",
    NoHelm,
)


@functools.cache
def helm() -> str:
    """The program; builds it when nothing else has it (minutes). Raises NoHelm."""
    return _on_path() or str(build() / "helm")


def run_helm(*arguments: str, words: str = "", kubeconfig: Path = Path(os.devnull)) -> str:
    """Returns what helm prints; ``words``: its stdin. Without a ``kubeconfig`` it is shown no cluster.

    Raises HelmFailed.
    """
    done = subprocess.run(
        [helm(), *arguments],
        input=words,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    if done.returncode:
        raise HelmFailed(f"helm {' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


class HelmFailed(AssertionError):
    """In helm's own words."""


def problem() -> str | None:
    """Returns why ``helm`` would fail, as far as can be told without building; None when nothing is known."""
    if _on_path() or _own_folder().is_dir():
        return None
    try:
        GO.find()
    except NoHelm as missing:
        return str(missing)
    return None


def build() -> Path:
    """The folder of our own build, which is made first where it is missing. Raises NoHelm."""
    return once(_own_folder(), _build_into)


def _on_path() -> str | None:
    found = shutil.which("helm")
    if found is None:
        return None
    command = [found, "version", "--template", "{{.Version}}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return found if said.startswith(HELM.partition(".")[0] + ".") else None


def _own_folder() -> Path:
    key = hashlib.sha256(" ".join((_PROGRAM, *_FLAGS)).encode())
    return cache_folder("helm") / f"{HELM[1:]}-{key.hexdigest()[:12]}"


def _build_into(folder: Path) -> None:
    go = GO.find()
    sys.stderr.write(f"building helm {HELM} into {folder.parent} (some 3 minutes on 2 cores)\n")
    # At a version, without a module of ours around it: all dependencies are as helm released them.
    GO.run([go, "install", *_FLAGS, f"{_PROGRAM}@{HELM}"], Path("/"), GOBIN=str(folder))
