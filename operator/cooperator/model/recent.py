"""Caches of pure functions: they save time and affect no decision."""

from collections.abc import Hashable
from itertools import filterfalse
from typing import Generic, TypeVar

from cooperator.model.ids import TaskId

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_ITEMS = 300_000
"""Size of one half of a cache of item sets, which take some 70 bytes per item."""


class Recent(Generic[_K, _V]):
    """A cache in two halves: the older half is dropped when the newer one is full.

    ``most``: the upper limit for the sum of the sizes in one half.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._newer: dict[_K, tuple[_V, int]] = {}
        self._older: dict[_K, tuple[_V, int]] = {}

    def get(self, key: _K) -> _V | None:
        found = self._newer.get(key)
        if found is None:
            found = self._older.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: _K, value: _V, size: int) -> None:
        """Store ``value``; ``size`` is its size in the unit of ``most``."""
        if self._size >= self._most:
            self._older, self._newer, self._size = self._newer, {}, 0
        # Small entries take space, too.
        self._size += size + 10
        self._newer[key] = value, size

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)


_sets: Recent[int, tuple[tuple[TaskId, ...], frozenset[TaskId]]] = Recent(MOST_ITEMS)
_equal: Recent[frozenset[TaskId], frozenset[TaskId]] = Recent(MOST_ITEMS)


def set_of(items: tuple[TaskId, ...]) -> frozenset[TaskId]:
    """Return ``items`` as a set; the same object for the same items in any order, while it is cached."""
    known = _sets.get(id(items))
    if known is not None and known[0] is items:
        return known[1]
    made = frozenset(items)
    found = _equal.get(made)
    if found is None:
        found = made
        _equal.put(made, made, len(made))
    _sets.put(id(items), (items, found), len(items))
    return found


_Set = frozenset[TaskId]
_rests: Recent[tuple[int, _Set], tuple[_Set, _Set]] = Recent(MOST_ITEMS)
_gone: Recent[tuple[int, int], tuple[_Set, _Set, _Set]] = Recent(MOST_ITEMS)


def without(items: frozenset[TaskId], gone: frozenset[TaskId]) -> frozenset[TaskId]:
    """Return ``items`` − ``gone``; the same object for the same ``items`` and an equal ``gone``.

    A member's remaining items are needed when they are decided, remembered and reported.
    """
    if not gone:
        return items
    known = _rests.get((id(items), gone))
    if known is not None and known[0] is items:
        return known[1]
    rest = items - gone
    _rests.put((id(items), gone), (items, rest), len(rest))
    if len(rest) + len(gone) == len(items):
        _gone.put((id(items), id(rest)), (items, rest, gone), len(rest))
    return rest


def missing(before: frozenset[TaskId], now: frozenset[TaskId]) -> frozenset[TaskId]:
    """Return ``before`` − ``now``; a cache hit if ``without`` made ``now`` from ``before``."""
    known = _gone.get((id(before), id(now)))
    if known is not None and known[0] is before and known[1] is now:
        return known[2]
    return before - now


def remaining(items: tuple[TaskId, ...], gone: frozenset[TaskId]) -> tuple[TaskId, ...]:
    """Return ``items`` without ``gone``, in order; as a set, the result is what ``without`` returns."""
    rest = tuple(filterfalse(gone.__contains__, items))
    _sets.put(id(rest), (rest, without(set_of(items), gone)), len(rest))
    return rest
