"""The local API server: one YAML file per resource, validated on admission, replaced atomically."""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from cooperator.crd import Connector, FieldProblem, Resource, ResourceError, Worker, dump, parse
from cooperator.crd.connector import State
from cooperator.crd.status import timestamp
from cooperator.local.file_lock import acquire
from cooperator.local.layout import ClusterError, StateDir, read_json, write_all, write_json, writing
from cooperator.local.stored import Key as Key
from cooperator.local.stored import Stored as Stored
from cooperator.local.stored import worker_of

_LOCKED_S: Final = 20.0
"""Longer than any command holds the lock."""


class StoredChange(StrEnum):
    """The effect of an apply, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


Stamp = tuple[tuple[str, int, int], ...]


class ManifestStore:
    """The manifests of a state directory. Commands that change it exclude each other; readers never wait."""

    def __init__(self, state: StateDir, clock_ms: Callable[[], int]) -> None:
        self._state = state
        self._directory = state.manifests
        self._clock_ms = clock_ms

    def read(self) -> Stored:
        resources: list[Resource] = []
        problems: list[FieldProblem] = []
        for path in self._files():
            try:
                resources += parse(path.read_text(), str(path))
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                problems.append(FieldProblem(str(path), str(error)))
            except ResourceError as error:
                problems += error.problems
        found = ((Key.of(r), self._bound_worker(r)) for r in resources if isinstance(r, Connector))
        bound = {key: worker for key, worker in found if worker is not None}
        return Stored(tuple(sorted(resources, key=Key.of)), tuple(problems), bound)

    def read_and_bind(self) -> Stored:
        """Reads like :meth:`read`, and binds Connectors before their tasks are started.

        It records that Connectors may have progress in the group of their Worker from now on, so that they
        stay in it. As long as there are problems nothing is recorded, and nothing may be started.
        """
        with self._exclusive():
            stored = self.read()
            if stored.problems:
                return stored
            workers = {Key.of(worker) for worker in stored.workers}
            new = [c for c in stored.connectors if Key.of(c) not in stored.bound and worker_of(c) in workers]
            for connector in new:
                note = {"uid": connector.metadata.uid, "worker": connector.spec.worker_ref.name}
                write_json(self._binding(connector), note)
            names = {Key.of(connector): connector.spec.worker_ref.name for connector in new}
            return replace(stored, bound={**stored.bound, **names})

    def stamp(self) -> Stamp:
        """Returns a value that differs after each change, cheaply enough for several calls a second."""
        return tuple(stamp for path in self._files() if (stamp := _stamp(path)) is not None)

    def apply(self, resources: Sequence[Resource], source: str) -> list[tuple[Key, StoredChange]]:
        """Stores all of the resources, or raises ``ResourceError`` with every problem and stores none."""
        # Users wait for the other commands, which need none of the connectors that it loads.
        from cooperator.local import admission

        with self._exclusive():
            stored = self.read()
            known = {Key.of(resource): resource for resource in stored.resources}
            problems = admission.problems(resources, stored, source, self._state)
            if problems:
                raise ResourceError(*problems)
            return self._put(resources, known)

    def scale(self, key: Key, replicas: int) -> Worker | None:
        """Returns the Worker before the change, or None. Raises ``ResourceError`` for an invalid number."""
        before = self._change(key, replicas=replicas)
        assert before is None or isinstance(before, Worker)
        return before

    def set_state(self, key: Key, state: State) -> bool:
        """Returns False when there is no such Connector."""
        return self._change(key, state=state) is not None

    def _change(self, key: Key, **spec: object) -> Resource | None:
        """Sets fields of a resource's spec; returns the previous resource, or None if there is none."""
        with self._exclusive():
            old = next((r for r in self.read().resources if Key.of(r) == key), None)
            if old is None:
                return None
            changed = old.model_copy(update={"spec": old.spec.model_copy(update=spec)})
            # The resource is written and read back, since a copy is not validated.
            [new] = parse(dump([changed]), str(key))
            self._put([new], {key: old})
            return old

    def delete(self, key: Key) -> bool:
        """Returns False when there was no such resource."""
        with self._exclusive():
            try:
                self._path(key).unlink()
            except FileNotFoundError:
                return False
            return True

    def _put(
        self, resources: Sequence[Resource], known: Mapping[Key, Resource]
    ) -> list[tuple[Key, StoredChange]]:
        changes: list[tuple[Key, StoredChange]] = []
        texts: dict[Path, str] = {}
        for new in resources:
            old = known.get(Key.of(new))
            if old is not None and _same(old, new):
                changes.append((Key.of(new), StoredChange.UNCHANGED))
                continue
            texts[self._path(Key.of(new))] = dump([self._with_metadata(new, old)])
            changes.append((Key.of(new), StoredChange.CONFIGURED if old else StoredChange.CREATED))
        write_all(texts)
        return changes

    def _with_metadata(self, new: Resource, old: Resource | None) -> Resource:
        meta = {
            "uid": old.metadata.uid if old else str(uuid.uuid4()),
            "creation_timestamp": old.metadata.creation_timestamp if old else timestamp(self._clock_ms()),
            "generation": (old.metadata.generation or 0) + (old.spec != new.spec) if old else 1,
        }
        return new.model_copy(update={"metadata": new.metadata.model_copy(update=meta)})

    def _binding(self, connector: Connector) -> Path:
        return self._state.binding(connector.metadata.namespace, connector.metadata.name)

    def _bound_worker(self, connector: Connector) -> str | None:
        note = read_json(self._binding(connector))
        # The note may be of an earlier resource of that name: its successor may be assigned to another
        # Worker.
        return str(note["worker"]) if note and note["uid"] == connector.metadata.uid else None

    def _path(self, key: Key) -> Path:
        return self._directory / f"{key.kind.lower()}.{key.namespace}.{key.name}.yaml"

    def _files(self) -> list[Path]:
        # Hidden files are writes that are not completed.
        return sorted(path for path in self._directory.glob("*.yaml") if not path.name.startswith("."))

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        lock = self._directory / ".lock"
        with writing(lock):
            self._directory.mkdir(parents=True, exist_ok=True)
            file = lock.open("w")
        with file:
            if not acquire(file, _LOCKED_S):
                raise ClusterError(
                    f"another process has held {file.name} for {_LOCKED_S:g} s: end it, and try again"
                )
            yield


def _stamp(path: Path) -> tuple[str, int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None  # Deleted meanwhile.
    return path.name, stat.st_mtime_ns, stat.st_ino


def _same(old: Resource, new: Resource) -> bool:
    """Whether the user's part of both is equal."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )
