"""Decides whether a partition is silent because it has no new records, or because its reader is stuck."""

from dataclasses import dataclass
from typing import Final

_MOST_SPARED: Final = 32


@dataclass
class Silence:
    """The results of checks of one partition. Offsets are those to read next; it uses no clock.

    A check asks first whether nothing has arrived since the previous one (``is_quiet``), and only then where
    the partition ends (``is_lost``).
    """

    _position: int | None = None
    _behind: bool = False
    _tries: int = 0
    _spared: int = 0

    def is_quiet(self, position: int) -> bool:
        """Return whether to look up the partition's end: the reader has not moved since the last check."""
        if position != self._position:
            self._position, self._behind, self._tries, self._spared = position, False, 0, 0
            return False
        if self._spared:
            self._spared -= 1
            return False
        return True

    def is_lost(self, position: int, end: int) -> bool:
        """Return whether the reader is before the end, and was there already at the previous answer."""
        if position != self._position:
            return False
        before, self._behind = self._behind, end > position
        return before and self._behind

    def disturb(self) -> None:
        """Nothing could be read for a while: the next answer counts as the first one."""
        self._behind = False

    def begin_anew(self) -> None:
        """Note that a new consumer is tried. As long as that does not help, further ones are tried less and
        less often."""
        self._behind = False
        self._tries += 1
        self._spared = min(2**self._tries, _MOST_SPARED)
