"""One turn of one contender: throughput, delay, or nothing to do."""

import math
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.pipelines.copying import create_table
from benchmarks.pipelines.job import ROOT, Contender, ContenderFailed, Converter, Job, Running, Sink
from benchmarks.pipelines.meter import Meter
from benchmarks.pipelines.records import Lots, Rows, create_topics, delete_topics, due_ns, number_due
from benchmarks.pipelines.sinks import Probe, probe_of
from benchmarks.pipelines.surroundings import Surroundings

_LOOK_S: Final = 0.2
_QUIET_S: Final = 1.5
"""A sink whose mark stands still for so long is counted."""
_REST_S: Final = 3.0
"""Between the last of the first lot and the clock: a JVM compiles on, and caches are written."""
_PRODUCER_START_NS: Final = 2_000_000_000
_NUMBERS: Final = count(1)

Result = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """The data of a throughput turn: ``warm`` rows are there before the clock starts, ``rows`` after it."""

    sink: Sink
    size_bytes: int
    partitions: int
    rows: int
    warm: int
    converter: Converter = "bytes"


@dataclass(frozen=True)
class Limits:
    """``start_s`` bounds the time until the first lot is done, ``work_s`` that for the measured one."""

    start_s: float = 900.0
    work_s: float = 1_800.0


def throughput(around: Surroundings, contender: Contender, load: Load, limits: Limits) -> Result:
    """Measure one lot on a contender that has done another one before. Raises ContenderFailed."""
    with _turn(around, load.sink, load.partitions, load.converter) as job:
        lots = Lots(job.bootstrap_servers, job.topic, load.partitions, _rows(around, load))
        lots.warm(load.warm)
        lots.hide(load.warm, load.warm + load.rows)
        try:
            began = time.monotonic()
            with _running(contender, job) as running, _metered(around, running) as meter:
                probe = probe_of(job)
                warm_at, _ = _await(probe, load.warm, running.check, limits.start_s)
                time.sleep(_REST_S)
                started = time.monotonic()
                lots.release()
                running.go()
                ended, found = _await(probe, load.warm + load.rows, running.check, limits.work_s)
                spent = meter.between(started, ended)
                probe.close()
        finally:
            lots.drop()
    wall_s = ended - started
    return {
        "start_s": round(warm_at - began, 2),
        "wall_s": round(wall_s, 2),
        "rows_per_s": round(load.rows / wall_s),
        "rows_per_cpu_s": round(load.rows / spent.cpu_s),
        "cpu_s_per_million": round(spent.cpu_s / load.rows * 1e6, 2),
        "more_than_once": found - load.warm - load.rows,
        **_rounded(asdict(spent)),
    }


@dataclass(frozen=True)
class Trickle:
    """``rate`` records a second over all partitions. The first ``warm_s`` seconds are not measured."""

    partitions: int
    rate: int
    size_bytes: int
    warm_s: float
    seconds: float


def delay(around: Surroundings, contender: Contender, trickle: Trickle, limits: Limits) -> Result:
    """Measure each record's time from when it was due to a reader of committed records at the sink.

    The cores used meanwhile are measured, too. Records that have not arrived ``seconds`` after the last one
    was due count as endless delays.
    """
    with _turn(around, "kafka", trickle.partitions) as job:
        Lots(job.bootstrap_servers, job.topic, job.partitions, Rows(100)).warm(job.partitions)
        began = time.monotonic()
        with _running(contender, job) as running, _metered(around, running) as meter:
            started_at, _ = _await(probe_of(job), job.partitions, running.check, limits.start_s)
            reader = _Reader(job)
            with _producer(around, job, trickle) as first_ns:
                begin_ns = first_ns + round(trickle.warm_s * 1e9)
                end_ns = begin_ns + round(trickle.seconds * 1e9)
                begin = _watch_until(running, begin_ns)
                end = _watch_until(running, end_ns)
                spent = meter.between(begin, end)
                first, last = (number_due(trickle.rate, at_ns - first_ns) for at_ns in (begin_ns, end_ns))
                expected = last - first
                # Records go on coming meanwhile, so that the last ones wait no longer than others.
                delays_ms = reader.delays_ms(begin_ns, end_ns, expected, trickle.seconds)
    missing = expected - len(delays_ms)
    return {
        "start_s": round(started_at - began, 2),
        "median_ms": _quantile(delays_ms, missing, 0.5),
        "p99_ms": _quantile(delays_ms, missing, 0.99),
        "longest_ms": _quantile(delays_ms, missing, 1.0),
        "records": len(delays_ms),
        "missing": missing,
        "cores": round(spent.cpu_s / (end - begin), 3),
        **_rounded(asdict(spent)),
    }


def idle(around: Surroundings, contender: Contender, units: int, seconds: float, limits: Limits) -> Result:
    """Measure the cores used while ``units`` partitions get nothing, after each has got a record."""
    with _turn(around, "kafka", units) as job:
        Lots(job.bootstrap_servers, job.topic, units, Rows(100)).warm(units)
        began = time.monotonic()
        with _running(contender, job) as running, _metered(around, running) as meter:
            started_at, _ = _await(probe_of(job), units, running.check, limits.start_s)
            _watch(running, min(30.0, seconds))
            begin = time.monotonic()
            _watch(running, seconds)
            end = time.monotonic()
            spent = meter.between(begin, end)
    return {
        "start_s": round(started_at - began, 2),
        "cores": round(spent.cpu_s / (end - begin), 4),
        **_rounded(asdict(spent)),
    }


