"""The part of the suite that the author of a connector implements."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar


class Trial(ABC):
    """One connector with a source and a sink of its own. ``directory`` is free for the trial's use.

    Records are distinct texts; the trial decides how the source and the sink store them.
    """

    connector_class: ClassVar[str]
    """The name of the entry point."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """Returns a valid configuration with small batches, so that there is a middle of the stream."""

    @abstractmethod
    def refused(self) -> Iterable[tuple[Mapping[str, str], str]]:
        """Yields invalid changes of ``config``, each with the option that the error must name."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepares the source, with two units or more; called once, before the connector is created."""

    @abstractmethod
    def feed(self, records: Sequence[str]) -> None:
        """Puts new records into the source, spread over its units."""

    @abstractmethod
    def found(self) -> Counter[str]:
        """Counts each record in the sink, as its readers see it. An exception means "retry"."""

    def grow(self) -> bool:
        """Adds a unit to the source, for ``feed`` to use; returns False if this source cannot grow."""
        return False
