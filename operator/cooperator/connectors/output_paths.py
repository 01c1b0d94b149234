"""Directories that connectors' file sinks use exclusively, compared without touching them. Pure.

A directory has the positions of one connector, or the log of one of Spark's file sinks. One inside another
is shared, too: who reads the outer one finds the rows of both.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Final

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(//([^/]*))?(/.*)?\Z", re.DOTALL)
_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes of clients of the same object store."""
LOCAL: Final = "file:"


def normal(directory: str, default: str = LOCAL) -> str:
    """Returns one spelling for each directory, as Hadoop reads it: ``file:/a/b``, ``s3://bucket/a``.

    ``default`` is the file system of directories that name none (``fs.defaultFS``).
    """
    scheme, authority, path = _parts(directory)
    if not scheme:
        scheme, authority, root = _parts(default)
        path = f"{root}/{path}" if root.strip("/") and not path.startswith("/") else path
    elif not authority and scheme == _parts(default)[0]:
        authority = _parts(default)[1]
    scheme = _SAME_STORE.get(scheme, scheme)
    where = "" if scheme == "file" else f"//{authority}"
    return f"{scheme}:{where}/{posixpath.normpath('/' + path).lstrip('/')}".rstrip("/")


def path_of(directory: str) -> str:
    """Returns the path of a directory as it is written, without scheme and authority."""
    return _parts(directory)[2]


def _parts(directory: str) -> tuple[str, str, str]:
    match = None if directory.startswith("/") else _URI.match(directory)
    if match is None:
        return "", "", directory
    return match[1].lower(), (match[3] or "").lower(), match[4] or ""


def above(directory: str) -> Iterator[str]:
    """Yields the directory and those that it is in, with what stands before the root."""
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]
