"""Whether a partition is silent since there is nothing new, or since its reader hears nothing any more."""

from dataclasses import dataclass
from typing import Final

_MOST_SPARED: Final = 32


@dataclass
class Silence:
    """What looks at one partition have shown. Offsets are those to be read next; it knows no clock.

    A look asks first whether nothing has come since the one before (``is_quiet``), and only then where the
    partition ends (``is_lost``).
    """

    _position: int | None = None
    _behind: bool = False
    _tries: int = 0
    _spared: int = 0

    def is_quiet(self, position: int) -> bool:
        """Whether it is to be asked where the partition ends: the reader is where it was at the last look."""
        if position != self._position:
            self._position, self._behind, self._tries, self._spared = position, False, 0, 0
            return False
        if self._spared:
            self._spared -= 1
            return False
        return True

    def is_lost(self, position: int, end: int) -> bool:
        """Whether the reader stands before the end, and stood there already when the last answer came."""
        if position != self._position:
            return False
        before, self._behind = self._behind, end > position
        return before and self._behind

    def disturb(self) -> None:
        """Nobody could have heard anything for a while: the next answer is the first one."""
        self._behind = False

    def begin_anew(self) -> None:
        """Another consumer is tried. While it brings nothing either, one more is tried ever more rarely."""
        self._behind = False
        self._tries += 1
        self._spared = min(2**self._tries, _MOST_SPARED)
