"""A stock sink over the article's figures 1 to 3, as its records see them: the time between two batches of a
partition, under each way in which the sink's consumers can share partitions."""

import bisect
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer

from benchmarks.clusters.contenders import Cluster, Load
from benchmarks.clusters.timeline import GrowingFile, Line
from benchmarks.pipelines.records import create_topics

TASKS: Final = 6
PARTITIONS: Final = 12
EVERY_S: Final = 0.05
"""The interval between two records of a partition."""
LOAD: Final = Load(workers=2, delay_ms=60_000, heap_mb=512, limit_s=150.0)
"""The delay is longer than the session time-out of a consumer (45 s), as it is by default."""
SHARING: Final[Mapping[str, Mapping[str, str]]] = {
    "Kafka's default (Range)": {},
    "CooperativeSticky": {
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    },
    "group.protocol=consumer": {"group.protocol": "consumer"},
}
"""The settings of the sink's consumers, by name. Kafka's default is the list Range, CooperativeSticky; its
members are eager, since not all of its assignors are cooperative."""
_AGAIN_S: Final = 0.1
_FRESH_MS: Final = 3_000


# --- what the sink wrote; pure, but for reading the file ---


@dataclass(frozen=True, slots=True)
class Put:
    """A batch of one partition that a task was given at ``at_ms`` (since the epoch): offsets, both
    inclusive."""

    at_ms: int
    task: str
    partition: int
    first: int
    last: int


