"""The local API server: one YAML file per resource, validated on admission, replaced atomically."""

import contextlib
import fcntl
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from cooperator.connectors import anchor, find, validate
from cooperator.connectors.bounds import check_bounds
from cooperator.connectors.options import OptionError
from cooperator.connectors.options import Problem as OptionProblem
from cooperator.connectors.references import Resolver, forbidden_files, own_topics
from cooperator.connectors.units import fixed_changes, read_layout
from cooperator.crd import (
    Connector,
    Problem,
    Resource,
    ResourceError,
    Worker,
    dump,
    forbidden_changes,
    forbidden_move,
    parse,
)
from cooperator.crd.connector import State
from cooperator.crd.connector_names import name_is_taken, same_name
from cooperator.crd.status import timestamp
from cooperator.host.outputs import newly_withheld
from cooperator.local.layout import StateDir, absolute_location, read_json, write_atomically, write_json
from cooperator.local.outputs import claims


class Key(NamedTuple):
    """The identity of a resource. ``kind`` is "Worker" or "Connector"."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, resource: Resource) -> "Key":
        return cls(resource.kind, resource.metadata.namespace, resource.metadata.name)

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.name}"


class Change(StrEnum):
    """The effect of an apply, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Stored:
    """All resources that can be read, and the problems of files that cannot.

    ``bound`` maps Connectors whose tasks may have started to the Worker of their group.
    """

    resources: tuple[Resource, ...]
    problems: tuple[Problem, ...] = ()
    bound: Mapping[Key, str] = field(default_factory=dict)

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(r for r in self.resources if isinstance(r, Worker))

    @property
    def connectors(self) -> tuple[Connector, ...]:
        return tuple(r for r in self.resources if isinstance(r, Connector))


Stamp = tuple[tuple[str, int, int], ...]


class ManifestStore:
    """The manifests of a state directory. Commands that change it exclude each other; readers never wait."""

    def __init__(self, state: StateDir, clock_ms: Callable[[], int]) -> None:
        self._state = state
        self._directory = state.manifests
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
            new = [c for c in stored.connectors if Key.of(c) not in stored.bound and _worker_of(c) in workers]
            for connector in new:
                note = {"uid": connector.metadata.uid, "worker": connector.spec.worker_ref.name}
                write_json(self._binding(connector), note)
            names = {Key.of(connector): connector.spec.worker_ref.name for connector in new}
            return replace(stored, bound={**stored.bound, **names})

    def stamp(self) -> Stamp:
        """Returns a value that differs after each change, cheaply enough for several calls a second."""
        stats = ((path.name, path.stat()) for path in self._files() if path.exists())
        return tuple((name, stat.st_mtime_ns, stat.st_ino) for name, stat in stats)

    def apply(self, resources: Sequence[Resource], source: str) -> list[tuple[Key, Change]]:
        """Stores all of the resources, or raises ``ResourceError`` with every problem and stores none."""
        with self._exclusive():
            stored = self.read()
            known = {Key.of(resource): resource for resource in stored.resources}
            new = {Key.of(resource): resource for resource in resources}
            stock = {key for key, r in {**known, **new}.items() if _is_stock(r)}
            all_connectors = [r for r in {**known, **new}.values() if isinstance(r, Connector)]
            problems = [p for r in resources for p in self._problems(r, stored, source, stock)]
            problems += _sharing(known, resources, source)
            problems += _forbidden_files(resources, {**known, **new}, source)
            problems += _name_problems(resources, all_connectors, source, stock)
            if problems:
                raise ResourceError(*problems)
            return [(Key.of(r), self._put(r, known.get(Key.of(r)))) for r in resources]

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
            self._put(new, old)
            return old

    def delete(self, key: Key) -> bool:
        """Returns False when there was no such resource."""
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

    def _problems(
        self, new: Resource, stored: Stored, source: str, stock: Collection[Key]
    ) -> Iterator[Problem]:
        """``stock`` holds the Workers whose members validate connectors of their own."""
        described = f"{new.kind} {new.metadata.name}"
        old = next((r for r in stored.resources if Key.of(r) == Key.of(new)), None)
        if isinstance(new, Connector):
            is_stock = _worker_of(new) in stock
            found = [] if is_stock else validate(new.spec.class_, _config(new))
            if isinstance(old, Connector) and not is_stock and self._has_progress(old, stored):
                found += _fixed_changes(old, new)
            for problem in found:
                field = (
                    "spec.class" if problem.option == "connector.class" else f"spec.config.{problem.option}"
                )
                text = (
                    f"{problem} (Worker {new.spec.worker_ref.name})"
                    if field == "spec.class"
                    else str(problem)
                )
                yield Problem(source, text, resource=described, field=field)
            bound = stored.bound.get(Key.of(new))
            messages: tuple[str, ...] = (forbidden_move(new, bound),)
            if isinstance(old, Connector) and bound is not None:
                messages += forbidden_changes(old, new)
        else:
            messages = forbidden_changes(old, new) if isinstance(old, Worker) else ()
        for message in filter(None, messages):
            yield Problem(source, message, resource=described)

    def _has_progress(self, connector: Connector, stored: Stored) -> bool:
        """Whether there may be checkpoints: an instance writes its layout before the first task can start.

        Returns True for checkpoints in a store, which cannot be read here. Returns False for a stopped
        connector, whose offsets may have been reset: its instance knows, and refuses what does not fit.
        """
        if Key.of(connector) not in stored.bound or connector.spec.state is State.STOPPED:
            return False
        worker = next((w for w in stored.workers if Key.of(w) == _worker_of(connector)), None)
        if worker is None:
            return True
        location = worker.spec.checkpoint_location
        own = self._state.worker(*Key.of(worker)[1:]).checkpoints
        if location is not None and "://" in location:
            return True
        try:
            return read_layout(Path(location) if location else own, connector.metadata.name) is not None
        except (OSError, ValueError):
            return True

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
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def anchored(resources: Iterable[Resource], base: Path) -> tuple[Resource, ...]:
    """Returns the resources with local paths made absolute; they are relative to the manifest in ``base``."""
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
        return resource  # The check of the resource reports the unknown class.
    return resource.model_copy(update={"spec": resource.spec.model_copy(update={"config": config})})


