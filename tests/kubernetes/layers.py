"""Layers of images without a container engine: a shell in an overlay of the layers below.

Each layer is kept in the cache under a key of all that it is made of, so that a change of the project's code
makes one small layer anew. Needs root (mounts) and mmdebstrap (for the first layer).
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kubernetes.caches import cache_folder, once
from tests.kubernetes.dockerfile import Run

SUITE = "bookworm"
"""Debian's name for what BASE is in the Dockerfile."""

_SLIM = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
_PLAIN = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "DEBIAN_FRONTEND": "noninteractive",
}
_PASSED_ON = ("PIP_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class NoImages(Exception):
    """An image cannot be made; the message says what to do."""


@dataclass(frozen=True)
class Layer:
    """``files``: what it adds, as a folder; ``archive``: the same as an uncompressed tar of that digest."""

    key: str
    files: Path
    archive: Path
    digest: str

    @property
    def size(self) -> int:
        return self.archive.stat().st_size


def base_layer() -> Layer:
    """The smallest Debian that has apt."""

    def make(files: Path) -> None:
        if shutil.which("mmdebstrap") is None:
            raise NoImages(
                "mmdebstrap was not found: apt-get install mmdebstrap, or python3 run.py tests --yes"
            )
        slim = [f"--dpkgopt=path-exclude={pattern}" for pattern in _SLIM]
        _call(["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", *slim, SUITE, str(files)])
        # A container gets its own.
        (files / "etc/resolv.conf").unlink(missing_ok=True)

    return _kept(_digest("base", SUITE, *_SLIM), make)


def folder_layer(files: Mapping[str, Path]) -> Layer:
    """A layer of single files: path in the image → file here."""

    def make(folder: Path) -> None:
        for target, source in files.items():
            place = folder / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)

    return _kept(_digest("files", *(f"{t}={_content(s)}" for t, s in sorted(files.items()))), make)


def run_layer(below: Sequence[Layer], run: Run, sources: Mapping[str, Path]) -> Layer:
    """What ``run`` adds to ``below`` (lowest first). ``sources``: its binds, target → what is there."""
    contents = [f"{target}={_content(source)}" for target, source in sources.items()]
    key = _digest(below[-1].key, run.command, json.dumps(dict(run.env), sort_keys=True), *contents)
    return _kept(key, lambda files: _run(below, run, sources, files))


def _kept(key: str, make: Callable[[Path], None]) -> Layer:
    def make_layer(folder: Path) -> None:
        (folder / "files").mkdir()
        make(folder / "files")
        write_archive(folder / "files", folder / "layer.tar")
        with (folder / "layer.tar").open("rb") as archive:
            (folder / "digest").write_text("sha256:" + hashlib.file_digest(archive, "sha256").hexdigest())

    folder = once(cache_folder("layers", key), make_layer)
    return Layer(key, folder / "files", folder / "layer.tar", (folder / "digest").read_text())


def _run(below: Sequence[Layer], run: Run, sources: Mapping[str, Path], files: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".run-", dir=files.parent) as temporary:
        work, root = Path(temporary, "work"), Path(temporary, "root")
        work.mkdir()
        root.mkdir()
        lower = ":".join(str(layer.files) for layer in reversed(below))
        options = f"lowerdir={lower},upperdir={files},workdir={work},index=off,metacopy=off,redirect_dir=off"
        binds, trust = _trust()
        binds += [(source, target) for target, source in sources.items()]
        script = ["set -eu", f"mount -t overlay overlay -o {shlex.quote(options)} {root}"]
        script += [f"mount -t proc proc {root}/proc", f"mount --rbind /dev {root}/dev"]
        script += [_bind(source, root, target) for source, target in binds]
        environment = {**_PLAIN, **_environment(), **trust, **run.env}
        words = [f"{name}={value}" for name, value in environment.items()]
        script.append(shlex.join(["exec", "chroot", str(root), "env", "-i", *words, "sh", "-c", run.command]))
        # A mount namespace of its own: whatever happens, no mount is left behind.
        _call(["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script)])
        for _, target in binds:
            _remove_mount_point(files, target)
        for temporary_folder in ("tmp", "run"):
            shutil.rmtree(files / temporary_folder, ignore_errors=True)


def _trust() -> tuple[list[tuple[Path, str]], dict[str, str]]:
    """How this machine reaches the network is how a step reaches it: resolver and trusted authorities."""
    binds = [(Path(f"/etc/{name}"), f"/etc/{name}") for name in ("hosts", "resolv.conf")]
    environment: dict[str, str] = {}
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        binds.append((certificates, "/run/host/ca-certificates.crt"))
        environment |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), "/run/host/ca-certificates.crt")
    java = Path("/etc/ssl/certs/java/cacerts")
    if java.exists():
        binds.append((java, "/run/host/cacerts"))
        environment["JAVA_TOOL_OPTIONS"] = "-Djavax.net.ssl.trustStore=/run/host/cacerts"
    return binds, environment


def _environment() -> dict[str, str]:
    skipped = ("PIP_FIND_LINKS", "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_PREFIX", "PIP_CONFIG_FILE")
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_PASSED_ON) and name not in skipped
    }


def _bind(source: Path, root: Path, target: str) -> str:
    place = shlex.quote(f"{root}{target}")
    make = f"mkdir -p {place}" if source.is_dir() else f'mkdir -p "$(dirname {place})"; touch {place}'
    return f"{make}\nmount --bind -o ro {shlex.quote(str(source))} {place}"


def _remove_mount_point(files: Path, target: str) -> None:
    """The empty file or folder that a bind needed, and the empty folders that only it needed."""
    place = files / target.lstrip("/")
    if place.is_dir():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    for parent in place.parents:
        if parent == files or not parent.is_dir() or any(parent.iterdir()) or parent.name == "etc":
            return
        parent.rmdir()


def find_in(layers: Sequence[Layer], path: str) -> Path:
    """A file of an image, as its highest layer that has it. Raises NoImages."""
    for layer in reversed(layers):
        if (layer.files / path.lstrip("/")).exists():
            return layer.files / path.lstrip("/")
    raise NoImages(f"{path} is in none of the layers of that stage; the Dockerfile binds it")


def write_archive(files: Path, archive: Path) -> None:
    """``files`` as a layer: sorted, no names of users, removals in the form that images have for them."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(files.rglob("*")):
            name = str(path.relative_to(files))
            status = path.lstat()
            if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
                tar.addfile(tarfile.TarInfo(str(Path(name).parent / f".wh.{path.name}")))
                continue
            if stat.S_ISSOCK(status.st_mode) or name.startswith("dev/"):
                continue
            entry = tar.gettarinfo(str(path), name)
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
            if path.is_dir() and not path.is_symlink() and _is_opaque(path):
                tar.addfile(tarfile.TarInfo(f"{name}/.wh..wh..opq"))


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _content(path: Path) -> str:
    """A digest of a file, or of all files of a folder that belong to the source."""
    digest = hashlib.sha256()
    for file in _sources(path):
        digest.update(f"{file.relative_to(path.parent)}\0{os.access(file, os.X_OK)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _sources(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and not any(p == "__pycache__" or p.endswith(".egg-info") for p in file.parts)
    ]


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        words = f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        raise NoImages(f"a step of an image failed with {done.returncode}:\n{command[-1]}\n{words}")
