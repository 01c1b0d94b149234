"""The images of the root ``Dockerfile``, and two tiny ones, for a containerd that has no registry.

The Dockerfile is read and carried out here (``dockerfile``, ``layers``), so that what tests run is what a
user builds with an engine: same paths, same user, same entry point. An archive is an OCI image layout that
``ctr images import`` takes; the layers that a node has already may be left out of it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes.caches import cache_folder, forget_unused
from tests.kubernetes.dockerfile import Target, read_dockerfile
from tests.kubernetes.layers import Layer, NoImages, base_layer, find_in, folder_layer, run_layer

ROOT = Path(__file__).parent.parent.parent
OPERATOR = "localhost/cooperator/operator:tests"
WORKER = "localhost/cooperator/worker:tests"
BUSYBOX = "localhost/cooperator/busybox:tests"
"""One static program: for pods whose content does not matter (``busybox sleep``, ``busybox httpd -f``)."""
PAUSE = "localhost/cooperator/pause:tests"
"""Holds the namespaces of a pod; every pod has it."""


@dataclass(frozen=True)
class Image:
    """``layers``: lowest first. ``lasting``: how many of them a change of the project's code leaves as they
    are."""

    name: str
    layers: tuple[Layer, ...]
    config: dict[str, Any]
    lasting: int

    @property
    def lasting_layers(self) -> tuple[Layer, ...]:
        return self.layers[: self.lasting]


@functools.cache
def build_images() -> tuple[Image, ...]:
    """All of them, of the project as it is at the first call: nodes of one run have the same.

    In seconds when only code has changed, in minutes the first time. Raises NoImages.
    """
    stages = read_dockerfile(ROOT / "Dockerfile")
    made = (*_tiny_images(), _image(OPERATOR, stages, "operator"), _image(WORKER, stages, "worker"))
    forget_unused(cache_folder("layers"))
    return made


def _image(name: str, stages: Mapping[str, Target], stage: str) -> Image:
    target = stages[stage]
    config = {
        "Env": [f"{key}={value}" for key, value in target.env.items()],
        "User": target.user,
        "WorkingDir": target.working_folder,
        "Entrypoint": list(target.entrypoint),
        "Cmd": list(target.command),
    }
    runs = enumerate(target.runs)
    with_code = (number for number, run in runs if any(bind.source == "operator" for bind in run.binds))
    # Below all that is run lies the base.
    lasting = 1 + next(with_code, len(target.runs))
    return Image(name, tuple(_layers(stages, stage)), config, lasting)


def _layers(stages: Mapping[str, Target], stage: str) -> list[Layer]:
    layers = [base_layer()]
    for run in stages[stage].runs:
        sources = {
            bind.target: find_in(_layers(stages, bind.stage), bind.source)
            if bind.stage
            else ROOT / bind.source
            for bind in run.binds
        }
        layers.append(run_layer(layers, run, sources))
    return layers


def _tiny_images() -> tuple[Image, Image]:
    busybox = shutil.which("busybox")
    if busybox is None:
        raise NoImages("busybox was not found: apt-get install busybox-static, or python3 run.py tests --yes")
    layer = folder_layer({"/bin/busybox": Path(busybox)})
    config = {"Env": ["PATH=/bin"], "User": "65534:65534", "WorkingDir": "/", "Entrypoint": ["busybox"]}
    return (
        Image(PAUSE, (layer,), {**config, "Cmd": ["sleep", "2147483647"]}, 1),
        Image(BUSYBOX, (layer,), {**config, "Cmd": []}, 1),
    )


def write_image(image: Image, path: Path, without: Collection[str] = ()) -> None:
    """``image`` as an archive at ``path``; layers whose digests are in ``without`` are named but left out."""
    config = _blob(
        {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
            "os": "linux",
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in image.layers]},
        }
    )
    manifest = _blob(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [
                {
                    "mediaType": "application/vnd.oci.image.layer.v1.tar",
                    "digest": layer.digest,
                    "size": layer.size,
                }
                for layer in image.layers
            ],
        }
    )
    named = _descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    named["annotations"] = {"io.containerd.image.name": image.name}
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", _blob({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _blob({"schemaVersion": 2, "manifests": [named]}))
        for blob in (config, manifest):
            _add(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        for layer in image.layers:
            if layer.digest not in without:
                archive.add(layer.archive, "blobs/" + layer.digest.replace(":", "/"))


def _blob(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
