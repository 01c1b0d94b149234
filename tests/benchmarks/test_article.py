"""Computations of the article's benchmark, and its short form on real clusters."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.clusters import page
from benchmarks.clusters.timeline import (
    Cost,
    Follower,
    Line,
    Point,
    Round,
    costs,
    doubled,
    gaps,
    places_in_steps,
    points_of,
    rounds,
    slope,
    student,
)
from benchmarks.pipelines.job import ROOT

LOG = """\
2026-11-25 06:46:57,188 INFO  [p] GroupMetadataManager: [G] Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: x)
2026-11-25 06:46:57,300 INFO  [p] GroupMetadataManager: [G] Preparing to rebalance group other in state PreparingRebalance with old generation 1 (reason: x)
2026-11-25 06:46:57,400 INFO  [p] GroupMetadataManager: [G] Preparing to rebalance group g in state PreparingRebalance with old generation 2 (reason: x)
2026-11-25 06:46:57,688 INFO  [p] GroupMetadataManager: [G] Assignment received from leader m for group g for generation 3. The group has 3 members
2026-11-25 06:46:58,688 INFO  [p] GroupMetadataManager: [G] Assignment received from leader m for group other for generation 3.
"""  # noqa: E501


def line(at_ms: int, task: str, member: str, starts: bool, attempt: int = 1) -> Line:
    return Line(at_ms, task, member, (task, member, attempt), starts)


def test_a_superseded_round_is_part_of_the_next() -> None:
    [found] = rounds(LOG.splitlines(), "g")
    assert found.duration_ms == 500


def test_a_stop_without_a_later_start_is_no_cost_of_a_round() -> None:
    lines = [
        line(1, "a", "w", True),
        line(1, "b", "w", True),
        line(20, "a", "w", False),
        line(21, "b", "w", False),
        line(30, "a", "w", True, 2),
    ]
    assert costs([Round(10, 25), Round(40, 41)], lines) == [Cost(10, 15, 2, 1), Cost(40, 1, 1, 0)]


def test_the_interval_of_a_slope_contains_the_slope_of_noisy_points() -> None:
    found = slope([Point(x, 100 + 2 * x + (-1) ** x) for x in range(40)])
    assert found is not None
    assert found.low < 2 < found.high
    assert found.high - found.low < 0.1
    assert slope([Point(1, 2)] * 10) is None, "one size only"
    assert slope([]) is None
    assert slope([Point(1, 2), Point(2, 3)]) is None


def test_covariates_take_their_noise_from_a_slope() -> None:
    def point(x: int) -> Point:
        kind, wait = ("start", "stop")[x % 2], float(x * 37 % 100)
        return Point(x, 50 + 0.5 * x + (wait if kind == "start" else 30 + 2 * wait) + x % 3, kind, wait)

    points = [point(x) for x in range(60)]
    bare, found = slope([Point(each.x, each.y) for each in points]), slope(points)
    assert bare is not None
    assert found is not None
    assert found.slope == pytest.approx(0.5, abs=0.02)
    assert 20 * (found.high - found.low) < bare.high - bare.low
    mean = sum(each.y for each in points) / 60
    assert found.intercept == pytest.approx(mean - found.slope * 29.5)


def test_the_wait_for_a_heartbeat_is_known_from_the_round_before() -> None:
    told = {"phase": "start", "running": 7, "duration_ms": 300, "place": 1}
    first, second = {**told, "at_s": 1.0}, {**told, "at_s": 1.7, "place": 2}
    assert points_of([first, second], 1_000) == [Point(7, 300, "start 2", pytest.approx(600))]


def test_rounds_have_a_place_in_their_step() -> None:
    assert places_in_steps([1, 12, 13, 14, 15, 22], [10, 20]) == [1, 1, 2, 3, 3, 1]


@pytest.mark.parametrize(("freedom", "quantile"), [(2, 4.303), (10, 2.228), (100, 1.984)])
def test_students_quantiles(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, rel=0.04 if freedom < 10 else 0.001)


def test_gaps_count_what_ran_nowhere() -> None:
    lines = [
        line(0, "a", "w1", True),
        line(0, "b", "w1", True),
        line(1_000, "a", "w1", False),
        line(1_000, "b", "w1", False),
        line(3_000, "a", "w2", True),
        line(4_000, "b", "w1", True, 2),
    ]
    found = gaps(lines, {"a", "b"}, 500, 5_000)
    assert (found.task_seconds, found.longest_s, found.moves, found.restarts) == (5.0, 3.0, 1, 1)


def test_a_task_that_never_comes_back_is_unassigned_until_the_end() -> None:
    lines = [line(0, "a", "w1", True), line(1_000, "a", "w1", False)]
    assert gaps(lines, {"a"}, 500, 5_000).task_seconds == 4.0


def test_a_task_in_two_places_is_found() -> None:
    lines = [line(0, "a", "w1", True), line(5, "a", "w2", True), line(6, "a", "w1", False)]
    assert doubled(lines) == ["a"]
    assert doubled([line(0, "a", "w1", True), line(5, "a", "w1", False), line(5, "a", "w2", True)]) == []


def test_a_journal_is_read_as_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    def event(kind: str, task: str = "a-0") -> str:
        return json.dumps(
            {"event": kind, "task": task, "member": "w", "incarnation": "i", "attempt": 1, "at_ms": 5}
        )

    follower = Follower(path)
    assert follower.poll().tasks() == set()
    path.write_text(event("start") + "\n" + event("start", "a-instance") + "\n" + event("start", "a-1")[:20])
    assert follower.poll().tasks() == {"a-0"}
    with path.open("a") as file:
        file.write(event("start", "a-1")[20:] + "\n" + event("beat") + "\n" + event("stop") + "\n")
    assert follower.poll().tasks() == {"a-1"}
    follower.ended("i", 9)
    assert follower.tasks() == set()
    assert [(each.at_ms, each.starts) for each in follower.lines] == [
        (5, True),
        (5, True),
        (5, False),
        (9, False),
    ]


def turn(contender: str, more_ms: int) -> dict[str, Any]:
    played = asdict(gaps([line(0, "a", "w1", True)], {"a"}, 1, 2))
    case = {"limit_task_seconds": None, "rebalances": 2, "stretches": [("a", "w1", 0.0, 1.0)]}
    return {
        "contender": contender,
        "all_run_s": 30.0 + more_ms,
        "all_gone_s": 20.0,
        "rebalances_starting": 9,
        "rebalances_stopping": 9,
        "stopped_without_need": more_ms,
        "rounds": [
            {
                "at_s": n,
                "phase": "start",
                "duration_ms": 900 + n % 2 + n * more_ms,
                "running": n,
                "stopped": 0,
            }
            for n in range(20)
        ],
        "rounds_at_once": [],
        "running": [(0.0, 0), (1.0, 30)],
        "cases": {"away": {**played, **case}},
    }


def test_the_page_judges_ours_against_stock(tmp_path: Path) -> None:
    turns = [turn("stock sessioned", 100), turn("Default", 0), {"contender": "Eager", "failed": "no broker"}]
    sizes = {"connectors": 2, "tasks": 10, "repetitions": 1, "seed": 1, "away_s": 5.0}
    machine = {"processor": "p", "cores": 2, "memory_gib": 8, "load_before": 0.1}
    versions = {"kafka": "4", "java": "17", "python": "3", "cooperator": "1"}
    load = {"workers": 3, "heartbeat_ms": 1_000, "start_ms": 50, "stop_ms": 50, "delay_ms": 60_000}
    run = {
        "begun": "now",
        "command": "c",
        "machine": machine,
        "versions": versions,
        "sizes": sizes,
        "load": load,
    }
    smaller = {**run, "turns": [turn("Default", 0)], "note": "Few tasks."}
    runs = {"figures": {**run, "turns": turns}, "figures-9": smaller, "use-cases": {**run, "turns": turns}}
    page.write(runs, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| a round with all tasks takes at most 10 % longer | met |" in text
    assert "| not slower than stock sessioned (0.23 of its time) | met |" in text
    assert "Eager failed: no broker" in text
    assert "### A worker is killed, and is back after a while" in text
    pictures = {path.name for path in (tmp_path / "pictures").iterdir()}
    drawn = {f"{of}-{what}" for of in ("figures", "figures-9") for what in ("tasks", "rebalances", "times")}
    assert {f"article-{name}.svg" for name in (*drawn, "away")} == pictures
    assert "(2 connectors, 20 tasks, once)" in text
    assert "Few tasks." in text
    page.write({"figures": {**run, "turns": [turn("Default", 100)]}}, tmp_path / "page.md")
    assert "at most 10 % longer | **missed** |" in (tmp_path / "page.md").read_text()


@pytest.mark.real
@pytest.mark.timeout(1_800)
@pytest.mark.long("tests/stock/test_figures.py::test_a_worker_joins_returns_and_leaves_for_good")
def test_the_short_form_measures_every_contender(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.article", "all", "--short", "--results", str(tmp_path)]
    written = tmp_path / "article.md"
    subprocess.run([*command, "--page", str(written)], cwd=ROOT, check=True, timeout=1_700)
    for name in ("figures", "use-cases"):
        turns = json.loads((tmp_path / f"{name}.json").read_text())["turns"]
        assert len(turns) == 6
        for turn in turns:
            assert "failed" not in turn, turn
            assert turn["contender"].startswith("stock") or turn["doubled"] == [], turn["doubled"]
    assert "## Use cases" in written.read_text()
