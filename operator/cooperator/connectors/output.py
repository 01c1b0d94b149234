"""Reads the committed output of file sinks without Spark.

Spark's file sink writes its files first and then commits a batch by one entry in ``_spark_metadata``, so a
crash leaves files that do not count. Each unit has a directory and a log of its own; the log is a file
``<batch>`` per batch, and every tenth is ``<batch>.compact``, which repeats all earlier ones. The first line
of a file is its version, each other line a JSON object with the ``path`` of a data file.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import pyarrow as pa

HIDDEN: Final = "_cooperator"
"""The directory in a plain one that has the positions of ``kafka-to-files``."""
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


def plain_files(path: Path | str) -> list[Path]:
    """Returns the visible files of a directory that ``kafka-to-files`` writes to, sorted; else none."""
    root, found = Path(path), list[Path]()
    if not (root / HIDDEN).is_dir():
        return found
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_hidden(name) and not (root / name / _LOG).exists()]
        found += (Path(place, name) for name in names if not _is_hidden(name))
    return sorted(found)


def read_units(path: Path | str) -> "pa.Table":
    """Returns everything that is committed below ``path``, as one table.

    That is what units have committed to logs of Spark's file sink, and the files of a plain directory, which
    any other reader reads as well. The columns of ``partition.by`` are included, as strings or numbers
    depending on their values. The formats parquet, json and csv are supported.
    """
    import pyarrow as pa

    sets = [(unit, committed_files(unit)) for unit in unit_directories(path)]
    tables = [_table(root, files) for root, files in [*sets, (Path(path), plain_files(path))] if files]
    found = [table for table in tables if table is not None]
    return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})


def _table(root: Path, files: list[Path]) -> "pa.Table | None":
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = [file for file in files if file.stat().st_size > 0]
    if not files:
        return None
    formats = {file.suffix.lstrip(".") for file in files}
    if len(formats) != 1:
        raise OutputError(f"{root}: files of several formats: {', '.join(sorted(formats))}")
    dataset = ds.dataset(
        [str(file) for file in files],
        format=formats.pop(),
        partitioning=ds.HivePartitioning.discover(infer_dictionary=False),
        partition_base_dir=str(root),
    )
    each = [fragment.physical_schema for fragment in dataset.get_fragments()]
    schema = pa.unify_schemas([dataset.schema, *each], promote_options="permissive")
    return dataset.replace_schema(schema).to_table()


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
