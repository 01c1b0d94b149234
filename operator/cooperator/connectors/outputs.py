"""Directories that connectors' file sinks use exclusively, compared without touching them. Pure.

Spark's file sink counts its batches in a log in its directory, so that two checkpoints cannot share one, and
a plain directory with such a log is refused. A directory inside another one is separate from it.
"""

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from cooperator.connectors.patterns import matches

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(//([^/]*))?(/.*)?\Z", re.DOTALL)
_SAME_STORE: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes of clients of the same object store."""
LOCAL: Final = "file:"


@dataclass(frozen=True, slots=True)
class Output:
    """The directory of one unit of Spark's file sink.

    Where topics are given, it is a plain directory for all units, which had earlier directories of their own:
    ``<directory>/<topic>-<partition>``.
    """

    directory: str
    topics: frozenset[str] = frozenset()
    topics_regex: str = ""

    @property
    def is_of_topics(self) -> bool:
        return bool(self.topics or self.topics_regex)

    @property
    def keys(self) -> frozenset[str]:
        """Two outputs can only share a directory if they have a key in common."""
        parent = posixpath.dirname(self.directory)
        return frozenset([self.directory, parent] if self.is_of_topics else [parent])

    def at(self, locate: Callable[[str], str]) -> "Output":
        return replace(self, directory=locate(self.directory))

    def _has(self, topic: str) -> bool:
        if self.topics:
            return topic in self.topics
        return not topic.startswith("__") and matches(self.topics_regex, topic)


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


def shared(one: Output, other: Output) -> str | None:
    """Returns a directory that only one of both may write to; None if there is none."""
    if one.directory == other.directory:
        return one.directory
    if one.is_of_topics == other.is_of_topics:
        return None
    unit, plain = (other, one) if one.is_of_topics else (one, other)
    parent, _, name = unit.directory.rpartition("/")
    topic, dash, number = name.rpartition("-")
    is_unit = bool(dash) and number.isdigit() and plain._has(topic)
    return unit.directory if parent == plain.directory and is_unit else None
