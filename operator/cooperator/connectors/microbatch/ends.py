"""The watcher of partitions' ends: one request for all tasks of a member that read from one cluster."""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cooperator.connectors.microbatch.ranges import Partition, has_news
from cooperator.model.text import counted
from cooperator.supervision import threads

log = logging.getLogger(__name__)

_LEAST_MS = 50
"""The least time between two looks, also for tasks without a pause between batches."""
_QUIET_MS = 1_000
"""While nothing arrives and all is read, looks are half as frequent, but not less than once in so many
milliseconds."""
_TIMEOUT_MS = 3_000
"""The longest that a look waits for the partitions that answered before."""
_RETRY_S = 1.0
_HELD = (
    "waiting for the end of another producer's transaction, which holds back {}: the broker ends it at its "
    "time limit; kafka-transactions.sh finds hanging ones (find-hanging) and ends them (abort)"
)


@dataclass(frozen=True, slots=True)
class Look:
    """``ends`` are those that have changed since the look before; ``unknown`` maps others to the reason.

    ``topic_ids`` are those of topics that have changed. ``held`` counts the offsets behind ends that an open
    transaction has held back for a while; None: this look did not ask for them.
    """

    ends: Mapping[Partition, int]
    unknown: Mapping[Partition, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[Partition, int] | None = None


class Ends(Protocol):
    """The ends of partitions. Only one thread uses it."""

    def watch(self, partitions: Collection[Partition]) -> None:
        """Sets the partitions to look at; the next look returns all their ends."""

    def look(self, timeout_ms: int) -> Look:
        """Looks at all partitions. One that does not answer delays only the first look that misses it."""

    def close(self) -> None: ...


def due(last_ms: int, look_ms: int, interval_ms: int) -> bool:
    """Whether a look is in a later interval than the one before; intervals align to the clock.

    So tasks with the same interval use the same look, and a late batch does not delay those after it.
    """
    return look_ms > last_ms if interval_ms == 0 else look_ms // interval_ms > last_ms // interval_ms


def next_look_ms(now_ms: float, interval_ms: int, is_quiet: bool) -> float:
    """Returns when to look again; ``is_quiet``: as in ``EndWatcher.is_quiet``. Looks align to the clock."""
    if is_quiet:
        interval_ms = max(interval_ms, min(2 * interval_ms, _QUIET_MS))
    return (math.floor(now_ms / interval_ms) + 1) * interval_ms


class EndWatcher:
    """Looks at the ends of all subscribed partitions at the shortest interval of its tasks. Thread-safe.

    Its thread runs while there are subscriptions.
    """

    def __init__(self, ends: Ends, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` returns seconds."""
        self._source = ends
        self._clock = clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._subscriptions: dict[Subscription, None] = {}
        self._changed = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ends: dict[Partition, int] = {}
        self._unknown: Mapping[Partition, str] = {}
        self._held: Mapping[Partition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._look_ms = -1
        self._begun = self._done = 0

    def subscribe(self, partitions: Collection[Partition], interval_ms: int) -> "Subscription":
        """Returns a subscription; the caller must close it."""
        made = Subscription(self, frozenset(partitions), interval_ms)
        with self._lock:
            self._subscriptions[made] = None
            self._changed = True
            if self._thread is None:
                self._thread = threads.of_process.thread(self._run, "ends")
                self._thread.start()
        self._wake.set()
        return made

    def close(self) -> None:
        """Ends the thread; subscriptions learn nothing more."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(_TIMEOUT_MS / 1000)
        self._source.close()

    def begun(self) -> int:
        """Returns the number of looks that have begun."""
        with self._lock:
            return self._begun

    def known(self, partitions: frozenset[Partition], after: int) -> "Known":
        """Returns what is known of the partitions if a later look than the ``after``-th is done."""
        with self._lock:
            if self._done <= after:
                return Known()
            return Known(
                self._look_ms,
                {each: self._ends[each] for each in partitions & self._ends.keys() - self._unknown.keys()},
                {each: self._unknown[each] for each in partitions & self._unknown.keys()},
            )

    def held(self, partitions: frozenset[Partition]) -> Mapping[Partition, int]:
        """Returns how many offsets of partitions an open transaction has held back for a while."""
        with self._lock:
            return {each: self._held[each] for each in partitions & self._held.keys()}

    def topic_ids(self) -> Mapping[str, str]:
        """Returns the ids of topics that looks have found."""
        with self._lock:
            return dict(self._topic_ids)

    def drop(self, subscription: "Subscription") -> None:
        """Ends a subscription."""
        with self._lock:
            self._subscriptions.pop(subscription, None)
            self._changed = True
        self._wake.set()

    def is_quiet(self, found: Look) -> bool:
        """Whether a look found nothing new while all tasks have read what was there before."""
        if found.ends or found.topic_ids:
            return False
        with self._lock:
            return not any(each.is_pending for each in self._subscriptions)

    def _run(self) -> None:
        while True:
            threads.turn()
            self._wake.clear()
            with self._lock:
                if self._closed or not self._subscriptions:
                    self._thread = None
                    return
                interval_ms = max(_LEAST_MS, min(each.interval_ms for each in self._subscriptions))
                changed, self._changed = self._changed, False
                wanted = {each for one in self._subscriptions for each in one.partitions}
            found = self._look(wanted, changed)
            if found is None:
                self._wake.wait(_RETRY_S)
                continue
            now_ms = self._clock() * 1000
            at_ms = next_look_ms(now_ms, interval_ms, self.is_quiet(found))
            threads.wait_turning(self._wake, (at_ms - now_ms) / 1000)

    def _look(self, wanted: Collection[Partition], changed: bool) -> Look | None:
        """Returns what was found; None: the look failed."""
        with self._lock:
            self._begun += 1
            # A timer may ring early by less than a millisecond.
            look_ms = math.floor(self._clock() * 1000 + 1)
        try:
            if changed:
                self._source.watch(wanted)
            found = self._source.look(_TIMEOUT_MS)
        except Exception as error:
            log.warning("the ends of partitions are unknown: %s", error)
            with self._lock:
                self._changed = True
                self._unknown = dict.fromkeys(wanted, str(error))
            return None
        with self._lock:
            if changed:
                self._ends = {each: end for each, end in self._ends.items() if each in wanted}
            self._ends.update(found.ends)
            self._topic_ids.update(found.topic_ids)
            self._unknown = found.unknown
            held = self._held if found.held is None else found.held
            self._held = {each: held[each] for each in held.keys() - found.ends.keys()}
            self._look_ms = look_ms
            self._done = self._begun
            subscriptions = tuple(self._subscriptions)
        for each in subscriptions:
            each.looked(found)
        return found


class Known(NamedTuple):
    """The findings of the look that began at ``look_ms``; -1: there was none yet."""

    look_ms: int = -1
    ends: Mapping[Partition, int] = {}
    unknown: Mapping[Partition, str] = {}


class Subscription:
    """The ends of one task's partitions. ``wait`` is for one thread; ``close`` may be called by any."""

    def __init__(self, watcher: EndWatcher, partitions: frozenset[Partition], interval_ms: int) -> None:
        self.partitions = partitions
        self.interval_ms = interval_ms
        self._watcher = watcher
        self._event = threading.Event()
        self._closed = False
        self._pending = True
        self._last_ms = -1
        self._after = watcher.begun()

    def restart(self) -> None:
        """Forgets the looks that have begun: no end of a later one is before positions read until now."""
        self._after = self._watcher.begun()
        self._pending = True

    def wait(
        self,
        positions: Mapping[Partition, int],
        ids: Mapping[Partition, str] = {},
        until_s: float = math.inf,
    ) -> Mapping[Partition, int]:
        """Returns the ends that are known when something is new, at most once in an interval, and after
        ``until_s`` (monotonic); empty when it was closed.

        ``ids`` are those of the topics that the positions belong to ("": unknown). A topic of another id is
        new, even if it ends where the task is.
        """
        while not self._closed:
            self._event.clear()
            look_ms, ends, _ = self._watcher.known(self.partitions, self._after)
            known_ids = {unit: ids[unit] for unit in ids.keys() & ends.keys()}
            is_late = time.monotonic() >= until_s
            self._pending = look_ms < 0 or is_late or self.are_others(known_ids) or has_news(positions, ends)
            if ends and self._pending and due(self._last_ms, look_ms, self.interval_ms):
                self._last_ms = look_ms
                return ends
            # Looks happen at least this often; a subscription that is closed meanwhile ends the loop.
            self._event.wait(_QUIET_MS / 1000)
        return {}

    def are_others(self, ids: Mapping[Partition, str]) -> bool:
        """Whether looks have found another id of a topic than one of these."""
        found = self.topic_ids if ids else {}
        return any(found.get(unit.topic, known) != known for unit, known in ids.items())

    @property
    def is_pending(self) -> bool:
        """Whether there was something to read when the task waited last, as after a batch that is limited."""
        return self._pending

    @property
    def unknown(self) -> Mapping[Partition, str]:
        """The partitions whose end is unknown since the last look, with the reason."""
        return self._watcher.known(self.partitions, 0).unknown

    @property
    def held(self) -> Mapping[Partition, int]:
        """How many offsets an open transaction has held back for a while, by partition."""
        return self._watcher.held(self.partitions)

    @property
    def troubles(self) -> Mapping[Partition, str]:
        """What keeps partitions from being read, for users."""
        held = {each: _HELD.format(counted(count, "offset")) for each, count in self.held.items()}
        return {**held, **{each: f"waiting: {reason}" for each, reason in self.unknown.items()}}

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The ids of topics, as far as looks have found them."""
        return self._watcher.topic_ids()

    @property
    def ends(self) -> Mapping[Partition, int]:
        """The ends that the last look has found."""
        return self._watcher.known(self.partitions, 0).ends

    def looked(self, look: Look) -> None:
        """The watcher calls it after each look. A task without news is not woken."""
        if self._pending or look.topic_ids or not self.partitions.isdisjoint(look.ends):
            self._event.set()

    def close(self) -> None:
        """Ends ``wait``."""
        self._closed = True
        self._event.set()
        self._watcher.drop(self)
