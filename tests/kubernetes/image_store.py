"""Containerd's store of images, prepared once: nodes begin with a copy that takes a second.

Unpacking a gigabyte for every node of every test would take longer than the tests. So a containerd imports
once, into a folder of the cache, what lies below the project's code; another begins with links into it and
imports the rest, once for each state of the code; and a node begins with links into that. Linked is only what
nobody writes: unpacked layers (a container's writes go into a layer of its own) and blobs.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.kubernetes.caches import cache_folder, forget_unused, once
from tests.kubernetes.images import (
    BELOW,
    BUSYBOX,
    KAFKA,
    OPERATOR,
    PAUSE,
    WORKER,
    build_images,
    write_archive,
)
from tests.kubernetes.processes import Server, ServerFailed

_BLOBS: Final = "io.containerd.content.v1.content/blobs/sha256/*"


class Containerd:
    """A containerd of one node; ``folder`` has all its files."""

    def __init__(self, folder: Path, network: str = "") -> None:
        self.folder = folder
        self.socket = folder / "containerd.sock"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cni").mkdir(exist_ok=True)
        (folder / "cni" / "10-pods.conflist").write_text(network)
        (folder / "containerd.toml").write_text(_configuration(folder, self.socket))
        path = shutil.which("containerd")
        if path is None:
            raise ServerFailed(
                "containerd was not found: apt-get install containerd, or python3 run.py tests --yes"
            )
        self.server = Server(
            "containerd", [path, "--config", str(folder / "containerd.toml")], folder / "containerd.log"
        )

    def start(self) -> None:
        self.server.start()
        self.server.wait_until(lambda: self._ctr("version").returncode == 0)

    def import_archive(self, archive: Path) -> None:
        done = self._ctr("images", "import", str(archive))
        if done.returncode:
            raise ServerFailed(f"containerd did not import {archive}: {done.stderr}\n{self.server.tail()}")

    def tag(self, image: str, name: str) -> None:
        """Have an image under another name, too."""
        done = self._ctr("images", "tag", "--force", image, name)
        if done.returncode:
            raise ServerFailed(f"containerd did not tag {image}: {done.stderr}")

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def prepare() -> Path:
    """A folder of a containerd that has all images; slow the first time. Raises NoImages, ServerFailed."""
    built = build_images()
    below = _store({name: built[name] for name in (BUSYBOX, PAUSE, *BELOW, KAFKA)})
    store = _store({name: built[name] for name in (OPERATOR, WORKER)}, below)
    forget_unused(store.parent, days=3)
    return store


def fill(containerd_folder: Path) -> None:
    """Give a containerd that is not running yet all images."""
    _link_tree(prepare() / "root", containerd_folder / "root")


def _store(images: Mapping[str, str], below: Path | None = None) -> Path:
    """A containerd's folder with ``images`` (name → id), and with those of ``below``."""

    def make(folder: Path) -> None:
        if below is not None:
            _link_tree(below / "root", folder / "root")
        write_archive(images, folder / "images.tar", (folder / "root").glob(_BLOBS))
        containerd = Containerd(folder)
        containerd.start()
        try:
            containerd.import_archive(folder / "images.tar")
        finally:
            containerd.server.kill()
        (folder / "images.tar").unlink()

    key = "\n".join((*images.values(), below.name if below else ""))
    return once(cache_folder("image-stores", hashlib.sha256(key.encode()).hexdigest()[:24]), make)


def _link_tree(source: Path, target: Path) -> None:
    """containerd's own databases are copied; files that are never written again are linked."""
    lasting = [*source.glob("io.containerd.snapshotter.v1.overlayfs/snapshots/*"), *source.glob(_BLOBS)]
    parents = {str(path.parent) for path in lasting}
    shutil.copytree(source, target, ignore=lambda folder, names: names if folder in parents else ())
    for path in lasting:
        (target / path.relative_to(source)).symlink_to(path)


def _configuration(folder: Path, socket: Path) -> str:
    return f"""
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  stream_server_address = "127.0.0.1"
  # All that a pod mounts lies below one folder, where it is found again when everything is to go.
  netns_mounts_under_state_dir = true
  # Machines in a sandbox may not lower these scores.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""
