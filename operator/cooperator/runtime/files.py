"""How files are split into buckets and which files Spark sees: what the Java filter does, in Python."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path


def bucket_of(relative_path: str, buckets: int) -> int:
    """The bucket of a file, by its path below the source's root (``a/b.txt``): CRC-32 of the UTF-8 bytes.
    The same on every machine and in every release: units are made of it."""
    return zlib.crc32(relative_path.encode()) % buckets


def visible_files(root: Path) -> Iterator[Path]:
    """The files below ``root`` that Spark reads: none whose name, or whose directory's name, begins with
    ``.`` or ``_`` (unless it contains ``=``), nor one still being copied (``._COPYING_``)."""

    def hidden(name: str) -> bool:
        underscored = name.startswith("_") and "=" not in name
        return underscored or name.startswith(".") or name.endswith("._COPYING_")

    for directory, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if not hidden(name))
        yield from (Path(directory, name) for name in sorted(names) if not hidden(name))
