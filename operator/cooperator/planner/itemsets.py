"""Cached sets of items: what is configured, and what a member reports.

Most rounds change little. A report or a configuration that is equal to an earlier one gives the same set
objects again, which need not be compared element by element. These are caches of pure functions: they save
time and affect no decision.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from operator import itemgetter
from typing import NamedTuple, cast

from cooperator.model import INSTANCE, TaskId
from cooperator.model.ids import same_object
from cooperator.model.recent import MOST_ITEMS, Recent, set_of

# TaskId's constructor is slow Python code; a configuration may have 100,000 tasks.
_new_task_id = cast(Callable[[type[TaskId], tuple[str, int]], TaskId], tuple.__new__)


class Items(NamedTuple):
    """A set of items and its two parts: connector instances and tasks are balanced separately (KIP-415)."""

    all: frozenset[TaskId]
    instances: frozenset[TaskId]
    tasks: frozenset[TaskId]


class Configured(NamedTuple):
    """What is configured. ``ordered``: instances, then tasks, each sorted; ``connectors``: sorted names."""

    items: Items
    ordered: tuple[tuple[TaskId, ...], tuple[TaskId, ...]]
    connectors: tuple[str, ...]

    def sort(self, items: Collection[TaskId], instances: bool) -> list[TaskId]:
        """Sort ``items``, which are configured and of one kind."""
        in_order = self.ordered[not instances]
        if len(items) == len(in_order):
            return list(in_order)
        if len(items) * 8 < len(self.connectors):
            return sorted(items)
        by_name = dict(zip(map(itemgetter(0), items), items, strict=True))
        if len(by_name) == len(items):
            return list(map(by_name.__getitem__, filter(by_name.__contains__, self.connectors)))
        if len(items) * 8 < len(in_order):
            return sorted(items)
        return [item for item in in_order if item in items]


def configured(task_counts: Mapping[str, int]) -> Configured:
    """Return the items of ``task_counts`` (connector name to its number of tasks, without the instance)."""
    for known, items in _recent:
        if known == task_counts:
            return items
    made = _configured(task_counts)
    _recent.appendleft((dict(task_counts), made))
    return made


_recent: deque[tuple[Mapping[str, int], Configured]] = deque(maxlen=4)


def _configured(task_counts: Mapping[str, int]) -> Configured:
    in_order = sorted(task_counts.items())
    instances = tuple(same_object(TaskId(connector, INSTANCE)) for connector, _ in in_order)
    tasks = tuple(
        same_object(_new_task_id(TaskId, (connector, n)))
        for connector, count in in_order
        for n in range(count)
    )
    return Configured(
        Items(frozenset(instances + tasks), frozenset(instances), frozenset(tasks)),
        (instances, tasks),
        tuple(map(itemgetter(0), instances)),
    )


_parts: Recent[frozenset[TaskId], Items] = Recent(MOST_ITEMS)


def reported(owned: tuple[TaskId, ...]) -> Items:
    """Return what a member reports, as sets; the same objects for the same items."""
    found = set_of(owned)
    items = _parts.get(found)
    if items is None:
        instances = frozenset([item for item in owned if item[1] == INSTANCE])
        items = Items(found, instances, found - instances if instances else found)
        _parts.put(found, items, len(found))
    return items


def split(items: frozenset[TaskId], of: Items) -> Items:
    """Split ``items``, a subset of ``of``, into its parts."""
    if items is of.all:
        return of
    known = _parts.get(items)
    if known is None:
        instances = items & of.instances
        known = Items(items, instances, items - instances if instances else items)
        _parts.put(items, known, len(items))
    return known


class ByConnector(NamedTuple):
    """``counts``: items per connector. ``only``: each connector's item, if every connector has just one."""

    counts: Mapping[str, int]
    only: Mapping[str, TaskId] | None


_by_connector: Recent[int, tuple[frozenset[TaskId], ByConnector]] = Recent(MOST_ITEMS)


def by_connector(items: frozenset[TaskId]) -> ByConnector:
    """Group ``items`` by connector; do not modify the result."""
    # Keyed by identity: comparing two equal sets of different objects takes as long as counting.
    known = _by_connector.get(id(items))
    if known is None or known[0] is not items:
        only = dict(zip(map(itemgetter(0), items), items, strict=True))
        if len(only) == len(items):
            known = items, ByConnector(dict.fromkeys(only, 1), only)
        else:
            known = items, ByConnector(dict(Counter(map(itemgetter(0), items))), None)
        _by_connector.put(id(items), known, len(items))
    return known[1]


def prepare(owned: tuple[TaskId, ...]) -> None:
    """Cache what a plan needs of a member that reports ``owned`` when other members come or go."""
    items = reported(owned)
    by_connector(items.instances)
    by_connector(items.tasks)


def connector_counts(items: frozenset[TaskId]) -> Mapping[str, int]:
    """Return the number of ``items`` per connector; do not modify the result."""
    return by_connector(items).counts
