"""A dead-letter topic in memory, and the letters of units that write to it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cooperator.connectors import exactly_once
from cooperator.connectors.base import UnitContext
from cooperator.connectors.exactly_once import LogLost, Marker, Row
from cooperator.connectors.microbatch import letters
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.letters import UnitLetters
from cooperator.model import TaskId


class Topic:
    """The letters of one unit, by their values, with its marker; the newest writer fences all others."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.marked: Marker | None = None
        self.writers = 0

    def open(self, slowdown: int) -> "Writer":
        self.writers += 1
        return Writer(self, self.writers)

    def marker(self) -> Marker | None:
        return self.marked

    @property
    def offsets(self) -> list[int]:
        return [int(value) for value in self.values]


class Writer:
    def __init__(self, topic: Topic, number: int) -> None:
        self._topic, self._number = topic, number

    def commit(self, rows: Iterable[Row], marker: Marker) -> int:
        if self._number != self._topic.writers:
            raise LogLost("fenced")
        before = len(self._topic.values)
        self._topic.values += [row[1] or b"" for row in rows]
        self._topic.marked = marker
        return len(self._topic.values) - before

    def close(self) -> None: ...


def install(patch: pytest.MonkeyPatch, topics: Mapping[str, Topic]) -> None:
    """Letters of these units go to these topics. Nothing waits."""
    patch.setattr(letters, "KafkaLogs", lambda **given: topics[given["unit"]])
    patch.setattr(letters, "client_config", lambda options: {})
    patch.setattr(exactly_once, "_BACKOFF_S", 0.0)


def letters_of(unit: str, claim: Claim) -> UnitLetters:
    """The letters of a unit, as an attempt with this claim writes them."""
    context = UnitContext(
        group_id="g",
        task=TaskId("c", 0),
        unit=unit,
        owner=f"m/i/{claim.attempt}",
        checkpoint=Path("/nowhere"),
        cancelled=Event(),
        session=lambda: None,  # type: ignore[arg-type, return-value]
        say=lambda text: None,
    )
    options: Any = SimpleNamespace(dead_letters="dead")
    return UnitLetters(options, context, Event(), lambda: claim)
