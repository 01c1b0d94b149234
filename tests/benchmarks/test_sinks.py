"""Computations on what a stock sink was given, and the measurement's short form on real workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import page
from benchmarks.clusters.sinks import EVENTS, PARTITIONS, SHARING, Gap, Put, PutLog, gaps_of, holes
from benchmarks.clusters.timeline import Line
from benchmarks.pipelines.job import ROOT


def put(at_ms: int, task: str, first: int, last: int | None = None, partition: int = 0) -> Put:
    return Put(at_ms, task, partition, first, first if last is None else last)


def stop(at_ms: int, task: str) -> Line:
    return Line(at_ms, task, "w", (task, "i", 1), starts=False)


def test_the_longest_gap_of_a_window_counts_what_reaches_into_it() -> None:
    puts = [put(0, "a-0", 0), put(900, "a-0", 1), put(1_100, "a-0", 2), put(5_000, "a-1", 3)]
    [found] = gaps_of({0: puts}, [stop(1_200, "a-0")], begin_ms=1_000, end_ms=5_100)
    assert found == Gap(0, 3_900, moved=True)
    [found] = gaps_of({0: puts}, [stop(1_200, "a-0")], begin_ms=1_000, end_ms=1_150)
    assert found == Gap(0, 200, moved=False)


def test_a_partition_that_nobody_puts_any_more_waits_until_the_end() -> None:
    [found] = gaps_of({0: [put(900, "a-0", 0)]}, [], begin_ms=1_000, end_ms=9_000)
    assert found == Gap(0, 8_100, moved=False)


def test_skipped_and_repeated_offsets_are_counted() -> None:
    assert holes([put(0, "a", 0, 4), put(1, "a", 5, 9)]) == (0, 0)
    assert holes([put(0, "a", 0, 4), put(1, "b", 3, 9)]) == (0, 2)
    assert holes([put(0, "a", 2, 4), put(1, "a", 6, 9)]) == (3, 0), "from offset 0 on"
    assert holes([put(0, "a", 0, 9), put(1, "b", 2, 3), put(1, "b", 10)]) == (0, 2)


def test_a_file_is_read_as_it_grows(tmp_path: Path) -> None:
    log = PutLog(tmp_path / "a.puts")
    assert not log.poll().are_fresh(0)
    log.path.write_text("5 a-0 3 0 4\n7 a-")
    assert log.poll().puts == {3: [Put(5, "a-0", 3, 0, 4)]}
    with log.path.open("a") as file:
        file.write("1 2 0 0\n6 a-0 3 5 5\n")
    assert [each.at_ms for each in log.poll().puts[3]] == [5, 6]
    with log.path.open("a") as file:
        file.writelines(f"2000 a-1 {number} 9 9\n" for number in range(PARTITIONS))
    assert log.poll().are_fresh(2_500)
    assert not log.are_fresh(5_100)


def test_the_page_tells_touched_partitions_from_others(tmp_path: Path) -> None:
    title = EVENTS["joins"].title

    def turn(other_ms: int) -> dict[str, Any]:
        events = {title: {"lasted_s": 9, "gaps_ms": [(0, other_ms, False), (1, 5_000, True)]}}
        sink = {"events": events, "skipped": 0, "repeated": 3}
        return {"contender": "stock led", "sinks": dict.fromkeys(SHARING, sink)}

    run = {
        "begun": "now",
        "command": "c",
        "machine": {"processor": "p", "cores": 2, "load_before": 0.1},
        "versions": {"kafka": "4"},
        "sizes": {"repetitions": 3, "seed": 1},
        "load": {"delay_ms": 60_000},
        "turns": [turn(100), turn(300), turn(1_100), {"contender": "stock led", "failed": "no broker"}],
    }
    page.write({"sinks": run}, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert f"| {title} | 0.3 (1.1) | 0.3 (1.1) | 0.3 (1.1) |" in text
    assert f"| {title} | 5.0 (5.0) | 5.0 (5.0) | 5.0 (5.0) |" in text
    assert "0 skipped, 9 repeated" in text
    assert "stock led failed: no broker" in text
    assert (tmp_path / "pictures" / "article-sinks.svg").exists()


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.long(
    "tests/stock/test_adoption.py::test_no_task_stops_when_the_lead_is_taken_left_alone_and_handed_back"
)
def test_no_record_is_skipped_however_consumers_share_partitions(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.article", "sinks", "--short", "--results", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=880)
    [turn] = json.loads((tmp_path / "sinks.json").read_text())["turns"]
    assert "failed" not in turn, turn
    assert turn["sinks"].keys() == SHARING.keys()
    for found in turn["sinks"].values():
        assert found["skipped"] == 0
