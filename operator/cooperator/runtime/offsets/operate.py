"""List, alter and reset: what would change, and the change itself, for a connector of which nothing runs.

That nothing runs is the caller's to see to (the connector is Stopped, and no member has anything of it). An
attempt that runs on, unknown to anybody, loses its claim on the unit first of all, and commits nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cooperator.runtime.connectors import find
from cooperator.runtime.offsets.entries import Change, Entry, OffsetsError, altered, changes
from cooperator.runtime.offsets.sources import SourceOffsets, UnitPlace, Where
from cooperator.runtime.offsets.unit_log import unfence
from cooperator.runtime.options import Options, resolved_options
from cooperator.runtime.places import Place, directories, remove_tree
from cooperator.runtime.references import Resolver
from cooperator.runtime.units import directory, layout_file


@dataclass(frozen=True, slots=True)
class Subject:
    """The connector to work on. ``config``: flat, as in the config log; ``checkpoints``: of its Worker."""

    name: str
    class_name: str
    config: Mapping[str, str]
    group_id: str
    checkpoints: Place
    resolver: Resolver


def listed(subject: Subject) -> list[Entry]:
    """The positions of all units that have one."""
    options, source = _opened(subject)
    return [entry for place in _places(subject) for entry in source.current(options, place)]


def alter(subject: Subject, wanted: Sequence[Entry], *, dry_run: bool) -> list[Change]:
    """Moves the partitions that are named; an offset of None forgets one. What changes (or would)."""
    options, source = _opened(subject)
    units: dict[str, list[Entry]] = {}
    for entry in wanted:
        units.setdefault(source.unit_of(options, entry.partition), []).append(entry)
    source.check(options, [entry for entry in wanted if entry.offset is not None])
    places = {place.unit: place for place in _places(subject)}
    plan = []
    for unit, entries in units.items():
        place = places.get(unit) or _place(subject, unit)
        current = source.current(options, place)
        plan.append((place, current, altered(current, entries)))
    return _carry_out(source, options, plan, dry_run)


def reset(subject: Subject, where: Where | None = None, *, dry_run: bool) -> list[Change]:
    """Without ``where``: forgets everything, also the options that were fixed; the connector begins as a
    new one. With it: moves all units that have begun to one end of what their source has now."""
    options, source = _opened(subject)
    places = list(_places(subject))
    if where is not None:
        plan = [(p, source.current(options, p), source.at(options, p, where)) for p in places]
        return _carry_out(source, options, plan, dry_run)
    for place in places:
        source.refuse_forgetting(options, place)
    gone = [Change(e.partition, e.offset, None) for p in places for e in source.current(options, p)]
    if not dry_run:
        for place in places:
            unfence(place.checkpoint)
        for place in places:
            remove_tree(place.checkpoint)
        layout_file(subject.checkpoints, subject.name).unlink(missing_ok=True)
    return gone


def _carry_out(
    source: SourceOffsets[Any],
    options: Options,
    plan: Iterable[tuple[UnitPlace, list[Entry], list[Entry]]],
    dry_run: bool,
) -> list[Change]:
    """OffsetsError of one unit comes before anything is written, as far as it can be known."""
    found: list[Change] = []
    for place, current, after in plan:
        different = changes(current, after)
        found += different
        if not dry_run:
            # Also where nothing differs: a change that was broken off is finished.
            unfence(place.checkpoint)
            source.move(options, place, after)
    return found


def _opened(subject: Subject) -> tuple[Options, SourceOffsets[Any]]:
    """The connector's options and its source; OptionError when it cannot be run as it is configured."""
    connector = find(subject.class_name)
    source = connector.offsets()
    if source is None:
        raise OffsetsError(f"{subject.name}: connectors of class {subject.class_name} tell no offsets")
    config = {**subject.config, "connector.class": subject.class_name}
    options, _, _ = resolved_options(connector.options, config, subject.resolver)
    return options, source


def _places(subject: Subject) -> Iterator[UnitPlace]:
    root = directory(subject.checkpoints, subject.name)
    yield from (_place(subject, name) for name in directories(root))


def _place(subject: Subject, unit: str) -> UnitPlace:
    checkpoint = directory(subject.checkpoints, subject.name) / unit
    return UnitPlace(subject.group_id, subject.name, unit, checkpoint)
