"""The images of the root ``Dockerfile``, two tiny ones and a Kafka, built by buildah without a daemon.

Tests so run what a user builds from the same file with an engine. buildah keeps the layer of each step in the
user's cache. It needs root, for mounts.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cooperator.artifacts import resolve
from tests.kubernetes.caches import cache_folder, locked

ROOT = Path(__file__).parent.parent.parent
OPERATOR = "localhost/cooperator/operator:tests"
WORKER = "localhost/cooperator/worker:tests"
BUSYBOX = "localhost/cooperator/busybox:tests"
"""One static program: for pods whose content does not matter (``busybox sleep``, ``busybox httpd -f``)."""
PAUSE = "localhost/cooperator/pause:tests"
"""Holds the namespaces of a pod; every pod has it."""
KAFKA = "localhost/cooperator/kafka:tests"
"""Kafka's jars where its own image has them, and Java: for the chart's quick start."""
BELOW = ("localhost/cooperator/kubernetes:tests", "localhost/cooperator/jars:tests")
"""Operator and worker without the project's code, whose changes leave these as they are."""

_STAGES: Final = dict(
    zip((*BELOW, OPERATOR, WORKER), ("kubernetes", "jars", "operator", "worker"), strict=True)
)
_TINY: Final = """\
FROM scratch AS busybox
COPY busybox /bin/
ENV PATH=/bin
USER 65534:65534
ENTRYPOINT ["busybox"]
FROM busybox AS pause
CMD ["sleep", "2147483647"]
"""
_KAFKA: Final = f"""\
FROM {BELOW[1]}
COPY *.jar /opt/kafka/libs/
USER 1000:1000
"""
_SUITE: Final = "bookworm"
"""Debian's name for what BASE is in the Dockerfile."""
_SLIM: Final = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
_TRUST: Final = (Path("/usr/local/share/ca-certificates"), Path("/etc/pip.conf"))
"""A step of an image reaches the network as this machine does: with its authorities and pip's settings."""
_APART: Final = ("unshare", "--mount", "--propagation=private")
"""Runs a command in a mount namespace of its own: whatever happens, no mount is left behind."""


class NoImages(Exception):
    """An image cannot be made; the message says what to do."""


@functools.cache
def build_images() -> Mapping[str, str]:
    """All of them, name → id, of the project as it is at the first call: nodes of one run have the same.

    In seconds when only code has changed, in minutes the first time. Raises NoImages.
    """
    tiny = _program("busybox", "busybox-static").parent
    with locked(cache_folder("buildah.lock"), "the store of images"):
        # A build that was killed has left its containers.
        _buildah("rm", "--all")
        base = f"--build-arg=BASE={_base()}"
        built = {
            BUSYBOX: _build(BUSYBOX, tiny, "--target=busybox", text=_TINY),
            PAUSE: _build(PAUSE, tiny, "--target=pause", text=_TINY),
            **{name: _build(name, ROOT, f"--target={stage}", base) for name, stage in _STAGES.items()},
        }
        jars = resolve("kafka")[0].parent
        built[KAFKA] = _build(KAFKA, jars, text=_KAFKA)
        if unused := _buildah("images", "--quiet", "--filter=dangling=true", "--filter=until=336h").split():
            _buildah("rmi", *unused)
    return built


def build_environment(folder: Path) -> tuple[str, dict[str, str]]:
    """The name of our base, and variables with which buildah finds it and all layers, whoever calls it.

    Call ``build_images`` first. ``folder`` gets the settings that the variables name. Raises NoImages.
    """
    settings = folder / "storage.conf"
    settings.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{_store("images")}"\nrunroot = "{_store("run")}"\n'
    )
    return _base(), {"CONTAINERS_STORAGE_CONF": str(settings), "BUILDAH_ISOLATION": "chroot"}


def in_own_mounts(*command: str) -> list[str]:
    """The command in a mount namespace of its own, where it leaves no mount behind."""
    return [*_APART, *command]


def write_archive(names: Iterable[str], archive: Path, known: Iterable[Path] = ()) -> None:
    """Write images as one OCI layout, which ``ctr images import`` takes. Raises NoImages.

    ``known``: files, named by their digests, that the importer has already; they are left out.
    """
    with tempfile.TemporaryDirectory(prefix=".layout-", dir=archive.parent) as made:
        layout = Path(made)
        blobs = layout / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for blob in known:
            (blobs / blob.name).symlink_to(blob)
        for name in names:
            # Existing files are not written again. `buildah push` would compress, and so find nothing there.
            source = f"containers-storage:[overlay@{_store('images')}+{_store('run')}]{name}"
            words = ("copy", "--quiet", "--dest-oci-accept-uncompressed-layers", source)
            _call(*_APART, _program("skopeo"), *words, f"oci:{layout}:{name}")
        with tarfile.open(archive, "w") as tar:
            for path in layout.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    tar.add(path, str(path.relative_to(layout)))


def _base() -> str:
    """The name of the smallest Debian that has apt, and that trusts what this machine trusts."""
    trusted = [path for path in _TRUST if path.exists()]
    name = f"localhost/cooperator/debian:{_digest(trusted)}"
    if not _buildah("images", "--quiet", f"--filter=reference={name}"):
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in _SLIM]
        options += [f"--customize-hook=copy-in {path} {path.parent}" for path in trusted]
        with tempfile.TemporaryDirectory() as made:
            debootstrap = (_program("mmdebstrap"), "--quiet", "--variant=minbase", "--mode=root")
            _call(*debootstrap, *options, _SUITE, f"{made}/debian.tar")
            _build(name, Path(made), text="FROM scratch\nADD debian.tar /\n")
    return name


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256("\n".join((_SUITE, *_SLIM)).encode())
    for file in sorted(file for path in paths for file in (path, *path.rglob("*")) if file.is_file()):
        digest.update(f"\0{file}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:24]


def _build(name: str, context: Path, *options: str, text: str | None = None) -> str:
    """Its id. ``text``: in place of the Dockerfile of ``context``."""
    words = (
        "build",
        "--quiet",
        "--layers",
        "--force-rm",
        "--pull-never",
        "--isolation=chroot",
        f"--tag={name}",
    )
    # A JVM asks for the machine's name.
    machine = ("--network=host", "--uts=host")
    file = () if text is None else ("--file=-",)
    return _buildah(*words, *machine, *options, *file, str(context), text=text).split()[-1]


def _buildah(*arguments: str, text: str | None = None) -> str:
    where = ("--storage-driver=overlay", f"--root={_store('images')}", f"--runroot={_store('run')}")
    return _call(*_APART, _program("buildah"), *where, *arguments, text=text)


def _store(part: str) -> Path:
    return cache_folder("buildah", part)


def _program(name: str, package: str = "") -> Path:
    path = shutil.which(name)
    if path is None:
        raise NoImages(
            f"{name} was not found: apt-get install {package or name}, or python3 run.py tests --yes"
        )
    return Path(path)


def _call(*command: str | Path, text: str | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, input=text or "", check=False)
    if done.returncode:
        words = f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise NoImages(f"`{' '.join(map(str, command))}` failed with {done.returncode}:\n{words}")
    return done.stdout
