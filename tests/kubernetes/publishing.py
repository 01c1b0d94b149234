"""Programs of the test of a release: syft, with which it is made, and crane, which serves a registry here.

Each is found on the PATH, or built once through the Go module proxy, into the user's cache: syft in some 300
CPU-seconds, crane in 10.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cooperator.local.settings import free_port
from tests.harness.support import eventually
from tests.kubernetes.caches import cache_folder, once
from tests.kubernetes.go import NotBuilt, Toolchain

_MODULES = {
    "syft": ("github.com/anchore/syft/cmd/syft", "v1.57.1"),
    "crane": ("github.com/google/go-containerregistry/cmd/crane", "v0.22.1"),
}


def program(name: str) -> Path:
    """Raises NotBuilt."""
    if found := shutil.which(name):
        return Path(found)
    module, version = _MODULES[name]
    go = Toolchain(f"{name} was", (1, 26), f"install {name} onto the PATH, or Go 1.26 or later", NotBuilt)

    def build(folder: Path) -> None:
        go.run([go.find(), "install", "-trimpath", f"{module}@{version}"], Path("/"), GOBIN=str(folder))

    return once(cache_folder(name, version), build) / name


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """An OCI registry of this machine, without TLS; yields its ``host:port``. Nodes of tests can reach it."""
    address = f"127.0.0.1:{free_port()}"
    command = [str(program("crane")), "registry", "serve", "--address", address, "--disk", str(folder)]
    with (folder.parent / "registry.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        catalog = [str(program("crane")), "catalog", address]
        eventually(lambda: subprocess.run(catalog, capture_output=True, check=False).returncode == 0)
        yield address
    finally:
        process.kill()
        process.wait()
