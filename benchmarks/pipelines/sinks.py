"""Observes the progress of a sink without disturbing it, and reads its contents at the end."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.pipelines.job import Job
from cooperator.connectors.output import OutputError, committed_files

_ASK_S: Final = 30.0
_QUIET_S: Final = 10.0
_WAIT_S: Final = 0.1
_LOG: Final = "_spark_metadata"


class Probe(Protocol):
    def mark(self) -> int:
        """A figure that is cheap to get: at least the number of rows that are there, and as long as it does
        not change nothing has been added."""

    def count(self) -> int:
        """The rows that readers see."""

    def close(self) -> None: ...


def probe_of(job: Job) -> Probe:
    if job.sink == "kafka":
        return TopicProbe(job.bootstrap_servers, job.target, job.partitions)
    if job.sink == "files":
        return FilesProbe(job.output)
    return TableProbe(job.database, job.target)


class TopicProbe:
    """A topic; the mark is the sum of the last stable offsets, transactions' markers included."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._admin = AdminClient(self._client)
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def mark(self) -> int:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets(
            dict.fromkeys(self._partitions, latest),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_ASK_S,
        )
        return sum(int(future.result().offset) for future in asked.values())

    def count(self) -> int:
        consumer = Consumer(
            {
                **self._client,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        found = 0
        ended: set[int | None] = set()
        try:
            consumer.assign([TopicPartition(each.topic, each.partition, 0) for each in self._partitions])
            heard_at = time.monotonic()
            while len(ended) < len(self._partitions):
                # It waits this long unless there are so many.
                messages = consumer.consume(10_000, _WAIT_S)
                if messages:
                    heard_at = time.monotonic()
                elif time.monotonic() > heard_at + _QUIET_S:
                    raise RuntimeError(f"{self._partitions[0].topic}: no end within {_QUIET_S:g} s")
                for message in messages:
                    if message.error():
                        ended.add(message.partition())
                    else:
                        found += 1
        finally:
            consumer.close()
        return found

    def close(self) -> None: ...


class FilesProbe:
    """Parquet files below a directory. Where Spark's log says which of them count, only these do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[Path, int] = {}
        self._logs: dict[Path, tuple[int, list[Path]]] = {}

    def mark(self) -> int:
        return sum(self._rows_of(file) for file in self._files())

    def count(self) -> int:
        self._rows.clear()
        self._logs.clear()
        return self.mark()

    def close(self) -> None: ...

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for directory, inner, names in os.walk(self._path):
            folder = Path(directory)
            if _LOG in inner:
                found += self._committed(folder)
                inner.clear()
            else:
                hidden = [name for name in inner if name.startswith((".", "_"))]
                for name in hidden:
                    inner.remove(name)
                found += [
                    folder / name for name in names if name.endswith(".parquet") and name[0] not in "._"
                ]
        return found

    def _committed(self, folder: Path) -> list[Path]:
        changed_ns = (folder / _LOG).stat().st_mtime_ns
        known = self._logs.get(folder)
        if known is not None and known[0] == changed_ns:
            return known[1]
        try:
            files = committed_files(folder)
        except (OutputError, OSError):  # It is being compacted.
            return known[1] if known else []
        self._logs[folder] = changed_ns, files
        return files

    def _rows_of(self, file: Path) -> int:
        from pyarrow.lib import ArrowInvalid
        from pyarrow.parquet import read_metadata

        if file not in self._rows:
            try:
                self._rows[file] = read_metadata(file).num_rows
            except (ArrowInvalid, OSError):  # It is being written.
                return 0
        return self._rows[file]


class TableProbe:
    """A table; the mark is its size in bytes, which is more than its rows."""

    def __init__(self, database: Mapping[str, str], table: str) -> None:
        import psycopg

        parameters: dict[str, Any] = dict(database)
        self._connection: psycopg.Connection[Any] = psycopg.connect(**parameters, autocommit=True)
        self._table = table

    def mark(self) -> int:
        return self._number(f"SELECT pg_relation_size('{self._table}')")

    def count(self) -> int:
        return self._number(f"SELECT count(*) FROM {self._table}")

    def close(self) -> None:
        self._connection.close()

    def _number(self, statement: str) -> int:
        row = self._connection.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])
