"""Processor time of process trees, sampled: children that have ended count, too."""

import bisect
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import psutil

_SAMPLE_S: Final = 0.2

Key = tuple[int, float]
"""A process: its number, and when it was created."""


@dataclass
class Node:
    """The last that was seen of one process.

    ``reaped_s``: of its children that have ended and were waited for, with theirs.
    """

    parent: Key | None
    own_s: float = 0.0
    reaped_s: float = 0.0
    living: bool = True


def tree_s(nodes: Mapping[Key, Node]) -> float:
    """Processor seconds of all processes ever seen, and of children too short-lived to be seen.

    An ended child counts with what was last seen of it, or with what its parent got for it at its end, which
    is more.
    """
    children: dict[Key | None, list[Key]] = {}
    for key, node in nodes.items():
        parent = node.parent if node.parent in nodes else None
        # The survivors of an ended process are not in the sum that its parent got.
        if parent is not None and node.living and not nodes[parent].living:
            parent = None
        children.setdefault(parent, []).append(key)

    def total(key: Key) -> float:
        node = nodes[key]
        ended = sum(total(child) for child in children.get(key, ()) if not nodes[child].living)
        living = sum(total(child) for child in children.get(key, ()) if nodes[child].living)
        return node.own_s + max(node.reaped_s, ended) + living

    return sum(total(key) for key in children.get(None, ()))


class Tree:
    """The trees below some processes, without those below ``others``; both are asked at each sample."""

    def __init__(
        self, roots: Callable[[], Sequence[int]], others: Callable[[], Sequence[int]] = lambda: ()
    ) -> None:
        self._roots = roots
        self._others = others
        self._nodes: dict[Key, Node] = {}
        self._living: dict[Key, psutil.Process] = {}

    def sample(self) -> tuple[float, int]:
        """Processor seconds since the processes began, and the resident bytes of those that live."""
        others = frozenset(self._others())
        self._leave(others)
        for pid in self._roots():
            self._find(pid, others)
        resident = 0
        for key, process in list(self._living.items()):
            try:
                times, memory = process.cpu_times(), process.memory_info()
            except psutil.Error:
                self._nodes[key].living = False
                del self._living[key]
                continue
            node = self._nodes[key]
            node.own_s, node.reaped_s = times.user + times.system, times.children_user + times.children_system
            resident += memory.rss
        return tree_s(self._nodes), resident

    def _leave(self, others: frozenset[int]) -> None:
        """Forgets processes that turned out to be others', and those below them."""
        theirs = {key for key in self._nodes if key[0] in others}
        while more := {key for key, node in self._nodes.items() if node.parent in theirs} - theirs:
            theirs |= more
        for key in theirs:
            del self._nodes[key]
            self._living.pop(key, None)

    def _find(self, pid: int, others: frozenset[int]) -> None:
        try:
            root = psutil.Process(pid)
            family = [root, *_below(root, others)]
            known = {process.pid: (process.pid, process.create_time()) for process in family}
            for process in family:
                key = known[process.pid]
                if key not in self._nodes:
                    parent = None if process is root else known.get(process.ppid())
                    self._nodes[key] = Node(parent)
                    self._living[key] = process
        except psutil.Error:
            return  # It ended meanwhile; the next sample sees the others.


def _below(parent: psutil.Process, others: frozenset[int]) -> Iterator[psutil.Process]:
    for child in parent.children():
        if child.pid not in others:
            yield child
            yield from _below(child, others)


@dataclass(frozen=True)
class Sample:
    """Processor seconds at one moment: of the contender, the servers, this process, and the whole machine."""

    at: float
    contender_s: float
    servers_s: float
    own_s: float
    machine_s: float
    resident_mb: float


@dataclass(frozen=True)
class Spent:
    """Resources spent between two moments.

    ``others_cores``: by everything else on the machine, which is next to nothing if the machine is idle.
    """

    cpu_s: float
    servers_cpu_s: float
    others_cores: float
    resident_mb: float


@dataclass
class Meter:
    """Takes samples in a thread from ``start`` to ``stop``.

    ``servers`` are the broker, and what else belongs to the run without being the contender: a database, a
    registry, a producer.
    """

    contender: Callable[[], Sequence[int]]
    servers: Callable[[], Sequence[int]]
    samples: list[Sample] = field(default_factory=list)

    def start(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> Spent:
        """Returns what was spent between two values of ``time.monotonic``. Waits for a sample after
        ``end``."""
        while self.samples[-1].at < end and self._thread.is_alive():
            time.sleep(_SAMPLE_S)
        first, last = self._at(begin), self._at(end)
        inside = [sample.resident_mb for sample in self.samples if begin <= sample.at <= end]
        known = sum(
            getattr(last, name) - getattr(first, name) for name in ("contender_s", "servers_s", "own_s")
        )
        others = (last.machine_s - first.machine_s - known) / (end - begin)
        return Spent(
            last.contender_s - first.contender_s,
            last.servers_s - first.servers_s,
            max(0.0, others),
            max([*inside, last.resident_mb]),
        )

    def _at(self, moment: float) -> Sample:
        """The sample at a moment, interpolated."""
        times = [sample.at for sample in self.samples]
        place = bisect.bisect_left(times, moment)
        before, after = self.samples[max(0, place - 1)], self.samples[min(place, len(times) - 1)]
        share = (moment - before.at) / (after.at - before.at) if after.at > before.at else 0.0
        share = min(1.0, max(0.0, share))
        mixed = {
            name: getattr(before, name) + share * (getattr(after, name) - getattr(before, name))
            for name in Sample.__dataclass_fields__
        }
        return Sample(**mixed)

    def _run(self) -> None:
        contender, servers = Tree(self.contender), Tree(self.servers, self.contender)
        while not self._ending.wait(_SAMPLE_S):
            spent_s, resident = contender.sample()
            own = os.times()
            self.samples.append(
                Sample(
                    time.monotonic(),
                    spent_s,
                    servers.sample()[0],
                    own.user + own.system,
                    _machine_s(),
                    resident / 2**20,
                )
            )


def _machine_s() -> float:
    times = psutil.cpu_times()
    return float(
        sum(times)
        - times.idle
        - getattr(times, "iowait", 0.0)
        - getattr(times, "guest", 0.0)
        - getattr(times, "guest_nice", 0.0)
    )
