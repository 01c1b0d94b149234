"""Directories that connectors' file sinks use exclusively, compared without touching them. Pure.

Spark's file sink counts its batches in a log in its directory, so that two checkpoints cannot share one. Each
directory has its own log: a directory inside another one is separate from it.
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
    """The directory of one unit.

    Where topics are given, there is one unit per partition of a topic: ``<directory>/<topic>-<partition>``.
    """

    directory: str
    topics: frozenset[str] = frozenset()
    topics_regex: str = ""

    @property
    def is_of_topics(self) -> bool:
        return bool(self.topics or self.topics_regex)

    @property
    def parent(self) -> str:
        """Two outputs can only be the same if their parents are."""
        return self.directory if self.is_of_topics else posixpath.dirname(self.directory)

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
    """Returns a directory that both certainly write to; None if none can be determined.

    It cannot be determined for two different regular expressions.
    """
    if one.parent != other.parent:
        return None
    if not one.is_of_topics and not other.is_of_topics:
        return one.directory if one.directory == other.directory else None
    if one.is_of_topics and other.is_of_topics:
        return _of_common_topics(one, other)
    unit, topics = (other, one) if one.is_of_topics else (one, other)
    topic, dash, number = posixpath.basename(unit.directory).rpartition("-")
    return unit.directory if dash and number.isdigit() and topics._has(topic) else None


def _of_common_topics(one: Output, other: Output) -> str | None:
    if one.topics_regex and one.topics_regex == other.topics_regex:
        return f"{one.directory}/<topic>-<partition>"
    named, reader = (one, other) if one.topics else (other, one)
    common = sorted(topic for topic in named.topics if reader._has(topic))
    return f"{one.directory}/{common[0]}-<partition>" if common else None
