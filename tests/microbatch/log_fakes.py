"""Units and batches of histories whose sink in memory commits records and positions together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from hypothesis import strategies as st

from cooperator.connectors.microbatch.batches import (
    FailureKind,
    Outcome,
    Owned,
    PositionRecord,
    SlotFailure,
    Stand,
)
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition

Slot = Sequence[OffsetRange]


class Dies(BaseException):
    """The process ends."""


Fate = Callable[[], tuple[FailureKind | type[Dies] | None, bool]]
"""Returns whether a slot fails or its process dies, and whether it has committed all the same."""
_PASSING: Final = (FailureKind.RETRIABLE, FailureKind.FENCED)


def fates_of_slots(at_most: int) -> st.SearchStrategy[list[object]]:
    """Fates, as ``fate_of`` takes them: attempts die before or after a commit, or fail."""
    failures = st.tuples(st.sampled_from(_PASSING), st.booleans())
    return st.lists(st.one_of(st.none(), failures, st.sampled_from(["die", "die after"])), max_size=at_most)


def fate_of(fates: Iterator[object]) -> Fate:
    """Deals these fates, and success afterwards."""

    def fate() -> tuple[FailureKind | type[Dies] | None, bool]:
        found = next(fates, None)
        if isinstance(found, str):
            return Dies, found == "die after"
        if isinstance(found, tuple):
            return cast(tuple[FailureKind, bool], found)
        return None, True

    return fate


@dataclass
class LogSink:
    """The positions that were committed, and those that an earlier release has left, by unit."""

    stands: dict[Partition, Stand] = field(default_factory=dict)
    session: int = 0
    earlier: Mapping[str, Stand] = field(default_factory=dict)

    def taken_over(self, missing: Sequence[str]) -> Mapping[str, Stand]:
        return {unit: self.earlier[unit] for unit in missing if unit in self.earlier}


class FakeUnits:
    """Claims that nobody disputes."""

    def __init__(self, sink: LogSink) -> None:
        self._sink = sink

    def claim(self) -> Owned:
        self._sink.session += 1
        return Owned(dict(self._sink.stands), str(self._sink.session))

    recover = claim

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return PositionRecord(stand.topic_id, str(stand.next))


class FatedBatches:
    """Commits the ranges of slots, unless their fate or ``lacks`` forbids it."""

    reads_topics_apart = False

    def __init__(self, sink: LogSink, fate: Fate) -> None:
        self._of_session, self._fate = sink, fate

    def open(self, session: str) -> None: ...

    def run(
        self, session: str, slots: Sequence[Slot], records: Mapping[Partition, PositionRecord]
    ) -> Outcome:
        assert session == str(self._of_session.session)
        failures = []
        for number, slot in enumerate(slots):
            kind, commits = self._fate()
            if self.lacks(slot):
                kind, commits = kind if kind is Dies else FailureKind.RETRIABLE, False
            if commits:
                self.commit(slot, records)
            if kind is Dies:
                raise Dies
            if isinstance(kind, FailureKind):
                failures.append(SlotFailure(number, kind, kind.value))
        return Outcome(0, failures)

    def lacks(self, slot: Slot) -> bool:
        """Whether something that the slot reads is gone."""
        return False

    def commit(self, slot: Slot, records: Mapping[Partition, PositionRecord]) -> None:
        """Commits what the ranges of a slot mean, and its positions."""
        raise NotImplementedError

    def cancel(self) -> None: ...

    def close(self) -> None: ...
