"""New files of a task's units, listed by the JVM: Hadoop's file systems, once for all units."""

import json
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from cooperator.connectors.filelogs.file_log import FileLogs, SourceFile
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.unit_logs import LogEnds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_AT_ONCE: Final = 10_000
"""Files of all units that wait here; the JVM keeps the others."""
_LEAST: Final = 100
"""Files of a unit that wait here at most, however many units there are."""
_SHARE: Final = 4
"""A listing that takes long is made less often, so that it takes at most a quarter of the time."""


class NotListed(Exception):
    """The directory cannot be listed now; the message says why."""


class Listing(Protocol):
    """The files that a task has not seen. It is for one thread; ``close`` may be called by any."""

    def clear(self) -> None:
        """Forgets all paths."""

    def know(self, digests: bytes) -> None:
        """Adds paths that were read (``names.digest``, one after the other)."""

    def forget(self, paths: Sequence[str]) -> None:
        """Forgets paths that were taken and not read."""

    def list(self) -> None:
        """Lists the directory. Raises ``NotListed``."""

    def take(self, buckets: Sequence[int], limit: int) -> Mapping[int, Sequence[SourceFile]]:
        """Returns files of these buckets, the oldest first, at most ``limit`` of each; none is returned
        twice."""

    def close(self) -> None:
        """Ends a listing that runs."""


class SparkListing:
    """``Listing`` by the session's JVM (``FileListing.java``)."""

    def __init__(
        self,
        spark: "SparkSession",
        path: str,
        *,
        recursive: bool,
        wholetext: bool,
        glob: str,
        buckets: int,
        units: Collection[int],
    ) -> None:
        untyped: Any = spark
        options = {
            "path": path,
            "recursive": recursive,
            "wholetext": wholetext,
            "glob": glob,
            "buckets": buckets,
            "units": sorted(units),
        }
        self._path = path
        package = untyped._jvm.dev.cooperator.spark
        self._java: Any = package.FileListing(untyped._jsparkSession, json.dumps(options))

    def root(self) -> str:
        """Returns the directory's path in its file system, with a slash at its end."""
        return str(self._java.root())

    def clear(self) -> None:
        self._java.clear()

    def know(self, digests: bytes) -> None:
        self._java.know(digests)

    def forget(self, paths: Sequence[str]) -> None:
        self._java.forget(json.dumps(list(paths)))

    def list(self) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            self._java.list()
        except Py4JJavaError as error:
            java = error.java_exception
            text = str(java.toString())
            if "FileNotFoundException" in text:
                raise NotListed(f"waiting for the directory {self._path}") from None
            raise NotListed(f"the directory {self._path} cannot be listed: {text}") from error

    def take(self, buckets: Sequence[int], limit: int) -> Mapping[int, Sequence[SourceFile]]:
        found: dict[int, list[SourceFile]] = {}
        for bucket, path, modified_ms, size, is_whole in json.loads(
            self._java.take(json.dumps(list(buckets)), limit)
        ):
            found.setdefault(bucket, []).append(SourceFile(path, modified_ms, size, is_whole))
        return found

    def close(self) -> None:
        self._java.close()


class NewFiles(LogEnds):
    """``LogEnds`` of files. A batch begins as soon as there is something to read; the directory is listed at
    most once in an interval.
    """

    def __init__(
        self,
        logs: FileLogs,
        listing: Listing,
        interval_ms: int,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` returns seconds."""
        super().__init__(logs, interval_ms, say, clock)
        self._logs = logs
        self._listing = listing
        self._buckets = {bucket_number(unit): partition for partition, unit in logs.units.items()}
        self._limit = max(_LEAST, _AT_ONCE // len(self._buckets))

    def _look(self, positions: Mapping[Partition, int]) -> float:
        if self._clock() >= self._due_s:
            self._list()
        self._take(positions)
        return self._due_s

    def _interrupt(self) -> None:
        self._listing.close()

    def _list(self) -> None:
        began_s = self._clock()
        said = ""
        try:
            self._listing.list()
        except NotListed as error:
            said = str(error)
        self._tell(said)
        now_s = self._clock()
        self._due_s = max(began_s + self._interval_s, now_s + (_SHARE - 1) * (now_s - began_s))

    def _take(self, positions: Mapping[Partition, int]) -> None:
        """Takes more for the units that have read all that was taken before."""
        done = [
            bucket for bucket, each in self._buckets.items() if self._logs[each].end == positions.get(each)
        ]
        if done:
            for bucket, files in self._listing.take(done, self._limit).items():
                self._logs[self._buckets[bucket]].append(files)


def bucket_number(unit: str) -> int:
    """Returns the bucket of a unit ``bucket-NUMBER-of-COUNT``."""
    return int(unit.split("-")[1])
