"""Reads the committed output of a file sink without Spark.

Spark's file sink writes its files first and then commits a batch by one entry in ``_spark_metadata``, so a
crash leaves files that do not count. Each unit has a directory and a log of its own; the log is a file
``<batch>`` per batch, and every tenth is ``<batch>.compact``, which repeats all earlier ones. The first line
of a file is its version, each other line a JSON object with the ``path`` of a data file.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = "_spark_metadata"
_BATCH = re.compile(r"(\d+)(\.compact)?\Z")


class OutputError(ValueError):
    """The output directory cannot be read as a whole."""


def unit_directories(path: Path | str) -> list[Path]:
    """Returns the directories below ``path`` (the option of the connector) that a unit has written to."""
    return sorted(log.parent for log in Path(path).glob(f"*/{_LOG}"))


def committed_files(unit: Path | str) -> list[Path]:
    """Returns the committed data files of one unit, in the order of their batches.

    Raises ``OutputError`` when the log has a gap, is of an unknown version, or names a file that does not
    exist.
    """
    unit = Path(unit)
    batches: dict[int, Path] = {}
    compacted = -1
    for entry in (unit / _LOG).iterdir():
        match = _BATCH.match(entry.name)
        if match is None:
            continue
        number = int(match[1])
        if match[2]:
            compacted = max(compacted, number)
        if match[2] or number not in batches:
            batches[number] = entry
    needed = [number for number in sorted(batches) if number >= compacted]
    expected = list(range(max(compacted, 0), max(batches, default=-1) + 1))
    if needed != expected:
        raise OutputError(f"{unit / _LOG}: batches {sorted(set(expected) - set(needed))} are missing")
    return [file for number in needed for file in _entries(unit, batches[number])]


def _entries(unit: Path, log: Path) -> Iterator[Path]:
    version, *lines = log.read_text().splitlines()
    if version != "v1":
        raise OutputError(f"{log}: unknown version {version!r}; only v1 is supported")
    for line in lines:
        entry: dict[str, Any] = json.loads(line)
        # Paths are absolute URIs; in an output that was moved as a whole, files are found by the unit's name.
        written = unquote(urlsplit(entry["path"]).path)
        file = Path(written)
        if not file.exists():
            file = unit / written.rpartition(f"/{unit.name}/")[2]
        if not file.exists():
            raise OutputError(f"{log}: {written} was committed, but does not exist")
        yield file


def read_units(path: Path | str) -> "pa.Table":
    """Returns everything that all units below ``path`` have committed, as one table.

    The columns of ``partition.by`` are included, as strings or numbers depending on their values. The formats
    parquet, json and csv are supported.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    tables: list[pa.Table] = []
    for unit in unit_directories(path):
        files = [file for file in committed_files(unit) if file.stat().st_size > 0]
        if files:
            formats = {file.suffix.lstrip(".") for file in files}
            if len(formats) != 1:
                raise OutputError(f"{unit}: files of several formats: {', '.join(sorted(formats))}")
            partitioning = ds.HivePartitioning.discover(infer_dictionary=False)
            dataset = ds.dataset(
                [str(file) for file in files],
                format=formats.pop(),
                partitioning=partitioning,
                partition_base_dir=str(unit),
            )
            tables.append(dataset.to_table())
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
