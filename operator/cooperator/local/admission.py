"""The checks of the local API server that look beyond the fields of one resource.

They load the connectors, so commands that only change a stored field do without this module.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cooperator.connectors import anchor, find, validate
from cooperator.connectors.bounds import check_bounds
from cooperator.connectors.extras import Need, needs_of_connector, needs_of_members, not_installed
from cooperator.connectors.options import IN_PATTERNS, PATTERN, OptionError
from cooperator.connectors.options import Problem as OptionProblem
from cooperator.connectors.references import Resolver, contains_reference, forbidden_files, own_topics
from cooperator.connectors.tasks import LoopingConnector, TaskConnector
from cooperator.connectors.units import fixed_changes, read_layout
from cooperator.crd import (
    Connector,
    FieldProblem,
    Resource,
    ResourceError,
    Worker,
    forbidden_changes,
    forbidden_move,
)
from cooperator.crd.connector import State
from cooperator.crd.connector_names import name_is_taken, same_name
from cooperator.host.outputs import newly_withheld
from cooperator.local.layout import StateDir, absolute_location
from cooperator.local.outputs import claims
from cooperator.local.stored import Key, Stored, worker_of


def problems(new: Sequence[Resource], stored: Stored, source: str, state: StateDir) -> list[FieldProblem]:
    """Returns all reasons why ``new`` cannot be applied to what is ``stored`` in ``state``."""
    known = {Key.of(resource): resource for resource in stored.resources}
    after = {**known, **{Key.of(resource): resource for resource in new}}
    stock = {key for key, resource in after.items() if _is_stock(resource)}
    connectors = [resource for resource in after.values() if isinstance(resource, Connector)]
    return [
        *(problem for resource in new for problem in _of_resource(resource, stored, source, stock, state)),
        *_sharing(known, new, source),
        *_forbidden_files(new, after, source),
        *_name_problems(new, connectors, source, stock),
    ]


def anchored(resources: Iterable[Resource], base: Path) -> tuple[Resource, ...]:
    """Returns the resources with local paths made absolute; they are relative to the manifest in ``base``."""
    return tuple(_anchored(resource, base) for resource in resources)


def _anchored(resource: Resource, base: Path) -> Resource:
    if isinstance(resource, Worker):
        location = resource.spec.checkpoint_location
        if location is None:
            return resource
        update = {"checkpoint_location": absolute_location(location, base)}
        changed = resource.model_copy(update={"spec": resource.spec.model_copy(update=update)})
        if changed.spec != resource.spec and not _is_utf8(base):
            raise _not_relative_to(base, resource, "checkpointLocation", _NOT_UTF8)
        return changed
    try:
        config = anchor(resource.spec.class_, resource.spec.config, base)
    except OptionError:
        return resource  # The check of the resource reports the unknown class.
    why = "" if _is_utf8(base) else _NOT_UTF8
    if not PATTERN.isdisjoint(str(base)):
        why = IN_PATTERNS
    elif contains_reference(str(base)):
        why = "looks like a reference"
    if config != resource.spec.config and why:
        names = [name for name, value in config.items() if value != resource.spec.config[name]]
        raise _not_relative_to(base, resource, f"config.{names[0]}", why)
    return resource.model_copy(update={"spec": resource.spec.model_copy(update={"config": config})})


_NOT_UTF8: Final = "is not UTF-8, in which Java opens files"


def _is_utf8(base: Path) -> bool:
    try:
        str(base).encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_relative_to(base: Path, resource: Resource, field: str, why: str) -> ResourceError:
    message = f"spec.{field} is relative to {str(base)!r}, which {why}: rename it, or use an absolute path"
    described = f"{resource.kind} {resource.metadata.name}"
    return ResourceError(FieldProblem(ascii(str(base)), message, resource=described, field=f"spec.{field}"))


def _of_resource(
    new: Resource, stored: Stored, source: str, stock: Collection[Key], state: StateDir
) -> Iterator[FieldProblem]:
    """``stock`` holds the Workers whose members validate connectors of their own."""
    described = f"{new.kind} {new.metadata.name}"
    old = next((r for r in stored.resources if Key.of(r) == Key.of(new)), None)
    if isinstance(new, Connector):
        is_stock = worker_of(new) in stock
        needs: Iterable[Need] = () if is_stock else needs_of_connector(new.spec.class_, new.spec.config)
        found = [] if is_stock else validate(new.spec.class_, _config(new))
        if isinstance(old, Connector) and not is_stock and _has_progress(old, stored, state):
            found += _fixed_changes(old, new)
        for problem in found:
            field = "spec.class" if problem.option == "connector.class" else f"spec.config.{problem.option}"
            text = f"{problem} (Worker {new.spec.worker_ref.name})" if field == "spec.class" else str(problem)
            yield FieldProblem(source, text, resource=described, field=field)
        bound = stored.bound.get(Key.of(new))
        messages: tuple[str, ...] = (forbidden_move(new, bound),)
        if isinstance(old, Connector) and bound is not None:
            messages += forbidden_changes(old, new)
    else:
        messages = forbidden_changes(old, new) if isinstance(old, Worker) else ()
        needs = () if new.spec.is_stock else _needs_of(new)
    for need, message in not_installed(needs):
        yield FieldProblem(source, message, resource=described, field=need.field)
    for message in filter(None, messages):
        yield FieldProblem(source, message, resource=described)


def _needs_of(worker: Worker) -> Iterable[Need]:
    conf = {name: str(value) for name, value in worker.spec.spark.conf.items()}
    return needs_of_members(conf, worker.spec.checkpoint_location or "")


def _has_progress(connector: Connector, stored: Stored, state: StateDir) -> bool:
    """Whether there may be positions: an instance writes its layout before the first task can start.

    Returns True for a layout in a store or in Kafka, which is not read here. Returns False for a stopped
    connector, whose offsets may have been reset: its instance knows, and refuses what does not fit.
    """
    if Key.of(connector) not in stored.bound or connector.spec.state is State.STOPPED:
        return False
    worker = next((w for w in stored.workers if Key.of(w) == worker_of(connector)), None)
    if worker is None:
        return True
    location = worker.spec.checkpoint_location
    own = state.worker(*Key.of(worker)[1:]).checkpoints
    if (location is not None and "://" in location) or _has_positions_in_sink(connector):
        return True
    try:
        return read_layout(Path(location) if location else own, connector.metadata.name) is not None
    except (OSError, ValueError):
        return True


def _has_positions_in_sink(connector: Connector) -> bool:
    try:
        return isinstance(find(connector.spec.class_), TaskConnector | LoopingConnector)
    except OptionError:
        return False  # The class is no longer installed.


def _forbidden_files(
    resources: Sequence[Resource], all_resources: Mapping[Key, Resource], source: str
) -> Iterator[FieldProblem]:
    """References to files that a Connector's Worker does not allow; members refuse them, too."""
    for each in resources:
        worker = all_resources.get(worker_of(each)) if isinstance(each, Connector) else None
        if isinstance(each, Connector) and isinstance(worker, Worker) and not worker.spec.is_stock:
            for problem in _out_of_bounds(each, worker):
                yield FieldProblem(
                    source,
                    str(problem),
                    resource=f"{each.kind} {each.metadata.name}",
                    field=f"spec.config.{problem.option}",
                )
            for name, message in forbidden_files(each.spec.config, worker.spec.allowed_file_references):
                described = f"{each.kind} {each.metadata.name}"
                yield FieldProblem(source, message, resource=described, field=f"spec.config.{name}")


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


def _sharing(known: Mapping[Key, Resource], new: Sequence[Resource], source: str) -> Iterator[FieldProblem]:
    """Yields the Connectors of ``new`` that would write to another Connector's directory."""
    after = {**known, **{Key.of(resource): resource for resource in new}}
    workers = [resource for resource in after.values() if isinstance(resource, Worker)]
    before, now = (
        claims(workers, [resource for resource in each.values() if isinstance(resource, Connector)])
        for each in (known, after)
    )
    for (_, name), message in newly_withheld(before, now).items():
        yield FieldProblem(source, message, resource=f"Connector {name}", field="spec.config")


def _name_problems(
    resources: Sequence[Resource], connectors: Sequence[Connector], source: str, stock: Collection[Key]
) -> Iterator[FieldProblem]:
    """Yields the conflicts of names in Kafka. ``connectors`` holds all Connectors after the change."""
    for new in resources:
        if not isinstance(new, Connector):
            continue
        worker = worker_of(new)
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
        yield FieldProblem(
            source, message, resource=f"Connector {new.metadata.name}", field="spec.connectorName"
        )


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