@dataclass
class PutLog:
    """Reads the file of a ``TimedSink`` as it grows. ``puts``: in order of time, by partition."""

    path: Path
    puts: dict[int, list[Put]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._file = GrowingFile(self.path)

    def poll(self) -> Self:
        for line in self._file.new_lines():
            at_ms, task, *numbers = line.decode().split(" ")
            put = Put(int(at_ms), task, *map(int, numbers))
            # Workers that share the file may write in another order than that of their clocks.
            bisect.insort(self.puts.setdefault(put.partition, []), put, key=lambda each: each.at_ms)
        return self

    def are_fresh(self, now_ms: float) -> bool:
        """Whether each partition was put lately."""
        return len(self.puts) == PARTITIONS and all(
            puts[-1].at_ms >= now_ms - _FRESH_MS for puts in self.puts.values()
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """The longest time (ms) between two puts of ``partition``, within a window. ``moved``: the task that had
    the partition before stopped in the window."""

    partition: int
    gap_ms: float
    moved: bool


def gaps_of(
    puts: Mapping[int, Sequence[Put]], lines: Iterable[Line], begin_ms: float, end_ms: float
) -> list[Gap]:
    """The longest gap of each partition that ends after ``begin_ms`` and begins before ``end_ms``."""
    stopped = {line.task for line in lines if not line.starts and begin_ms <= line.at_ms <= end_ms}
    found = []
    for partition, of_partition in sorted(puts.items()):
        before = [put for put in of_partition if put.at_ms <= begin_ms]
        times = [put.at_ms for put in of_partition if begin_ms < put.at_ms <= end_ms]
        points = [*(put.at_ms for put in before[-1:]), *times, end_ms]
        longest_ms = max((after - first for first, after in itertools.pairwise(points)), default=0)
        found.append(Gap(partition, longest_ms, bool(before) and before[-1].task in stopped))
    return found


def holes(puts: Sequence[Put]) -> tuple[int, int]:
    """The number of offsets of a partition that were skipped, and of those that were put more than once."""
    next_ = skipped = repeated = 0
    for put in sorted(puts, key=lambda each: (each.first, each.last)):
        skipped += max(0, put.first - next_)
        repeated += max(0, min(next_, put.last + 1) - put.first)
        next_ = max(next_, put.last + 1)
    return skipped, repeated


# --- events ---


def _joins(cluster: Cluster) -> None:
    cluster.add("lake-2")


def _restarts(cluster: Cluster) -> None:
    cluster.bounce("lake-1")
    cluster.add("lake-1")


def _bounces(cluster: Cluster) -> None:
    cluster.kill("lake-1")
    cluster.add("lake-1")


def _creates(cluster: Cluster) -> None:
    cluster.create("neighbour", 3)


def _leaves(cluster: Cluster) -> None:
    cluster.kill("lake-2")


@dataclass(frozen=True, slots=True)
class Event:
    """``after`` undoes what would be in the way of the next event; it is not measured."""

    title: str
    play: Callable[[Cluster], None]
    after: Callable[[Cluster], None] = lambda cluster: None


EVENTS: Final[Mapping[str, Event]] = {
    "joins": Event("a worker joins (figure 1)", _joins),
    "restarts": Event("a worker is restarted in order", _restarts),
    "bounces": Event("a worker is killed, and is back within the delay (figure 2)", _bounces),
    "creates": Event(
        "another connector is created", _creates, after=lambda cluster: cluster.delete("neighbour")
    ),
    "leaves": Event(
        "a worker is killed, and stays away (figure 3)", _leaves, after=lambda cluster: cluster.lost("lake-2")
    ),
}
SHORT: Final = ("joins", "restarts")


# --- a turn ---


def play_sinks(
    cluster: Cluster, seed: int, calm_s: float, events: Sequence[str] = tuple(EVENTS)
) -> dict[str, Any]:
    """Run one sink after the other on ``cluster``, in an order that ``seed`` decides, over all ``events``."""
    order = Random(f"{seed} {cluster.directory.name}").sample(sorted(SHARING), len(SHARING))
    return {"order": order, "sinks": {name: _over(cluster, name, calm_s, events) for name in order}}


def _over(cluster: Cluster, sharing: str, calm_s: float, events: Sequence[str]) -> dict[str, Any]:
    sink = _Sink(cluster, sharing)
    found: dict[str, Any] = {}
    failed = ""
    begun: list[str] = []
    create_topics(cluster.servers, PARTITIONS, sink.topic)
    with Feed(cluster.servers, sink.topic):
        cluster.submit(sink.name, sink.config())
        try:
            for name in events:
                sink.await_calm(calm_s)
                begin_ms = time.time() * 1000
                begun.append(name)
                EVENTS[name].play(cluster)
                sink.await_calm(calm_s)
                end_ms = time.time() * 1000
                gaps = gaps_of(sink.log.puts, cluster.journal.lines, begin_ms, end_ms)
                found[EVENTS[name].title] = {
                    "lasted_s": round((end_ms - begin_ms) / 1000, 1),
                    "gaps_ms": [(gap.partition, round(gap.gap_ms), gap.moved) for gap in gaps],
                }
                EVENTS[name].after(cluster)
        except NotCalm as error:
            failed = str(error)
            _restore(cluster, begun)
    cluster.delete(sink.name)
    if "joins" in begun and "leaves" not in begun and not failed:
        _restore(cluster, ["joins"])
    cluster.runs(set())
    counts = [holes(puts) for puts in sink.log.poll().puts.values()]
    return {
        "events": found,
        "skipped": sum(skipped for skipped, _ in counts),
        "repeated": sum(repeated for _, repeated in counts),
        **({"failed": failed} if failed else {}),
    }


def _restore(cluster: Cluster, begun: Sequence[str]) -> None:
    """Bring the cluster back to two workers without a neighbour, after ``begun`` has broken off."""
    if begun and begun[-1] == "creates":
        cluster.delete("neighbour")
    if "joins" in begun:
        if "leaves" not in begun:
            cluster.kill("lake-2")
        cluster.lost("lake-2")


class NotCalm(Exception):
    """A sink did not come to rest; the message has the state of its tasks."""


class _Sink:
    """One connector, and what its tasks were given."""

    def __init__(self, cluster: Cluster, sharing: str) -> None:
        self.name = f"sink-{sorted(SHARING).index(sharing)}"
        self.topic = f"{cluster.group_id}-{self.name}"
        self.log = PutLog(cluster.directory / f"{self.name}.puts")
        self._cluster = cluster
        self._overrides = SHARING[sharing]
        self._tasks = {f"{self.name}-{number}" for number in range(TASKS)}

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "cooperator.stock.TimedSink",
            "tasks.max": str(TASKS),
            "topics": self.topic,
            "puts": str(self.log.path),
            "journal": str(self._cluster.journal.path),
            **{f"consumer.override.{key}": value for key, value in self._overrides.items()},
        }

    def await_calm(self, calm_s: float) -> None:
        """Wait until all tasks have run, and each partition has been put, for ``calm_s`` without a break."""
        deadline = time.monotonic() + self._cluster.load.limit_s
        since: float | None = None
        while since is None or time.monotonic() - since < calm_s:
            if time.monotonic() > deadline:
                raise NotCalm(f"not calm after {self._cluster.load.limit_s:g} s: {self._states()}")
            running = self._tasks <= self._cluster.journal.poll().tasks()
            calm = running and self.log.poll().are_fresh(time.time() * 1000)
            since = (since or time.monotonic()) if calm else None
            time.sleep(_AGAIN_S)

    def _states(self) -> str:
        _, status = self._cluster.client().send(f"GET /connectors/{self.name}/status")
        tasks = (status or {}).get("tasks", ())
        traces = [str(task.get("trace", "")) for task in tasks if task["state"] == "FAILED"]
        first = f": {traces[0].splitlines()[0]}" if traces and traces[0] else ""
        return f"{len(traces)} of {len(tasks)} tasks have failed{first}"


class Feed:
    """Produces a record to each partition of a topic every ``EVERY_S``, while it is entered."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed-{topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(EVERY_S):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"x", partition=partition)
            self._producer.poll(0)
        self._producer.flush(30)