def _forbidden_files(
    resources: Sequence[Resource], all_resources: Mapping[Key, Resource], source: str
) -> Iterator[Problem]:
    """References to files that a Connector's Worker does not allow; members refuse them, too."""
    for each in resources:
        worker = all_resources.get(_worker_of(each)) if isinstance(each, Connector) else None
        if isinstance(each, Connector) and isinstance(worker, Worker) and not worker.spec.is_stock:
            for problem in _out_of_bounds(each, worker):
                yield Problem(
                    source,
                    str(problem),
                    resource=f"{each.kind} {each.metadata.name}",
                    field=f"spec.config.{problem.option}",
                )
            for name, message in forbidden_files(each.spec.config, worker.spec.allowed_file_references):
                described = f"{each.kind} {each.metadata.name}"
                yield Problem(source, message, resource=described, field=f"spec.config.{name}")


def _out_of_bounds(connector: Connector, worker: Worker) -> Sequence[OptionProblem]:
    """Paths and topics that the Worker does not allow. Members see the same links."""
    config = connector.spec.config
    bounds = Resolver(
        {}, allowed_paths=tuple(worker.spec.allowed_paths), own_topics=own_topics(worker.group_id)
    )
    try:
        check_bounds(find(connector.spec.class_).options, config, config, bounds)
    except OptionError as error:
        return [problem for problem in error.problems if problem.option != "connector.class"]
    return ()


def _is_stock(resource: Resource) -> bool:
    return isinstance(resource, Worker) and resource.spec.is_stock


def _worker_of(connector: Connector) -> Key:
    return Key("Worker", connector.metadata.namespace, connector.spec.worker_ref.name)


def _sharing(known: Mapping[Key, Resource], new: Sequence[Resource], source: str) -> Iterator[Problem]:
    """Yields the Connectors of ``new`` that would write to another Connector's directory."""
    after = {**known, **{Key.of(resource): resource for resource in new}}
    workers = [resource for resource in after.values() if isinstance(resource, Worker)]
    before, now = (
        claims(workers, [resource for resource in each.values() if isinstance(resource, Connector)])
        for each in (known, after)
    )
    for (_, name), message in newly_withheld(before, now).items():
        yield Problem(source, message, resource=f"Connector {name}", field="spec.config")


def _name_problems(
    resources: Sequence[Resource], connectors: Sequence[Connector], source: str, stock: Collection[Key]
) -> Iterator[Problem]:
    """Yields the conflicts of names in Kafka. ``connectors`` holds all Connectors after the change."""
    for new in resources:
        if not isinstance(new, Connector):
            continue
        worker = _worker_of(new)
        other = same_name(connectors, new)
        if other is not None:
            message = name_is_taken(new, other)
        elif new.connector_name != new.metadata.name and worker not in stock:
            message = (
                f"spec.connectorName {new.connector_name!r} is for a Worker with runtime: connect, and there "
                f"is none called {worker.name}: remove it, or apply that Worker first (or with it)"
            )
        else:
            continue
        yield Problem(source, message, resource=f"Connector {new.metadata.name}", field="spec.connectorName")


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
        return []  # The class is no longer installed.


def _same(old: Resource, new: Resource) -> bool:
    """Whether the user's part of both is equal."""
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )
