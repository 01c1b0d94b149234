"""The article's table 1: what each task gets done while workers and connectors come and go.

Twelve tasks read a backlog of one partition each, at a rate that is far below what the machine can do. So a
task's throughput is its rate times the part of the time in which it makes progress that lasts: committed
offsets of a stock sink, records of ``kafka-to-kafka`` that a reader of committed transactions sees.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.clusters.contenders import Cluster, Load, Own, StockWorkers
from benchmarks.clusters.turns import costs_of
from benchmarks.pipelines.records import create_topics
from tests.harness.support import eventually

TASKS: Final = 12
RATE: Final = 200
"""Records a second of each task, at most."""
BATCH: Final = 100
"""Records that a task takes at a time, at most."""
RECORD_BYTES: Final = 100
LOAD: Final = Load(workers=3, delay_ms=30_000, heap_mb=512, limit_s=300.0)
"""The delay covers the restart of a worker, as users set it."""
STEADY_S: Final = 20.0
"""The time without events before the window, which shows that the rate is below saturation."""
_EVERY_S: Final = 5.0
_SAMPLE_S: Final = 1.0
_STARTS_S: Final = 240.0
_SPARE_S: Final = 60.0


# --- the schedule; it was written, as were the rates, before the first measurement ---


@dataclass(frozen=True, slots=True)
class Event:
    """``at_s``: since the window began."""

    at_s: float
    title: str
    play: Callable[[Cluster], None]


def _neighbour(cluster: Cluster, number: int, tasks: int) -> None:
    cluster.change(f"neighbour-{number}", {**cluster.config(4), "tasks.max": str(tasks)})


def _connectors(until_s: float) -> tuple[Event, ...]:
    """One connector after the other is created, changed twice, and deleted."""
    found = []
    # Whole cycles, so that no connector is left.
    for step in range(int(until_s / _EVERY_S / 4) * 4):
        number = step // 4
        title, play = (
            ("a connector of 2 tasks is created", partial(_neighbour, number=number, tasks=2)),
            ("it gets 3 tasks", partial(_neighbour, number=number, tasks=3)),
            ("it gets 2 tasks", partial(_neighbour, number=number, tasks=2)),
            ("it is deleted", partial(_delete, number=number)),
        )[step % 4]
        found.append(Event((step + 1) * _EVERY_S, title, play))
    return tuple(found)


def _delete(cluster: Cluster, number: int) -> None:
    cluster.delete(f"neighbour-{number}")


def _crash(cluster: Cluster) -> None:
    cluster.kill("lake-1")
    cluster.add("lake-1")


def _restart(cluster: Cluster) -> None:
    cluster.bounce("lake-2")
    cluster.add("lake-2")


WORKERS: Final = (
    Event(30, "a worker joins", lambda cluster: cluster.add("lake-3")),
    Event(60, "a worker is killed, and started again", _crash),
    Event(110, "a worker is restarted in order", _restart),
    Event(150, "a worker leaves", lambda cluster: cluster.depart("lake-3")),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The events of a window. Those of connectors do not wait for those of workers."""

    window_s: float
    workers: tuple[Event, ...] = WORKERS

    @property
    def connectors(self) -> tuple[Event, ...]:
        return _connectors(self.window_s - _EVERY_S)


PLAN: Final = Plan(210.0)
SHORT: Final = Plan(75.0, WORKERS[:2])

CONTENDERS: Final[Mapping[str, Callable[[str, str, Path, Load], Cluster]]] = {
    "stock eager": partial(StockWorkers, protocol="eager"),
    "stock sessioned": partial(StockWorkers, protocol="sessioned"),
    "Eager": partial(Own, policy="Eager", runtime="spark"),
    "Kip415": partial(Own, policy="Kip415", runtime="spark"),
    "Default": partial(Own, policy="Default", runtime="spark"),
}


