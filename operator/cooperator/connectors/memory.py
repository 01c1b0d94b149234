"""The memory of a converter: a few bytes of each unit that one attempt leaves to the next."""

from typing import Protocol

from cooperator.connectors.places import Place, put


class UnitMemory(Protocol):
    def read(self) -> bytes | None:
        """Returns what was written last; None: nothing was."""

    def write(self, content: bytes) -> None: ...


class FileMemory:
    """A file of the unit's checkpoint."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def read(self) -> bytes | None:
        try:
            return self._place.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        put(self._place, content)
