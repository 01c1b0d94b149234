"""A sink's record of a unit's batches, as far as offsets need it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.offsets.sources import UnitPlace
from cooperator.connectors.offsets.unit_log import SinkHas
from cooperator.connectors.output_paths import LOCAL, normal
from cooperator.connectors.places import Place, names, store_place


def _cannot_tell(options: Any, place: UnitPlace, query: str, batch: int) -> bool | None:
    return None


def _nowhere(options: Any, unit: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Sink:
    """``has`` tells whether a batch, by its query and number, is in the sink (None: unknown).

    ``output`` returns the directory in which a unit's file sink counts its batches; None: it is no file sink.
    """

    has: Callable[[Any, UnitPlace, str, int], bool | None] = _cannot_tell
    output: Callable[[Any, str], str | None] = _nowhere

    def at(self, options: Any, place: UnitPlace) -> SinkHas:
        return partial(self.has, options, place)

    def refuse_forgetting(self, options: Any, place: UnitPlace) -> None:
        """Raises ``OffsetsError`` if the unit's file sink contains batches, or if that cannot be determined
        on this machine.

        A new checkpoint counts its batches from 0, and Spark's file sink skips those that its log has.
        """
        output = self.output(options, place.unit)
        if output is None:
            return
        log = _log(output, place)
        if log is None:
            raise OffsetsError(
                f"{output} cannot be read from here; if it contains files of this connector, the first "
                f"batches after a reset would be skipped"
                ": reset with --to, which keeps the batch numbers, or create the "
                "connector under another name with another directory"
            )
        if any(name.partition(".")[0].isdigit() for name in names(log)):
            raise OffsetsError(
                f"{output} has files of this connector: after a reset its first batches would be skipped as "
                "already written, and their rows would be lost; move the directory away first, or reset with "
                "--to, which keeps the batch numbers"
            )


def file_sink(output: Callable[[Any, str], str | None]) -> Sink:
    """Returns the sink of connectors whose units may each have a directory with a log of batches."""

    def has(options: Any, place: UnitPlace, query: str, batch: int) -> bool | None:
        directory = output(options, place.unit)
        if directory is None:
            return None
        log = _log(directory, place)
        if log is None:
            raise OffsetsError(
                f"unit {place.unit}: it is unknown here whether {directory} has batch {batch}, which was in "
                "flight when the unit stopped; resume the connector until the batch is done, and stop it "
                "again"
            )
        return any((log / name).exists() for name in (str(batch), f"{batch}.compact"))

    return Sink(has, output)


def _log(output: str, place: UnitPlace) -> Place | None:
    """Returns the log of a directory; None if only Spark can reach it."""
    found = normal(output, place.conf.get("spark.hadoop.fs.defaultFS", LOCAL))
    if found.startswith(LOCAL):
        return Path(found.removeprefix(LOCAL)) / "_spark_metadata"
    scheme, _, where = found.partition(":")
    if scheme != "s3":
        return None
    return store_place(f"s3a:{where}/_spark_metadata", place.conf, os.environ, "a sink's path")
