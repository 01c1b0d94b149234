"""Lists, alters and resets the offsets of a stopped connector, as a dry run or for real.

The caller must make sure that nothing runs (the connector is Stopped, and no member runs anything of it). An
undetected attempt that still runs first loses its claim on the unit, and so commits nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cooperator.connectors import find
from cooperator.connectors.bounds import allowed_options
from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, altered, changes
from cooperator.connectors.offsets.sources import (
    About,
    ConnectorOffsets,
    SourceOffsets,
    UnitPlace,
    Where,
)
from cooperator.connectors.offsets.unit_log import unfence
from cooperator.connectors.options import Options
from cooperator.connectors.places import Place, directories, remove_tree
from cooperator.connectors.references import Resolver
from cooperator.connectors.topics import GroupCluster
from cooperator.connectors.units import Owner, directory, layout_file, read_layout


@dataclass(frozen=True, slots=True)
class Subject:
    """The connector to work on.

    ``config`` is flat, as in the config log. ``checkpoints`` and ``conf`` (Spark's, resolved) are its
    Worker's.
    """

    name: str
    class_name: str
    config: Mapping[str, str]
    group_id: str
    checkpoints: Place
    resolver: Resolver
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


def listed(subject: Subject) -> list[Entry]:
    """Returns the positions of all units that have one."""
    options, source = _opened(subject)
    if isinstance(source, ConnectorOffsets):
        return source.listed(options, _about(subject))
    return [entry for place in places(subject) for entry in source.current(options, place)]


def alter(subject: Subject, wanted: Sequence[Entry], *, dry_run: bool) -> list[Change]:
    """Moves the given partitions; an offset of None forgets one. Returns the changes, also for a dry run."""
    options, source = _opened(subject)
    if isinstance(source, ConnectorOffsets):
        return source.alter(options, _about(subject), wanted, dry_run=dry_run)
    units: dict[str, list[Entry]] = {}
    for entry in wanted:
        units.setdefault(source.unit_of(options, entry.partition), []).append(entry)
    source.check(options, [entry for entry in wanted if entry.offset is not None])
    there = {place.unit: place for place in places(subject)}
    plan = []
    for unit, entries in units.items():
        place = there.get(unit) or _place(subject, unit)
        current = source.current(options, place)
        plan.append((place, current, altered(current, entries)))
    return _carry_out(source, options, plan, dry_run)


def reset(subject: Subject, where: Where | None = None, *, dry_run: bool) -> list[Change]:
    """Resets the connector's offsets; returns the changes, also for a dry run.

    Without ``where`` everything is forgotten, including the fixed options; the connector then starts as a new
    one. With ``where``, all units that have begun move to that end of their source's current contents.
    """
    options, source = _opened(subject)
    there = list(places(subject))
    if isinstance(source, ConnectorOffsets):
        gone = source.reset(options, _about(subject), where, dry_run=dry_run)
        if where is None and not dry_run:
            _remove_checkpoints(subject, there)
        return gone
    if where is not None:
        plan = [(p, source.current(options, p), source.at(options, p, where)) for p in there]
        return _carry_out(source, options, plan, dry_run)
    for place in there:
        source.refuse_forgetting(options, place)
    gone = [Change(e.partition, e.offset, None) for p in there for e in source.current(options, p)]
    if not dry_run:
        for place in there:
            unfence(place.checkpoint)
        _remove_checkpoints(subject, there)
    return gone


def migrate(subject: Subject, *, dry_run: bool) -> list[Change]:
    """Takes over positions from checkpoints of earlier releases; returns them, also for a dry run."""
    options, source = _opened(subject)
    if not isinstance(source, ConnectorOffsets):
        raise OffsetsError(
            f"{subject.name}: connectors of class {subject.class_name} keep their positions in checkpoints, "
            "so that there is nothing to migrate"
        )
    return source.migrate(options, _about(subject), dry_run=dry_run)


def _remove_checkpoints(subject: Subject, places: Iterable[UnitPlace]) -> None:
    for place in places:
        remove_tree(place.checkpoint)
    layout_file(subject.checkpoints, subject.name).unlink(missing_ok=True)


def _about(subject: Subject) -> About:
    return About(subject.group_id, subject.name, subject.checkpoints, tuple(places(subject)), subject.conf)


def _carry_out(
    source: SourceOffsets[Any],
    options: Options,
    plan: Iterable[tuple[UnitPlace, list[Entry], list[Entry]]],
    dry_run: bool,
) -> list[Change]:
    """Carries out the plan. As far as possible, ``OffsetsError`` is raised before anything is written."""
    found: list[Change] = []
    for place, current, after in plan:
        different = changes(current, after)
        found += different
        if not dry_run:
            # This also runs when nothing differs, to complete an interrupted change.
            unfence(place.checkpoint)
            source.move(options, place, after)
    return found


def _opened(subject: Subject) -> tuple[Options, SourceOffsets[Any] | ConnectorOffsets[Any]]:
    """Returns the connector's options and source.

    Raises ``OptionError`` when it cannot run, or when the checkpoints are another group's.
    """
    connector = find(subject.class_name)
    source = connector.offsets()
    if source is None:
        raise OffsetsError(f"{subject.name}: connectors of class {subject.class_name} do not support offsets")
    config = {**subject.config, "connector.class": subject.class_name}
    options, _, _ = allowed_options(connector.options, config, subject.resolver)
    check_owner(subject)
    return options, source


def check_owner(subject: Subject) -> None:
    """Raises ``OptionError`` when the checkpoints are another group's."""
    if (layout := read_layout(subject.checkpoints, subject.name)) is not None:
        owner = Owner(subject.group_id, GroupCluster(subject.resolver).id_if_known())
        layout.check_owner(subject.checkpoints, subject.name, owner)


def places(subject: Subject) -> Iterator[UnitPlace]:
    """Yields the units that have checkpoints."""
    root = directory(subject.checkpoints, subject.name)
    yield from (_place(subject, name) for name in directories(root))


def _place(subject: Subject, unit: str) -> UnitPlace:
    checkpoint = directory(subject.checkpoints, subject.name) / unit
    return UnitPlace(subject.group_id, subject.name, unit, checkpoint, subject.conf)
