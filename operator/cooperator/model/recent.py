"""Memories of pure functions: they save time and decide nothing."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from cooperator.model.ids import TaskId

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")

MOST_ITEMS = 300_000
"""Of one half of a memory of sets of items, which are some 70 bytes an item."""


class Recent(Generic[_K, _V]):
    """What was asked for lately: of two halves the older is forgotten when the newer is full.

    ``most``: the sum of the sizes that a half may have.
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
        """``size``: of ``value``, in the unit of ``most``."""
        if self._size >= self._most:
            self._older, self._newer, self._size = self._newer, {}, 0
        # What is small takes room, too.
        self._size += size + 10
        self._newer[key] = value, size

    def __len__(self) -> int:
        return len(self._newer) + len(self._older)


_sets: Recent[int, tuple[tuple[TaskId, ...], frozenset[TaskId]]] = Recent(MOST_ITEMS)


def set_of(items: tuple[TaskId, ...]) -> frozenset[TaskId]:
    """``items`` as a set; the same object for the same ``items``."""
    known = _sets.get(id(items))
    if known is not None and known[0] is items:
        return known[1]
    found = frozenset(items)
    _sets.put(id(items), (items, found), len(items))
    return found
