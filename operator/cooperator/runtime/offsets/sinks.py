"""What a sink knows of a unit's batches, as far as offsets are concerned."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cooperator.runtime.offsets.entries import OffsetsError
from cooperator.runtime.offsets.sources import UnitPlace
from cooperator.runtime.offsets.unit_log import SinkHas


def _cannot_tell(options: Any, place: UnitPlace, query: str, batch: int) -> bool | None:
    return None


def _nowhere(options: Any, unit: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Sink:
    """``has``: whether a batch, by its query and number, is in the sink (None: that cannot be told).
    ``output``: the directory in which a unit's file sink counts its batches; None: it is no file sink."""

    has: Callable[[Any, UnitPlace, str, int], bool | None] = _cannot_tell
    output: Callable[[Any, str], str | None] = _nowhere

    def at(self, options: Any, place: UnitPlace) -> SinkHas:
        return partial(self.has, options, place)

    def refuse_forgetting(self, options: Any, place: UnitPlace) -> None:
        """A new checkpoint counts its batches from 0, and Spark's file sink skips those that its log has."""
        output = self.output(options, place.unit)
        if output is not None and _log(output).exists():
            raise OffsetsError(
                f"{output} has files of this connector: begun anew, its first batches would be taken for "
                "those that are there, and their rows be lost; move the directory away first, or reset with "
                "--to, which keeps count"
            )


def file_sink(output: Callable[[Any, str], str | None]) -> Sink:
    """Of connectors whose units may each have a directory with a log of batches."""

    def has(options: Any, place: UnitPlace, query: str, batch: int) -> bool | None:
        directory = output(options, place.unit)
        if directory is None:
            return None
        return any((_log(directory) / name).exists() for name in (str(batch), f"{batch}.compact"))

    return Sink(has, output)


def _log(output: str) -> Path:
    return Path(output.removeprefix("file://")) / "_spark_metadata"
