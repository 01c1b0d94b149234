"""Sets of items: what is configured, what a member reports, and their parts."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, repeat, starmap
from operator import itemgetter
from typing import NamedTuple, cast

from cooperator.model import INSTANCE, TaskId
from cooperator.model.java import KnownNames

# TaskId's constructor is slow Python code; a configuration may have 100,000 tasks.
_new_task_id = cast(Callable[[type[TaskId], tuple[str, int]], TaskId], tuple.__new__)


class Items(NamedTuple):
    """A set of items and its two parts: connector instances and tasks are balanced separately (KIP-415)."""

    all: frozenset[TaskId]
    instances: frozenset[TaskId]
    tasks: frozenset[TaskId]


class Configured(NamedTuple):
    """The configured items. ``ordered``: instances, then tasks, each sorted; ``connectors``: sorted names.

    ``names``: the same names, encoded.
    """

    items: Items
    ordered: tuple[tuple[TaskId, ...], tuple[TaskId, ...]]
    connectors: tuple[str, ...]
    names: KnownNames

    def sort(self, items: Collection[TaskId], instances: bool) -> Sequence[TaskId]:
        """Sort ``items``, which are configured and of one kind."""
        in_order = self.ordered[not instances]
        if len(items) == len(in_order):
            return in_order
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
    connectors = tuple(sorted(task_counts))
    instances = tuple(map(_new_task_id, repeat(TaskId), zip(connectors, repeat(INSTANCE))))
    named = ((repeat(connector), range(task_counts[connector])) for connector in connectors)
    tasks = tuple(map(_new_task_id, repeat(TaskId), chain.from_iterable(starmap(zip, named))))
    parts = frozenset(instances), frozenset(tasks)
    items = Items(parts[0] | parts[1], *parts)
    return Configured(items, (instances, tasks), connectors, KnownNames.of(connectors))


def reported(owned: tuple[TaskId, ...]) -> Items:
    """Return what a member reports, as sets."""
    found = frozenset(owned)
    instances = frozenset([item for item in owned if item[1] == INSTANCE])
    return Items(found, instances, found - instances if instances else found)


def split(items: frozenset[TaskId], of: Items) -> Items:
    """Split ``items``, a subset of ``of``, into its parts."""
    if items is of.all:
        return of
    instances = items & of.instances
    return Items(items, instances, items - instances if instances else items)


class ByConnector(NamedTuple):
    """``counts``: items per connector. ``only``: each connector's item, if every connector has just one."""

    counts: dict[str, int]
    only: Mapping[str, TaskId] | None


def by_connector(items: frozenset[TaskId], most: int) -> ByConnector:
    """Group ``items`` by connector; there are ``most`` connectors, or 0 if that is not known."""
    if 0 < most < len(items):
        return ByConnector(connector_counts(items), None)
    only = dict(zip(map(itemgetter(0), items), items, strict=True))
    if len(only) == len(items):
        return ByConnector(dict.fromkeys(only, 1), only)
    return ByConnector(connector_counts(items), None)


def connector_counts(items: Collection[TaskId]) -> dict[str, int]:
    """Return the number of ``items`` per connector."""
    return dict(Counter(map(itemgetter(0), items))) if items else {}