# --- the parts of a turn ---


@contextmanager
def _turn(around: Surroundings, sink: Sink, partitions: int, converter: Converter = "bytes") -> Iterator[Job]:
    """A job with new topics and a new directory, both of which go at the end."""
    number = next(_NUMBERS)
    directory = around.root / f"turn-{number}"
    directory.mkdir()
    job = Job(
        directory,
        around.bootstrap_servers,
        f"lot{number}",
        partitions,
        sink,
        converter,
        around.registry_url() if converter == "avro" else "",
        around.database() if sink == "postgres" else {},
    )
    topics = [job.topic, job.target] if sink == "kafka" else [job.topic]
    create_topics(job.bootstrap_servers, partitions, *topics)
    if sink == "postgres":
        create_table(job)
    try:
        yield job
    except ContenderFailed:
        _keep_logs(directory, around.failures / f"turn-{number}")
        raise
    finally:
        delete_topics(job.bootstrap_servers, *topics)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _running(contender: Contender, job: Job) -> Iterator[Running]:
    running = contender.start(job)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def _metered(around: Surroundings, running: Running) -> Iterator[Meter]:
    meter = Meter(running.roots, lambda: [*around.servers(), *running.beside()])
    meter.start()
    try:
        yield meter
    finally:
        meter.stop()


def _rows(around: Surroundings, load: Load) -> Rows:
    return Rows(load.size_bytes, load.converter, around.registry_url() if load.converter == "avro" else "")


def _await(probe: Probe, wanted: int, check: Callable[[], None], limit_s: float) -> tuple[float, int]:
    """Wait until the sink has so many rows.

    Returns when the last of them came, on ``time.monotonic``, and the number of rows. Raises ContenderFailed
    after ``limit_s``.
    """
    deadline = time.monotonic() + limit_s
    mark, since = -1, time.monotonic()
    while True:
        now = time.monotonic()
        seen = probe.mark()
        if seen != mark:
            mark, since = seen, now
        elif seen >= wanted and now > since + _QUIET_S:
            found = probe.count()
            if found >= wanted:
                return since, found
            since = time.monotonic()
        if now > deadline:
            raise ContenderFailed(f"{probe.count()} of {wanted} rows are there after {limit_s:g} s")
        check()
        time.sleep(_LOOK_S)


def _watch(running: Running, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        running.check()
        time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))


def _watch_until(running: Running, at_ns: int) -> float:
    """Wait until that time since the epoch; returns it on ``time.monotonic``."""
    at = time.monotonic() + (at_ns - time.time_ns()) / 1e9
    _watch(running, at - time.monotonic())
    return at


@contextmanager
def _producer(around: Surroundings, job: Job, trickle: Trickle) -> Iterator[int]:
    """Yields when it begins. It is a process of its own, so that the reader here is not in its way."""
    begin_ns = time.time_ns() + _PRODUCER_START_NS
    arguments = (
        *(job.bootstrap_servers, job.topic, trickle.partitions, trickle.rate, trickle.size_bytes),
        begin_ns,
    )
    command = [sys.executable, "-m", "benchmarks.pipelines.records", *map(str, arguments)]
    producer = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    around.helpers.append(producer.pid)
    try:
        yield begin_ns
    finally:
        producer.kill()
        producer.wait()
        around.helpers.remove(producer.pid)


class _Reader:
    """Reads the target from its present end on, and notes when each record came."""

    def __init__(self, job: Job) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": job.bootstrap_servers,
                "group.id": f"reader-{job.topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "latest",
                # The broker answers after 10 ms, not for each record: reading is not what should cost.
                "fetch.min.bytes": 1_000_000,
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        partitions = [TopicPartition(job.target, number) for number in range(job.partitions)]
        for partition in partitions:
            partition.offset = self._consumer.get_watermark_offsets(partition, 30)[1]
        self._consumer.assign(partitions)
        self._seen: dict[int, float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, name="reader", daemon=True)
        self._thread.start()

    def delays_ms(self, begin_ns: int, end_ns: int, expected: int, patience_s: float) -> list[float]:
        """The delays of the records due in that time, sorted; waits for those that are missing."""
        deadline = time.monotonic() + patience_s
        while True:
            found = [late for at, late in list(self._seen.items()) if begin_ns <= at < end_ns]
            if len(found) >= expected or time.monotonic() > deadline:
                break
            time.sleep(_LOOK_S)
        self._ending.set()
        self._thread.join()
        self._consumer.close()
        return sorted(found)

    def _read(self) -> None:
        while not self._ending.is_set():
            messages = self._consumer.consume(500, 0.005)
            now_ns = time.time_ns()
            for message in messages:
                if not message.error():
                    at_ns = due_ns(message.value() or bytes(8))
                    # A record that comes once more was there before.
                    self._seen.setdefault(at_ns, (now_ns - at_ns) / 1e6)


def _quantile(sorted_ms: list[float], missing: int, share: float) -> float | None:
    """A quantile of delays, of which ``missing`` are endless; None if it is one of these."""
    place = max(0, math.ceil(share * (len(sorted_ms) + missing)) - 1)
    return round(sorted_ms[place], 1) if place < len(sorted_ms) else None


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}


def _keep_logs(directory: Path, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for log in directory.rglob("*.log"):
        shutil.copy(log, into / log.name)