# --- a turn ---


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records a second: of all tasks, and of the least, the most and the median task."""

    total: float
    least: float
    most: float
    median: float


def throughput(before: Mapping[int, int], after: Mapping[int, int], lasted_s: float) -> Throughput:
    """From the progress of each partition at two times."""
    rates = sorted((after.get(p, 0) - before.get(p, 0)) / lasted_s for p in range(TASKS))
    middle = (rates[(TASKS - 1) // 2] + rates[TASKS // 2]) / 2
    return Throughput(sum(rates), rates[0], rates[-1], middle)


def play_churn(cluster: Cluster, plan: Plan) -> dict[str, Any]:
    """Play the events while a connector copies. Raises RuntimeError if an event could not be played, or if a
    task makes no progress before them."""
    source = f"{cluster.group_id}-source"
    create_topics(cluster.servers, TASKS, source)
    # A task reads on while others start.
    _fill(cluster.servers, source, round(RATE * (plan.window_s + STEADY_S + _SPARE_S)))
    with _reader(cluster) as reader:
        cluster.submit(_name(cluster), _config(cluster, source))
        eventually(lambda: all(reader.progress().get(p, 0) > RATE for p in range(TASKS)), _STARTS_S)
        steady = _over(reader, STEADY_S)
        if not steady.throughput.least:
            raise RuntimeError(f"{cluster.name}: a task makes no progress, though nothing happens")
        played = [Played(cluster, plan.connectors), Played(cluster, plan.workers)]
        for each in played:
            each.start()
        begin_ms = time.time_ns() // 1_000_000
        found = _over(reader, plan.window_s)
        rebalances = len(costs_of(cluster, begin_ms))
        for each in played:
            each.end(cluster.load.limit_s)
    return {
        **{name: round(value, 2) for name, value in asdict(found.throughput).items()},
        "steady": round(steady.throughput.total, 2),
        "lasted_s": round(found.lasted_s, 1),
        "rebalances": rebalances,
        "late": sum(len(each.left) for each in played),
        "events": sorted(event for each in played for event in each.done),
        "progress": found.samples,
    }


@dataclass(frozen=True, slots=True)
class Progress:
    """``samples``: the sum over all tasks since the beginning, by time (s)."""

    throughput: Throughput
    lasted_s: float
    samples: Sequence[tuple[float, int]]


def _over(reader: "CommittedOffsets | VisibleRecords", window_s: float) -> Progress:
    began, before = time.monotonic(), reader.progress()
    samples: list[tuple[float, int]] = []
    while True:
        now, after = time.monotonic() - began, reader.progress()
        samples.append((round(now, 1), sum(after.values()) - sum(before.values())))
        if now >= window_s:
            return Progress(throughput(before, after, now), now, samples)
        time.sleep(_SAMPLE_S)


@dataclass
class Played:
    """Plays events in order in a thread of its own, none before its time. ``left``: those whose time did not
    come before the end, as one before them took so long. ``done``: when (s) each began."""

    cluster: Cluster
    left: Sequence[Event]
    done: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._began = time.monotonic()
        self._thread.start()

    def end(self, limit_s: float) -> None:
        """Begins no more events. Raises RuntimeError if one failed."""
        self._ending.set()
        self._thread.join(limit_s)
        if self._error is not None or self._thread.is_alive():
            title = self.done[-1][1] if self.done else "no event"
            raise RuntimeError(f"{title!r} failed: {self._error or 'it goes on'}")

    def _run(self) -> None:
        try:
            while self.left:
                event = self.left[0]
                if self._ending.wait(max(0.0, self._began + event.at_s - time.monotonic())):
                    return
                self.left = self.left[1:]
                self.done.append((round(time.monotonic() - self._began, 1), event.title))
                event.play(self.cluster)
        except Exception as error:
            self._error = error


def _config(cluster: Cluster, source: str) -> dict[str, Any]:
    if isinstance(cluster, StockWorkers):
        return {
            "connector.class": "cooperator.stock.TimedSink",
            "tasks.max": str(TASKS),
            "topics": source,
            "rate": str(RATE),
            "journal": str(cluster.journal.path),
            "consumer.override.max.poll.records": str(BATCH),
        }
    return {
        "connector.class": "kafka-to-kafka",
        "tasks.max": str(TASKS),
        "topics": source,
        "topic": _target(cluster),
        "record.partition": "keep",
        "max.offsets.per.trigger": str(BATCH),
        "trigger.interval.ms": str(1_000 * BATCH // RATE),
    }


def _name(cluster: Cluster) -> str:
    # Connect names consumer groups after connectors alone, and contenders share a broker.
    return f"copy-{cluster.group_id}"


def _target(cluster: Cluster) -> str:
    return f"{cluster.group_id}-target"


def _fill(servers: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "log_level": 0})
    value = b"x" * RECORD_BYTES
    for number in range(records):
        for partition in range(TASKS):
            producer.produce(topic, value, partition=partition)
        if number % 500 == 0:
            producer.flush(60)
    producer.flush(60)


# --- progress ---


class CommittedOffsets:
    """The progress of a stock sink: the committed offsets of its consumer group."""

    def __init__(self, servers: str, group: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._group = group

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def progress(self) -> dict[int, int]:
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self._group)])
        found = asked[self._group].result(30).topic_partitions
        return {each.partition: max(0, each.offset) for each in found}


class VisibleRecords:
    """The progress of a copy: the records of its target that readers of committed transactions see."""

    def __init__(self, servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"reads-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(TASKS)])
        self._seen: Counter[int] = Counter()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reads-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def progress(self) -> dict[int, int]:
        return dict(self._seen)

    def _run(self) -> None:
        while not self._ending.is_set():
            for message in self._consumer.consume(5_000, 0.2):
                if message.error() is None:
                    self._seen[message.partition() or 0] += 1


def _reader(cluster: Cluster) -> CommittedOffsets | VisibleRecords:
    if isinstance(cluster, StockWorkers):
        return CommittedOffsets(cluster.servers, f"connect-{_name(cluster)}")
    create_topics(cluster.servers, TASKS, _target(cluster))
    return VisibleRecords(cluster.servers, _target(cluster))
