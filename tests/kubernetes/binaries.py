"""Kubernetes' own programs: found, or built once through the Go module proxy.

Looked for in this order, all of them in one place, so that their versions fit: the folder that
``KUBEBUILDER_ASSETS`` names, the PATH, a build of our own in the user's cache
(``${XDG_CACHE_HOME:-~/.cache}/cooperator/kubernetes/<version>-<key>/``). The build is one multi-call
binary (``build/main.go``) and takes some 850 CPU-seconds; ``python -m tests.kubernetes build`` does it
ahead of the tests.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import string
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.caches import cache_folder, once
from tests.kubernetes.go import NotBuilt, Toolchain

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)

KUBERNETES = "v1.37.1"
OLDEST_GO = (1, 26)
"""The version that go.mod of that Kubernetes asks for."""

SOURCES = Path(__file__).parent / "build"

REMEDY = (
    "put the programs of a Kubernetes server release and etcd into a folder and name it by "
    "KUBEBUILDER_ASSETS, or install Go {}.{} or later, with which they are built"
).format(*OLDEST_GO)


class NoKubernetes(NotBuilt):
    """The programs cannot be had; the message says what to do."""


GO = Toolchain("Kubernetes' programs were", OLDEST_GO, REMEDY, NoKubernetes)


@dataclass(frozen=True)
class Binaries:
    """Where each of ``PROGRAMS`` is."""

    paths: Mapping[str, Path]

    def __getitem__(self, program: str) -> str:
        return str(self.paths[program])


@functools.cache
def binaries() -> Binaries:
    """All programs; builds them when nothing else has them (minutes). Raises NoKubernetes."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    if named:
        found = _in_folder(Path(named))
        missing = [name for name in PROGRAMS if name not in found]
        if missing:
            raise NoKubernetes(
                f"KUBEBUILDER_ASSETS={named} lacks {', '.join(missing)}: add them (the server archive of a "
                "Kubernetes release has them), or unset the variable to have all programs built"
            )
        return Binaries(found)
    on_path = {name: Path(path) for name in PROGRAMS if (path := shutil.which(name))}
    if len(on_path) == len(PROGRAMS):
        return Binaries(on_path)
    return Binaries(_in_folder(build()))


def problem() -> str | None:
    """Returns why ``binaries`` would fail, as far as can be told without building; None when nothing is
    known."""
    if os.environ.get("KUBEBUILDER_ASSETS") or all(map(shutil.which, PROGRAMS)) or _own_folder().is_dir():
        return None
    try:
        GO.find()
    except NoKubernetes as missing:
        return str(missing)
    return None


def _in_folder(folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in PROGRAMS if os.access(folder / name, os.X_OK)}


def build() -> Path:
    """The folder of our own build, which is made first where it is missing. Raises NoKubernetes."""
    return once(_own_folder(), _build_into)


def _own_folder() -> Path:
    key = hashlib.sha256(" ".join(PROGRAMS).encode() + _link_flags().encode())
    for source in (SOURCES / "main.go", SOURCES / "go.mod.template"):
        key.update(source.read_bytes())
    return cache_folder("kubernetes") / f"{KUBERNETES[1:]}-{key.hexdigest()[:12]}"


def _build_into(folder: Path) -> None:
    go = GO.find()
    sys.stderr.write(
        f"building Kubernetes {KUBERNETES} into {folder.parent} (some 8 minutes on 2 cores)" + "\n"
    )
    with tempfile.TemporaryDirectory(prefix="cooperator-kubernetes-") as work:
        sources = Path(work)
        shutil.copy(SOURCES / "main.go", sources)
        (sources / "go.mod").write_text(_go_mod(go))
        GO.run([go, "mod", "tidy"], sources)
        GO.run(
            [go, "build", "-trimpath", "-ldflags", _link_flags(), "-o", str(folder / "kubernetes"), "."],
            sources,
        )
    for name in PROGRAMS:
        (folder / name).symlink_to("kubernetes")


def _go_mod(go: str) -> str:
    """A go.mod with the versions that this Kubernetes was released and tested with."""
    module = json.loads(
        GO.run([go, "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES}"], Path("/"))
    )
    theirs = json.loads(GO.run([go, "mod", "edit", "-json", module["GoMod"]]))
    required = {entry["Path"]: entry["Version"] for entry in theirs["Require"]}
    godebug = {entry["Key"]: entry["Value"] for entry in theirs.get("Godebug", ())}
    own = [
        entry["Old"]["Path"] for entry in theirs["Replace"] if entry["New"]["Path"].startswith("./staging/")
    ]
    # Kubernetes 1.x.y publishes each of them as 0.x.y.
    version = re.sub(r"^v1\.", "v0.", KUBERNETES)
    return string.Template((SOURCES / "go.mod.template").read_text()).substitute(
        go=theirs["Go"],
        godebug=godebug.get("default", "go" + re.sub(r"\.\d+$", "", theirs["Go"])),
        etcd=required["go.etcd.io/etcd/server/v3"],
        kubernetes=KUBERNETES,
        replacements="\n".join(f"\t{path} => {path} {version}" for path in own),
    )


def _link_flags() -> str:
    """The version that the programs say of themselves; unset, a client refuses the API server."""
    major, minor = KUBERNETES[1:].split(".")[:2]
    said = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        [
            "-s",
            "-w",
            *(f"-X {package}.{name}={value}" for package in packages for name, value in said.items()),
        ]
    )
