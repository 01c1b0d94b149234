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

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


class ClusterError(Exception):
    """The request cannot be carried out; the text has the reason and a remedy."""


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


def write_atomically(path: Path, text: str) -> None:
    """Replaces ``path`` atomically: a reader, or a crash in the middle, sees the old or the new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The name contains the process: two commands may write one file at the same time.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


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
