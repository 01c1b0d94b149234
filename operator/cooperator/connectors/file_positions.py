"""The position of a unit that reads files: the names of all files that were read, in Kafka.

They are records of the compacted topic ``<group>-files``, a few thousand names in each, written in the
transaction of the batch that read the files. Their keys begin with ``<connector>/<unit>/<snapshot>/``. The
unit's marker has the id of the snapshot and the number of names in it. A position that no batch has reached
(that of a checkpoint of an earlier release, or one that was altered) is a new snapshot with all names.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from confluent_kafka import TopicPartition

from cooperator.connectors import source_log
from cooperator.connectors.kafka_log import Patience, ensure_unit_topic, latest_values, partition_of
from cooperator.connectors.kafka_sink import KafkaSinkOptions
from cooperator.connectors.offsets.entries import OffsetsError
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.places import Place
from cooperator.connectors.source_log import ReadFile
from cooperator.connectors.topics import client_config
from cooperator.connectors.unit_position import KeptPosition, Stated

_RECORD_BYTES: Final = 200_000
FILES_CONFIG: Final = {"cleanup.policy": "compact"}


def record_limit(max_record: int) -> int:
    """Returns how large a record of names may be where no record may have more than ``max_record`` bytes."""
    return min(_RECORD_BYTES, max_record // 2)


def new_snapshot() -> str:
    """Returns the id of a new set of names."""
    return uuid.uuid4().hex[:12]


class FileSnapshot(NamedTuple):
    """A set of names in the sink. ``files`` counts them, so that a missing record is noticed."""

    id: str = ""
    files: int = 0

    def encode(self) -> str:
        return json.dumps({"snapshot": self.id, "files": self.files}) if self.id else ""

    @classmethod
    def decode(cls, position: str) -> "FileSnapshot":
        """Returns the snapshot of a position; one without an id for the source's beginning."""
        if not position:
            return cls()
        content = json.loads(position)
        return cls(str(content["snapshot"]), int(content["files"]))


class FileNames:
    """The names of files that one unit has read.

    ``partition`` has its records, and ``read`` returns the newest ones whose keys begin with the given bytes.
    ``limit_bytes`` bounds a record.
    """

    def __init__(
        self,
        connector: str,
        unit: str,
        partition: TopicPartition,
        read: Callable[[bytes], Mapping[bytes, bytes]],
        limit_bytes: int = _RECORD_BYTES,
    ) -> None:
        self._prefix = f"{connector}/{unit}/"
        self._partition = partition
        self._read = read
        self._limit = record_limit(limit_bytes)

    def records(self, snapshot: str, part: str, files: Iterable[ReadFile]) -> Iterator[OutputRecord]:
        """Yields records with these names; ``part`` distinguishes them within the snapshot."""
        for number, some in enumerate(_chunks(files, self._limit)):
            key = f"{self._prefix}{snapshot}/{part}.{number}"
            yield self._record(key, json.dumps({"files": some}).encode())

    def removals(self) -> Iterator[OutputRecord]:
        """Yields tombstones for all names of the unit that are there now."""
        for key in self._read(self._prefix.encode()):
            yield self._record(key.decode(), None)

    def read(self, snapshot: FileSnapshot) -> list[ReadFile]:
        """Returns the names in a snapshot. Raises ``OffsetsError`` when some are missing."""
        if not snapshot.id:
            return []
        values = self._read(f"{self._prefix}{snapshot.id}/".encode()).values()
        found = [ReadFile(str(uri), int(at)) for value in values for uri, at in json.loads(value)["files"]]
        if len(found) != snapshot.files:
            raise OffsetsError(
                f"topic {self._partition.topic} has the names of {len(found)} of the {snapshot.files} files "
                f"that {self._prefix.rstrip('/')} has read, so that others would be read again: restore the "
                "topic; or stop the Connector, and reset or alter its offsets"
            )
        return found

    def _record(self, key: str, value: bytes | None) -> OutputRecord:
        return OutputRecord(key.encode(), value, self._partition.topic, self._partition.partition)


def names_in_kafka(
    options: KafkaSinkOptions, group_id: str, connector: str, unit: str, patience: Patience
) -> FileNames:
    """Returns the names of the files that a unit has read, and creates their topic unless it exists.

    Raises ``TopicMisconfigured`` if the topic cannot serve.
    """
    client, key = client_config(options), f"{connector}/{unit}"
    partition = partition_of(f"{group_id}-files", key.encode())
    ensure_unit_topic(client, partition.topic, FILES_CONFIG, patience)

    def read(begin: bytes) -> Mapping[bytes, bytes]:
        reader = f"{group_id}-units/{key}"
        return latest_values(client, reader, [partition], lambda key: key.startswith(begin), patience)

    return FileNames(connector, unit, partition, read, options.max_record)


def files_read(
    options: KafkaSinkOptions, group_id: str, connector: str, patience: Patience
) -> Callable[[str], "FilesRead"]:
    """Returns a function that returns the form of a unit's positions."""
    return lambda unit: FilesRead(names_in_kafka(options, group_id, connector, unit, patience))


class FilesRead(KeptPosition):
    """The position in a marker is a snapshot of names, which each batch adds to."""

    def __init__(self, names: FileNames, new_id: Callable[[], str] = new_snapshot) -> None:
        self._names = names
        self._new_id = new_id

    def stated(self, files: list[ReadFile], is_new: bool = False) -> Stated:
        """Returns a new snapshot that replaces all others; ``is_new``: there are none."""
        snapshot = FileSnapshot(self._new_id(), len(files))
        removals = () if is_new else self._names.removals()
        return Stated(snapshot.encode(), (*removals, *self._names.records(snapshot.id, "all", files)))

    def taken(self, checkpoint: Place, batch: int, is_new: bool) -> Stated:
        last = source_log.number_at(checkpoint, batch)
        return self.stated(source_log.files_between(checkpoint, -1, last), is_new)

    def reached(self, checkpoint: Place, batch: int, before: str) -> Stated:
        after = source_log.number_at(checkpoint, batch - 1)
        files = source_log.files_between(checkpoint, after, source_log.number_at(checkpoint, batch))
        snapshot = FileSnapshot.decode(before)
        reached = snapshot._replace(files=snapshot.files + len(files))
        return Stated(reached.encode(), tuple(self._names.records(snapshot.id, f"{batch}", files)))

    def restore(self, checkpoint: Place, position: str) -> tuple[str, str]:
        source_log.write(checkpoint, self._names.read(FileSnapshot.decode(position)))
        # Spark looks at the last batch once more when it starts.
        return source_log.end(-1), source_log.end(0)

    def is_whole(self, checkpoint: Place, newest: int) -> bool:
        return source_log.is_whole(checkpoint, source_log.number_at(checkpoint, newest))


def _chunks(files: Iterable[ReadFile], limit_bytes: int) -> Iterator[list[ReadFile]]:
    """Yields parts of about that many bytes as JSON, each with at least one name."""
    some: list[ReadFile] = []
    size = 0
    for file in files:
        more = len(json.dumps(file)) + 2
        if some and size + more > limit_bytes:
            yield some
            some, size = [], 0
        some.append(file)
        size += more
    if some:
        yield some
