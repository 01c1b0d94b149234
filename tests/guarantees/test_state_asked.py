"""State is asked while its query runs, is held for a killed member, and has moved: no question fails."""

import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.connectors.state_query import StateQuery
from cooperator.local.broker import EmbeddedBroker
from cooperator.rest.answers import RequestRefused
from cooperator.rest.led import LedGroup
from cooperator.rest.spark import SparkOffsets
from tests.guarantees.pipelines_group import PATIENCE_S
from tests.guarantees.stateful_group import StatefulGroup
from tests.harness.support import eventually

COUNTS = {
    "source.schema": "key STRING",
    "transform.sql": "SELECT key, count(*) AS n FROM input GROUP BY key",
    "sink.format": "noop",
    "sink.output.mode": "update",
}
LINES = [json.dumps({"key": f"k{number % 3}"}) for number in range(9)]
AHEAD = 20
"""The number of files that may wait to be counted."""


class Asked:
    def __init__(self, group: StatefulGroup) -> None:
        self.group = group
        led = LedGroup(lambda: group.leader)
        self._offsets = SparkOffsets(led.urls, led.session_key)

    def count(self, key: str) -> int:
        """The count of one key; 0 if there is none."""
        found = self._offsets.state("counts", {}, StateQuery({"key": key}))
        return sum(row["value"]["count"] for row in found["rows"])

    def has_begun(self) -> bool:
        try:
            return self.count("k0") > 0
        except RequestRefused as error:
            raise AssertionError(error) from error


@pytest.fixture
def asked(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Asked]:
    group = StatefulGroup(broker, tmp_path, COUNTS, hold_ms=20_000)
    yield Asked(group)
    group.group.close()


@pytest.mark.long("tests/agent/test_offsets.py::test_another_member_answers_for_one_that_has_ended")
@pytest.mark.real
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reads", [100, 1_000])
def test_no_question_fails_over_a_kill_a_hold_and_a_move(asked: Asked, reads: int) -> None:
    asked.group.feed(LINES)
    eventually(asked.has_begun, 2 * PATIENCE_S, "a batch is finished")
    seen: list[int] = []
    took_s: list[float] = []
    while_in: Counter[str] = Counter()
    done = threading.Event()

    def feed() -> None:
        while not done.wait(0.5):
            # A busy machine counts more slowly, and all of it has to be counted in the end.
            if not seen or 3 * (asked.group.fed - AHEAD) < seen[-1]:
                asked.group.feed(LINES)

    def ask(times: int) -> None:
        for _ in range(times):
            began_s = time.monotonic()
            seen.append(asked.count("k0"))
            took_s.append(time.monotonic() - began_s)
            while_in[asked.group.task()["state"]] += 1

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        ask(reads // 4)
        killed = asked.group.kill()
        ask(reads // 4)
        asked.group.has_moved_from(killed)
        ask(reads // 2)
    finally:
        done.set()
        feeding.join()
        median_s = statistics.median(took_s)
        print(f"{len(took_s)} reads, {median_s:.2f} s each, at most {max(took_s):.2f} s")  # noqa: T201
    assert seen == sorted(seen), "an older state than before was read"
    assert {"RUNNING", "HELD"} <= while_in.keys(), while_in
    eventually(lambda: asked.count("k0") == 3 * asked.group.fed, PATIENCE_S, "the state has survived")
