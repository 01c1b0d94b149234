"""COPY by hand: the way to do one load of a table, and what one would write as a program.

As a program, the consumer.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.pipelines.job import ContenderFailed, Job, Processes, Running, last_words, module
from benchmarks.pipelines.records import Rows

COLUMNS: Final = "key, value, part, off"
TABLE: Final = "key text, value text, part integer, off bigint"
_BATCH_ROWS: Final = 10_000
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def create_table(job: Job) -> None:
    import psycopg

    parameters: dict[str, Any] = dict(job.database)
    with psycopg.connect(**parameters) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {job.target}".encode())
        connection.execute(f"CREATE TABLE {job.target} ({TABLE})".encode())


def line(key: str, value: str, partition: int, offset: int) -> str:
    """A row in COPY's text format."""
    return f"{key.translate(_ESCAPES)}\t{value.translate(_ESCAPES)}\t{partition}\t{offset}\n"


class CopyOfFiles:
    """``psql`` copies a file with the first rows, and when the clock starts one with the others.

    Each is one transaction. The files are there before, and nothing is read from Kafka: no other way can be
    much faster.
    """

    name = "COPY of a file"
    guarantee = "none"

    def __init__(self, rows: Rows, warm: int, total: int) -> None:
        self._rows, self._warm, self._total = rows, warm, total

    def start(self, job: Job) -> Running:
        files = []
        for name, begin, end in (("first", 0, self._warm), ("rest", self._warm, self._total)):
            files.append(job.directory / f"{name}.txt")
            with files[-1].open("w") as file:
                file.writelines(self._lines(begin, end, job.partitions))
        running = _Psql(job, files[1])
        running.copy(files[0])
        return running

    def _lines(self, begin: int, end: int, partitions: int) -> Iterator[str]:
        for number in range(begin, end):
            key = self._rows.key(number).decode()
            yield line(key, self._rows.text(number), number % partitions, number // partitions)


class _Psql:
    def __init__(self, job: Job, rest: Path) -> None:
        self._job, self._rest = job, rest
        self._log = job.directory / "psql.log"
        self._running: subprocess.Popen[bytes] | None = None

    def copy(self, file: Path) -> None:
        database: Mapping[str, str] = self._job.database
        with self._log.open("ab") as output:
            self._running = subprocess.Popen(
                ["psql", "-X", "-q", "-c", f"\\copy {self._job.target} ({COLUMNS}) FROM '{file}'"],
                env={
                    **os.environ,
                    "PGHOST": database["host"],
                    "PGPORT": database["port"],
                    "PGUSER": database["user"],
                    "PGPASSWORD": database["password"],
                    "PGDATABASE": database["dbname"],
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # The server's user may not enter the turn's directory, and psql may not start in the other's.
                cwd=tempfile.gettempdir(),
            )

    def roots(self) -> Sequence[int]:
        return [self._running.pid] if self._running is not None else []

    def beside(self) -> Sequence[int]:
        return []

    def check(self) -> None:
        if self._running is not None and self._running.poll():
            raise ContenderFailed(f"psql returned {self._running.returncode}: {last_words(self._log)}")

    def go(self) -> None:
        self.copy(self._rest)

    def stop(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()


class CopyingConsumer:
    """A Python program: a consumer, and a COPY with a transaction for each ten thousand records.

    It keeps no positions.
    """

    name = "consumer with COPY"
    guarantee = "none"

    def start(self, job: Job) -> Running:
        return Processes(module("benchmarks.pipelines.copying", job), job.directory / "consumer.log")


def main(arguments: list[str]) -> int:
    import psycopg
    from confluent_kafka import Consumer, TopicPartition

    job = Job.read(Path(arguments[0]))
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap_servers,
            "group.id": f"by-hand-{job.topic}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(job.topic, number, 0) for number in range(job.partitions)])
    parameters: dict[str, Any] = dict(job.database)
    statement = f"COPY {job.target} ({COLUMNS}) FROM STDIN".encode()
    with psycopg.connect(**parameters, autocommit=True) as connection:
        while True:
            messages = consumer.consume(_BATCH_ROWS, 1.0)
            text = "".join(
                line(
                    (message.key() or b"").decode(),
                    (message.value() or b"").decode(),
                    message.partition() or 0,
                    message.offset() or 0,
                )
                for message in messages
                if not message.error()
            )
            if text:
                with connection.cursor().copy(statement) as copy:
                    copy.write(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
