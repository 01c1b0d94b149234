"""What the author of a connector brings to the suite."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar


class Trial(ABC):
    """One connector with a source and a sink of its own. ``directory``: for whatever the trial needs.

    Records are texts that differ; how they lie in the source and in the sink is the trial's own affair.
    """

    connector_class: ClassVar[str]
    """The name of the entry point."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    def config(self) -> Mapping[str, str]:
        """A configuration that works, with small batches, so that there is a middle of the stream."""

    @abstractmethod
    def refused(self) -> Iterable[tuple[Mapping[str, str], str]]:
        """Changes of ``config`` that make no sense, each with the option that the error has to name."""

    @abstractmethod
    def prepare(self) -> None:
        """Called once, before the connector is created. The source has two units or more after it."""

    @abstractmethod
    def feed(self, records: Sequence[str]) -> None:
        """Put new records into the source, spread over its units."""

    @abstractmethod
    def found(self) -> Counter[str]:
        """How often each record is in the sink, as its readers see it. An exception means "look again"."""

    def grow(self) -> bool:
        """Add a unit to the source; ``feed`` uses it from now on. False: this source cannot grow."""
        return False
