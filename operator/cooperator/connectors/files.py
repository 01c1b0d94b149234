"""Splits files into buckets, and lists the files that Spark sees: the Java filter's rules, in Python."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path


def bucket_of(relative_path: str, buckets: int) -> int:
    """Returns a file's bucket: CRC-32 of its path (UTF-8) below the source's root (``a/b.txt``).

    The bucket is the same on every machine and in every release: units depend on it.
    """
    return zlib.crc32(relative_path.encode()) % buckets


def visible_files(root: Path) -> Iterator[Path]:
    """Yields the files below ``root`` that Spark reads.

    Spark skips files and directories whose names begin with ``.`` or ``_`` (unless they contain ``=``), and
    files that are still being copied (``._COPYING_``).
    """

    def hidden(name: str) -> bool:
        underscored = name.startswith("_") and "=" not in name
        return underscored or name.startswith(".") or name.endswith("._COPYING_")

    for directory, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if not hidden(name))
        yield from (Path(directory, name) for name in sorted(names) if not hidden(name))
