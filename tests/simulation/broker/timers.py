"""Deadlines by name: setting one again moves it, and a cancelled one never happens."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class Timers(Generic[K]):
    _due_ms: dict[K, int] = field(default_factory=dict)

    def __contains__(self, key: K) -> bool:
        return key in self._due_ms

    def start(self, key: K, due_ms: int) -> None:
        self.cancel(key)
        self._due_ms[key] = due_ms

    def cancel(self, key: K) -> None:
        self._due_ms.pop(key, None)

    def clear(self) -> None:
        self._due_ms.clear()

    def __iter__(self) -> Iterator[K]:
        return iter(self._due_ms)

    def next_ms(self) -> int | None:
        return min(self._due_ms.values(), default=None)

    def pop_due(self, now_ms: int) -> tuple[int, K] | None:
        """The earliest deadline that is due, with its time; of several, the one that was set first."""
        if not self._due_ms:
            return None
        key = min(self._due_ms, key=lambda key: self._due_ms[key])
        if self._due_ms[key] > now_ms:
            return None
        return self._due_ms.pop(key), key
