"""An informer, one process's view of the API: always late, sometimes stale, complete after a relist."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tests.simulation.cluster import NodeObject, PodObject, Watched
from tests.simulation.network import API
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

RELIST_MS = 800


class Informer:
    """``lag_ms`` is how much later than usual events come. ``on_change`` is called after each."""

    def __init__(self, process: Process, on_change: Callable[[], None]) -> None:
        self._process = process
        self._simulation: Simulation = process.simulation
        self._on_change = on_change
        self._order_ms = 0
        self._stream = 0
        self._lists = 0
        self._broken_until_ms = 0
        self.lag_ms = 0
        self.pods: dict[str, PodObject] = {}
        self.hidden: set[str] = set()
        """Identities that it does not see, whatever the API shows."""
        self.nodes: dict[str, NodeObject] = {}
        self.synced = False
        self.asked_at_ms = 0
        """When it was last told of everything."""
        self._simulation.cluster.watch(self._event)
        self._relist(self._stream)

    def visible(self) -> Iterable[tuple[str, PodObject]]:
        return [(name, pod) for name, pod in self.pods.items() if name not in self.hidden]

    def close(self) -> None:
        self._simulation.cluster.unwatch(self._event)

    def lose(self, for_ms: int) -> None:
        """The stream ends; events until the next relist are lost."""
        self._stream += 1
        self._broken_until_ms = self._simulation.now_ms + for_ms
        stream = self._stream
        self._process.after(for_ms, lambda: self._relist(stream))

    def _event(self, key: str, value: Watched) -> None:
        if not self.synced or self._simulation.now_ms < self._broken_until_ms:
            return
        if not self._simulation.network.reaches(API, self._process.place):
            self.lose(RELIST_MS)
            return
        simulation = self._simulation
        late_ms = simulation.network.delay_ms() + self.lag_ms
        self._order_ms = max(self._order_ms, simulation.now_ms + late_ms)
        stream = self._stream, self._lists
        simulation.scheduler.at(
            self._order_ms, lambda: self._process.enter(lambda: self._take(stream, key, value))
        )

    def _take(self, stream: tuple[int, int], key: str, value: Watched) -> None:
        if stream != (self._stream, self._lists):
            return  # What it says is older than the last list.
        if isinstance(value, PodObject):
            self.pods[value.identity] = value
        elif isinstance(value, NodeObject):
            self.nodes[value.name] = value
        else:
            kind, _, name = key.partition("/")
            (self.pods if kind == "pod" else self.nodes).pop(name, None)
        self._on_change()

    def _relist(self, stream: int) -> None:
        if stream != self._stream:
            return
        if not self.list():
            self._process.after(RELIST_MS, lambda: self._relist(stream))
            return
        self.synced = True
        self._on_change()

    def list(self) -> bool:
        """Take everything as it is now. False: the API cannot be reached."""
        if not self._simulation.network.reaches(API, self._process.place):
            return False
        self._lists += 1
        self.pods = dict(self._simulation.cluster.pods)
        self.nodes = dict(self._simulation.cluster.nodes)
        self.asked_at_ms = int(time.monotonic() * 1000)
        return True
