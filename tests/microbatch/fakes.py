"""Doubles of what a loop uses: a log of positions with sessions, and batches that fail as a test says."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cooperator.connectors.microbatch.batches import (
    FailureKind,
    OpenFailed,
    Outcome,
    Owned,
    PositionRecord,
    SlotFailure,
    Stand,
)
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition


class Replaced(Exception):
    """A newer attempt has claimed a unit."""


@dataclass
class Log:
    """The sink: what was committed, and the session that may write."""

    positions: dict[Partition, int] = field(default_factory=dict)
    topic_ids: dict[Partition, str] = field(default_factory=dict)
    offsets: dict[Partition, list[int]] = field(default_factory=dict)
    session: int = 0

    def commit(self, ranges: Sequence[OffsetRange]) -> None:
        for each in ranges:
            self.offsets.setdefault(each.partition, []).extend(range(each.start, each.end))
            self.positions[each.partition] = each.end


@dataclass
class FakeOwnership:
    log: Log
    replaced: bool = False
    calls: list[str] = field(default_factory=list)
    open_fails: list[FailureKind] = field(default_factory=list)

    def claim(self) -> Owned:
        return self._own("claim")

    def recover(self) -> Owned:
        return self._own("recover")

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return PositionRecord(f"p/copy/{partition}", f"{stand.next} {stand.topic_id}")

    def _own(self, call: str) -> Owned:
        self.calls.append(call)
        if self.replaced:
            raise Replaced
        if self.open_fails:
            raise OpenFailed(self.open_fails.pop(0), "no coordinator")
        self.log.session += 1
        log = self.log
        stands = {unit: Stand(at, log.topic_ids.get(unit, "")) for unit, at in log.positions.items()}
        return Owned(stands, str(log.session))


@dataclass
class FakeBatches:
    """``fate`` says for each slot whether it fails, and whether it has committed all the same."""

    log: Log
    fate: Callable[[int, int], tuple[FailureKind | None, bool]] = lambda batch, slot: (None, True)
    ran: list[Sequence[Sequence[OffsetRange]]] = field(default_factory=list)
    closed: bool = False
    reads_topics_apart: bool = False

    def open(self, session: str) -> None: ...

    def run(
        self,
        session: str,
        slots: Sequence[Sequence[OffsetRange]],
        records: Mapping[Partition, PositionRecord],
    ) -> Outcome:
        self.ran.append(slots)
        failures = []
        rows = 0
        for index, slot in enumerate(slots):
            contents = {each.partition: records[each.partition].value.split(" ") for each in slot}
            assert all(contents[each.partition][0] == str(each.end) for each in slot)
            kind, commits = self.fate(len(self.ran) - 1, index)
            if session != str(self.log.session):
                kind, commits = FailureKind.FENCED, False
            if commits:
                self.log.commit(slot)
                self.log.topic_ids.update((unit, topic_id) for unit, (_, topic_id) in contents.items())
                rows += sum(each.size for each in slot)
            if kind is not None:
                failures.append(SlotFailure(index, kind, f"slot {index} is {kind.value}"))
        return Outcome(rows, failures)

    def cancel(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def from_zero(partitions: Collection[Partition]) -> Mapping[Partition, int]:
    return dict.fromkeys(partitions, 0)
