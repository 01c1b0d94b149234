"""The layout of a state directory: only this module knows the names of its files, and its permanent settings.

Every command reads it first, so it imports no other package.

cluster.json              the broker that this directory belongs to
host.json, host.lock, host.log    the daemon: its address, its lock, its output
host.token                the token of requests to the daemon, for the directory's owner only
manifests/                one YAML file per resource: the users' manifests
bindings/                 one JSON file per Connector whose tasks may have started: the Worker of its group
broker/                   the embedded broker (see ``broker``)
workers/<worker>/checkpoints/     shared by all members, as a shared volume would be
workers/<worker>/members/<member>/    life.json, member.log and the member's private files
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final


class ClusterError(Exception):
    """The request cannot be carried out; the text has the reason and a remedy."""


class StorageError(ClusterError):
    """A file could not be written. It is as it was before, and the same request can be repeated."""


_PROBE_BYTES: Final = 65_536
_FREE_SPACE: Final = "free space on its file system, and try again"
_MAKE_WRITABLE: Final = "make it writable, or use another --state-dir"
_REMEDIES: Final = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "raise the limit for the size of files (ulimit -f), and try again",
    errno.EROFS: _MAKE_WRITABLE,
    errno.EACCES: _MAKE_WRITABLE,
    errno.EPERM: _MAKE_WRITABLE,
    errno.EIO: "its disk fails: replace it",
}


def storage_error(error: OSError, path: Path | None = None) -> StorageError | None:
    """Returns the error of a file that could not be written, with the remedy; None for other errors."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return None
    return StorageError(f"{error.filename or path or 'a file'} cannot be written: {error.strerror}: {remedy}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises ``StorageError`` for a full or unwritable disk in place of ``OSError``."""
    try:
        yield
    except OSError as error:
        # Errors of an open file do not have its name.
        raise storage_error(error, path) or error from None


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The permanent settings of a state directory.

    ``id`` is part of the groups' owner, so that two directories never lead one group. ``bootstrap_servers``
    is None for the embedded broker. ``down``: everything was brought down, or is being brought down.
    """

    id: str
    bootstrap_servers: str | None = None
    down: bool = False


@dataclass(frozen=True, slots=True)
class StateDir:
    """The files below ``root`` (absolute)."""

    root: Path

    @property
    def cluster(self) -> Path:
        return self.root / "cluster.json"

    @property
    def host(self) -> Path:
        return self.root / "host.json"

    @property
    def host_token(self) -> Path:
        return self.root / "host.token"

    @property
    def host_lock(self) -> Path:
        return self.root / "host.lock"

    @property
    def host_log(self) -> Path:
        return self.root / "host.log"

    @property
    def manifests(self) -> Path:
        return self.root / "manifests"

    def binding(self, namespace: str, connector: str) -> Path:
        return self.root / "bindings" / f"{namespace}.{connector}.json"

    @property
    def broker(self) -> Path:
        return self.root / "broker"

    @property
    def workers(self) -> Path:
        return self.root / "workers"

    def worker(self, namespace: str, name: str) -> "WorkerDir":
        return WorkerDir(self.workers / f"{namespace}.{name}")


@dataclass(frozen=True, slots=True)
class WorkerDir:
    """The files of one Worker."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / "worker.yaml"

    @property
    def leader(self) -> Path:
        return self.root / "leader.json"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def members(self) -> Path:
        return self.root / "members"


def write_atomically(path: Path, text: str, mode: int = 0o666) -> None:
    """Replaces ``path`` atomically: a reader, or a crash in the middle, sees the old or the new file.

    ``mode`` is reduced by the umask. Raises ``StorageError``; the file is as it was before.
    """
    write_all({path: text}, mode)


def write_all(texts: Mapping[Path, str], mode: int = 0o666) -> None:
    """Writes like :func:`write_atomically`. A full disk leaves all of the files as they were."""
    # The names contain the process: two commands may write one file at the same time.
    parts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in texts}
    try:
        for path, text in texts.items():
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(parts[path], text, mode)
        for path, part in parts.items():
            with writing(path):
                part.replace(path)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _write(path: Path, text: str, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def check_storage(directory: Path) -> None:
    """Raises ``StorageError`` if nothing can be written to ``directory``."""
    probe = directory / "space"
    write_atomically(probe, "x" * _PROBE_BYTES)
    probe.unlink(missing_ok=True)


def read_json(path: Path) -> dict[str, Any] | None:
    """Returns the object in ``path``; None when there is no such file, or it contains no JSON object."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def known_fields(kind: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of fields of the dataclass ``kind``; a later release may write more."""
    return {field.name: value[field.name] for field in fields(kind) if field.name in value}


def read_cluster(state: StateDir) -> LocalCluster | None:
    value = read_json(state.cluster)
    return LocalCluster(**known_fields(LocalCluster, value)) if value is not None else None


def absolute_location(location: str, base: Path) -> str:
    """Resolves a checkpoint location against ``base``, the manifest's directory; URIs stay as they are."""
    return location if "://" in location else str((base / location).absolute())
