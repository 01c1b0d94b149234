"""Dead letters of a unit are written once, however the batches around them are cut."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.letters import KeptLetters, UnitLetters
from cooperator.connectors.microbatch.ranges import LeftOut
from cooperator.connectors.output_record import OutputRecord
from cooperator.model import Epoch
from tests.microbatch import letter_topics
from tests.microbatch.letter_topics import Topic, install

RECORDS = 20


def letters_of(topic: Topic, attempt: int, patch: pytest.MonkeyPatch) -> UnitLetters:
    install(patch, {"t-0": topic})
    return letter_topics.letters_of("t-0", Claim(Epoch(1, 1), attempt, f"m-{attempt}"))


def bad(start: int, end: int) -> Sequence[Letter]:
    """Each third record is bad."""
    return [
        Letter(
            {"topic": "t", "partition": 0, "offset": n, "key": None, "value": b"%d" % n, "headers": None},
            "TRANSFORMATION",
            ValueError("x"),
        )
        for n in range(start, end)
        if n % 3 == 0
    ]


Batch = tuple[int, bool, bool]
"""Its size, whether its rows are committed, and whether another attempt goes on."""


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_each_letter_is_written_once(batches: list[Batch]) -> None:
    topic, attempt, at = Topic(), 1, 0
    with pytest.MonkeyPatch.context() as patch:
        unit = letters_of(topic, attempt, patch)
        for size, is_committed, is_replaced in [*batches, (RECORDS, True, True)]:
            end = min(RECORDS, at + size)
            unit.put(unit.of(bad(at, end)), "line", end)
            at = end if is_committed else at
            if is_replaced:
                attempt += 1
                unit = letters_of(topic, attempt, patch)
        unit.put(unit.of(bad(at, RECORDS)), "line", RECORDS)
    assert topic.offsets == [n for n in range(RECORDS) if n % 3 == 0]


def test_records_that_are_read_again_after_a_change_of_offsets_make_letters_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic()
    unit = letters_of(topic, 1, monkeypatch)
    unit.put(unit.of(bad(0, 5)), "line", 5)
    unit.put(unit.of(bad(0, 5)), "another line", 5)
    assert topic.offsets == [0, 3, 0, 3]


def test_an_older_attempt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    old = letters_of(topic, 1, monkeypatch)
    old.put(old.of(bad(0, 2)), "line", 2)
    new = letters_of(topic, 2, monkeypatch)
    new.put(new.of(bad(2, 5)), "line", 5)
    with pytest.raises(Replaced):
        old.put(old.of(bad(2, 8)), "line", 8)
    with pytest.raises(Replaced):
        letters_of(topic, 1, monkeypatch).put(old.of(bad(2, 8)), "line", 8)
    assert topic.offsets == [0, 3]


def test_without_letters_no_producer_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    letters_of(topic, 1, monkeypatch).put([], "line", 5)
    assert topic.writers == 0


BYTES = st.none() | st.binary(max_size=4)


@given(
    st.text(max_size=4),
    st.integers(0, 2**62),
    st.lists(st.tuples(st.integers(0, 2**62), BYTES, BYTES, st.lists(st.tuples(st.text(max_size=4), BYTES)))),
)
def test_letters_that_were_kept_are_those_that_were_found(
    line: str, end: int, found: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
) -> None:
    left_out = [
        LeftOut(offset, OutputRecord(key, value, headers=tuple(headers)))
        for offset, key, value, headers in found
    ]
    kept = KeptLetters(line, end, left_out)
    assert (KeptLetters.decode(kept.encode()) if found else None) == (kept if found else None)
    assert bool(kept.encode()) == bool(found)


def test_letters_that_were_kept_are_delivered_once_by_whoever_finds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic()
    first = letters_of(topic, 1, monkeypatch)
    kept = KeptLetters("line", 5, first.of(bad(0, 5))).encode()
    first.deliver(kept)
    first.deliver(kept)
    second = letters_of(topic, 2, monkeypatch)
    second.deliver(kept)
    second.deliver(KeptLetters("line", 9, second.of(bad(5, 9))).encode())
    letters_of(topic, 3, monkeypatch).deliver(KeptLetters("line", 9, second.of(bad(5, 9))).encode())
    assert topic.offsets == [0, 3, 6]
