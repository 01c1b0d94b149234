"""Dead letters of a unit are written once, however the batches around them are cut."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.base import UnitContext
from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.exactly_once import LogLost, Marker, Replaced, Row
from cooperator.connectors.microbatch import letters
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.letters import UnitLetters
from cooperator.model import Epoch, TaskId

RECORDS = 20


class Topic:
    """A dead-letter topic with its marker; the newest writer fences all others."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.marked: Marker | None = None
        self.writers = 0

    def provider(self, **_: Any) -> "Topic":
        return self

    def open(self, slowdown: int) -> "Writer":
        self.writers += 1
        return Writer(self, self.writers)

    def marker(self) -> Marker | None:
        return self.marked


class Writer:
    def __init__(self, topic: Topic, number: int) -> None:
        self._topic, self._number = topic, number

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        if self._number != self._topic.writers:
            raise LogLost("fenced")
        before = len(self._topic.offsets)
        self._topic.offsets += [int(row[1] or b"") for row in rows]
        self._topic.marked = marker
        return len(self._topic.offsets) - before

    def close(self) -> None: ...


def letters_of(topic: Topic, attempt: int, monkeypatch: pytest.MonkeyPatch) -> UnitLetters:
    monkeypatch.setattr(letters, "KafkaLogs", topic.provider)
    monkeypatch.setattr(letters, "client_config", lambda options: {})
    context = UnitContext(
        group_id="g",
        task=TaskId("c", 0),
        unit="t-0",
        owner=f"m/i/{attempt}",
        checkpoint=Path("/nowhere"),
        cancelled=Event(),
        session=lambda: None,  # type: ignore[arg-type, return-value]
        say=lambda text: None,
    )
    options: Any = SimpleNamespace(dead_letters="dead")
    return UnitLetters(options, context, Event(), lambda: Claim(Epoch(1, 1), attempt, f"m-{attempt}"))


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
            unit.put(bad(at, end), "line", end)
            at = end if is_committed else at
            if is_replaced:
                attempt += 1
                unit = letters_of(topic, attempt, patch)
        unit.put(bad(at, RECORDS), "line", RECORDS)
    assert topic.offsets == [n for n in range(RECORDS) if n % 3 == 0]


def test_records_that_are_read_again_after_a_change_of_offsets_make_letters_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = Topic()
    unit = letters_of(topic, 1, monkeypatch)
    unit.put(bad(0, 5), "line", 5)
    unit.put(bad(0, 5), "another line", 5)
    assert topic.offsets == [0, 3, 0, 3]


def test_an_older_attempt_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    old = letters_of(topic, 1, monkeypatch)
    old.put(bad(0, 2), "line", 2)
    new = letters_of(topic, 2, monkeypatch)
    new.put(bad(2, 5), "line", 5)
    with pytest.raises(Replaced):
        old.put(bad(2, 8), "line", 8)
    with pytest.raises(Replaced):
        letters_of(topic, 1, monkeypatch).put(bad(2, 8), "line", 8)
    assert topic.offsets == [0, 3]


def test_without_letters_no_producer_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic()
    letters_of(topic, 1, monkeypatch).put([], "line", 5)
    assert topic.writers == 0
