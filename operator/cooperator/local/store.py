"""The local API server: one YAML file per resource, checked before it gets in, replaced in one step."""

import contextlib
import fcntl
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from cooperator.crd import (
    Connector,
    Problem,
    Resource,
    ResourceError,
    Worker,
    dump,
    forbidden_changes,
    parse,
)
from cooperator.crd.connector import State
from cooperator.crd.status import timestamp
from cooperator.local.layout import absolute_location, write_atomically
from cooperator.runtime.connectors import anchor, find, validate
from cooperator.runtime.options import OptionError
from cooperator.runtime.options import Problem as OptionProblem
from cooperator.runtime.units import fixed_changes


class Key(NamedTuple):
    """What a resource is known by. ``kind``: "Worker" or "Connector"."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, resource: Resource) -> "Key":
        return cls(resource.kind, resource.metadata.namespace, resource.metadata.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


class Change(StrEnum):
    """kubectl's words for what an apply did."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Stored:
    """All resources that can be read, and what is wrong with files that cannot."""

    resources: tuple[Resource, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(r for r in self.resources if isinstance(r, Worker))

    @property
    def connectors(self) -> tuple[Connector, ...]:
        return tuple(r for r in self.resources if isinstance(r, Connector))


Stamp = tuple[tuple[str, int, int], ...]


class ManifestStore:
    """The resources below ``directory``. Commands that change it exclude each other; readers never wait."""

    def __init__(self, directory: Path, clock_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._clock_ms = clock_ms

    def read(self) -> Stored:
        resources: list[Resource] = []
        problems: list[Problem] = []
        for path in self._files():
            try:
                resources += parse(path.read_text(), str(path))
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                problems.append(Problem(str(path), str(error)))
            except ResourceError as error:
                problems += error.problems
        return Stored(tuple(sorted(resources, key=Key.of)), tuple(problems))

    def stamp(self) -> Stamp:
        """Differs after each change; cheap enough to be asked several times a second."""
        stats = ((path.name, path.stat()) for path in self._files() if path.exists())
        return tuple((name, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)

    def apply(self, resources: Sequence[Resource], source: str) -> list[tuple[Key, Change]]:
        """Store all of them, or raise ResourceError with every problem and store none."""
        with self._exclusive():
            known = {Key.of(resource): resource for resource in self.read().resources}
            stock = {key for key, r in {**known, **{Key.of(r): r for r in resources}}.items() if _is_stock(r)}
            problems = [p for r in resources for p in _problems(r, known.get(Key.of(r)), source, stock)]
            if problems:
                raise ResourceError(*problems)
            return [(Key.of(r), self._put(r, known.get(Key.of(r)))) for r in resources]

    def scale(self, key: Key, replicas: int) -> Worker | None:
        """The Worker before the change; None when there is none. Raises ResourceError for a bad number."""
        with self._exclusive():
            old = next((w for w in self.read().workers if Key.of(w) == key), None)
            if old is None:
                return None
            spec = old.spec.model_copy(update={"replicas": replicas})
            # Written and read back, since a copy is not checked.
            [new] = parse(dump([old.model_copy(update={"spec": spec})]), str(key))
            self._put(new, old)
            return old

    def delete(self, key: Key) -> bool:
        """False when there was no such resource."""
        with self._exclusive():
            try:
                self._path(key).unlink()
            except FileNotFoundError:
                return False
            return True

    def _put(self, new: Resource, old: Resource | None) -> Change:
        if old is not None and _same(old, new):
            return Change.UNCHANGED
        meta = {
            "uid": old.metadata.uid if old else str(uuid.uuid4()),
            "creation_timestamp": old.metadata.creation_timestamp if old else timestamp(self._clock_ms()),
            "generation": (old.metadata.generation or 0) + (old.spec != new.spec) if old else 1,
        }
        stored = new.model_copy(update={"metadata": new.metadata.model_copy(update=meta)})
        write_atomically(self._path(Key.of(new)), dump([stored]))
        return Change.CONFIGURED if old else Change.CREATED

    def _path(self, key: Key) -> Path:
        return self._directory / f"{key.kind.lower()}.{key.namespace}.{key.name}.yaml"

    def _files(self) -> list[Path]:
        # Hidden files are writes that have not been put in place.
        return sorted(path for path in self._directory.glob("*.yaml") if not path.name.startswith("."))

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def anchored(resources: Iterable[Resource], base: Path) -> tuple[Resource, ...]:
    """The resources with local paths, written relative to the manifest in ``base``, made absolute."""
    return tuple(_anchored(resource, base) for resource in resources)


def _anchored(resource: Resource, base: Path) -> Resource:
    if isinstance(resource, Worker):
        location = resource.spec.checkpoint_location
        if location is None:
            return resource
        update = {"checkpoint_location": absolute_location(location, base)}
        return resource.model_copy(update={"spec": resource.spec.model_copy(update=update)})
    try:
        config = anchor(resource.spec.class_, resource.spec.config, base)
    except OptionError:
        return resource  # An unknown class, which is said when the resource is checked.
    return resource.model_copy(update={"spec": resource.spec.model_copy(update={"config": config})})


def _is_stock(resource: Resource) -> bool:
    return isinstance(resource, Worker) and resource.spec.is_stock


def _problems(new: Resource, old: Resource | None, source: str, stock: Collection[Key]) -> Iterator[Problem]:
    """``stock``: Workers whose members have connectors of their own, which say what they refuse."""
    described = f"{new.kind} {new.metadata.name}"
    if isinstance(new, Connector):
        is_stock = Key("Worker", new.metadata.namespace, new.spec.worker_ref.name) in stock
        found = [] if is_stock else validate(new.spec.class_, _config(new))
        # Of one that is stopped the offsets may have been reset; its instance knows, and refuses the rest.
        if isinstance(old, Connector) and old.spec.state is not State.STOPPED and not is_stock:
            found += _fixed_changes(old, new)
        for problem in found:
            field = "spec.class" if problem.option == "connector.class" else f"spec.config.{problem.option}"
            told = f"{problem} (Worker {new.spec.worker_ref.name})" if field == "spec.class" else str(problem)
            yield Problem(source, told, resource=described, field=field)
        messages = forbidden_changes(old, new) if isinstance(old, Connector) else ()
    else:
        messages = forbidden_changes(old, new) if isinstance(old, Worker) else ()
    for message in messages:
        yield Problem(source, message, resource=described)


def _config(connector: Connector) -> dict[str, str]:
    return {
        **connector.spec.config,
        "connector.class": connector.spec.class_,
        "tasks.max": str(connector.spec.tasks_max),
    }


def _fixed_changes(old: Connector, new: Connector) -> list[OptionProblem]:
    try:
        return fixed_changes(find(old.spec.class_), _config(old), _config(new))
    except OptionError:
        return []  # A class that is not installed any more.


def _same(old: Resource, new: Resource) -> bool:
    """Whether the user's part of both is equal."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )
