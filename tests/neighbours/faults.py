"""The rows of the table of neighbours: what breaks one part of one connector.

Faults are listed in ``FAULTS`` of the files beside this one; ``table.FAULTS`` has all of them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from tests.neighbours.pipelines import Pipeline

BROKEN: Final = "a"
"""The part that a fault breaks."""
OTHERS: Final = ("b", "c")


@dataclass(frozen=True)
class Fault:
    """``broken`` breaks the part ``BROKEN`` of a pipeline, and heals it at the end.

    ``applies`` tells to which pipelines. ``said`` are texts that must all be shown while it is broken, of
    which {name} is the part's source and {target} its target. ``decides``: the pipeline whose cell is in
    every run. ``more`` are options of the connector. ``is_whole_again``: whether the part delivers after it.
    """

    name: str
    title: str
    applies: Callable[[type[Pipeline]], bool]
    broken: Callable[[Pipeline], AbstractContextManager[None]]
    said: tuple[str, ...]
    decides: type[Pipeline]
    more: dict[str, str] = field(default_factory=dict)
    is_whole_again: bool = True

    def texts(self, pipeline: Pipeline) -> list[str]:
        name, target = pipeline.name_of(BROKEN), pipeline.target_of(BROKEN)
        return [text.format(name=name, target=target) for text in self.said]


def reads(*sources: str) -> Callable[[type[Pipeline]], bool]:
    return lambda pipeline: pipeline.source in sources


def writes(*sinks: str) -> Callable[[type[Pipeline]], bool]:
    """Pipelines with such a sink, and with a target of their own for each part."""
    return lambda pipeline: pipeline.sink in sinks and pipeline.is_apart
