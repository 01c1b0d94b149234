"""A model of Kafka's transactions, as far as the protocol of claims depends on them.

Partitions are lists of entries. A transaction is decided first (``PREPARED``); its markers reach its
partitions later, one at a time and in any order, and only then may its id be initialised or used again.
Clients are answered when a commit is decided, so that readers may see it later than its writer. Transactions
V1: the epoch of a producer grows only when its id is initialised, or when the coordinator ends a transaction
by itself. Records of an epoch that is not the present one are refused (KIP-890).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum


class Fenced(Exception):
    """The producer's epoch is not the present one."""


class Busy(Exception):
    """CONCURRENT_TRANSACTIONS: the last transaction of this id still waits for its markers."""


class State(Enum):
    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARED = "prepared"


@dataclass(slots=True)
class Entry:
    """A record, or the marker of a transaction (``commits`` is not None). ``by`` is its transactional id."""

    by: str = ""
    key: bytes = b""
    value: bytes | None = None
    commits: bool | None = None


@dataclass(slots=True)
class Id:
    """A transactional id at its coordinator. ``unmarked``: partitions without its decided end."""

    epoch: int = 0
    state: State = State.EMPTY
    commits: bool = False
    partitions: set[str] = field(default_factory=set)
    unmarked: set[str] = field(default_factory=set)


class Kafka:
    def __init__(self) -> None:
        self.logs: dict[str, list[Entry]] = defaultdict(list)
        self.ids: dict[str, Id] = defaultdict(Id)
        self._open_since: dict[str, dict[str, int]] = defaultdict(dict)

    # Clients

    def init(self, name: str) -> int:
        """InitProducerId: returns the new epoch. Raises Busy; earlier producers are fenced even then."""
        this = self.ids[name]
        if this.state is State.ONGOING:
            this.epoch += 1
            self._decide(this, commits=False)
        if this.state is State.PREPARED:
            raise Busy
        this.epoch += 1
        return this.epoch

    def append(self, name: str, epoch: int, partition: str, key: bytes, value: bytes | None) -> None:
        this = self._present(name, epoch)
        if this.state is State.PREPARED:
            raise Busy
        this.state = State.ONGOING
        this.partitions.add(partition)
        self._open_since[partition].setdefault(name, len(self.logs[partition]))
        self.logs[partition].append(Entry(name, key, value))

    def end(self, name: str, epoch: int, *, commits: bool) -> None:
        this = self._present(name, epoch)
        if this.state is State.PREPARED:
            raise Busy
        if this.state is State.ONGOING:
            self._decide(this, commits)

    def append_plainly(self, partition: str, key: bytes, value: bytes | None) -> None:
        """A record outside of any transaction."""
        self.logs[partition].append(Entry("", key, value))

    def high_watermark(self, partition: str) -> int:
        return len(self.logs[partition])

    def last_stable_offset(self, partition: str) -> int:
        return min(self._open_since[partition].values(), default=len(self.logs[partition]))

    def committed(self, partition: str, end: int) -> list[Entry]:
        """Returns what readers of committed records get below ``end``, which is not above the last stable
        offset."""
        pending: dict[str, list[int]] = defaultdict(list)
        found: dict[int, Entry] = {}
        for offset, entry in enumerate(self.logs[partition]):
            if entry.commits is None and not entry.by:
                found[offset] = entry
            elif entry.commits is None:
                pending[entry.by].append(offset)
            else:
                done = pending.pop(entry.by, [])
                if entry.commits:
                    found.update((each, self.logs[partition][each]) for each in done)
        return [found[offset] for offset in sorted(found) if offset < end]

    # The broker by itself

    def unmarked(self) -> list[tuple[str, str]]:
        """The markers that are to be written: (id, partition)."""
        return [(name, each) for name, this in self.ids.items() for each in sorted(this.unmarked)]

    def mark(self, name: str, partition: str) -> None:
        this = self.ids[name]
        this.unmarked.remove(partition)
        del self._open_since[partition][name]
        self.logs[partition].append(Entry(name, commits=this.commits))
        if not this.unmarked:
            this.state = State.EMPTY

    def ongoing(self) -> list[str]:
        return [name for name, this in self.ids.items() if this.state is State.ONGOING]

    def time_out(self, name: str) -> None:
        """The coordinator ends a transaction at its time limit."""
        this = self.ids[name]
        this.epoch += 1
        self._decide(this, commits=False)

    def _present(self, name: str, epoch: int) -> Id:
        this = self.ids[name]
        if this.epoch != epoch:
            raise Fenced(f"{name}: epoch {epoch}, present is {this.epoch}")
        return this

    def _decide(self, this: Id, commits: bool) -> None:
        this.state, this.commits = State.PREPARED, commits
        this.unmarked, this.partitions = this.partitions, set()
