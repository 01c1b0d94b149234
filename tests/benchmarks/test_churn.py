"""Computations of throughput under churn, its schedule and its page, and the measurement's short form."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from benchmarks.clusters import page
from benchmarks.clusters.churn import CONTENDERS, PLAN, SHORT, TASKS, Event, Played, Throughput, throughput
from benchmarks.clusters.contenders import Cluster
from benchmarks.clusters.turns import Run, command_of, merged, with_turn
from benchmarks.pipelines.job import ROOT
from tests.harness.support import eventually


def test_a_partition_without_progress_is_the_least() -> None:
    after = {partition: 100 * partition for partition in range(1, TASKS)}
    assert throughput({}, after, 10.0) == Throughput(660.0, 0.0, 110.0, 55.0)
    assert throughput({0: 50}, {0: 150}, 10.0).total == 10.0


@pytest.mark.parametrize("plan", [PLAN, SHORT])
def test_events_fit_their_window_and_leave_no_connector_behind(plan: Any) -> None:
    for events in (plan.workers, plan.connectors):
        times = [event.at_s for event in events]
        assert times == sorted(times)
        assert 0 < times[0] < times[-1] < plan.window_s
    titles = [event.title for event in PLAN.connectors]
    assert titles.count("it is deleted") == titles.count("a connector of 2 tasks is created")


def test_an_event_waits_for_the_one_before_it() -> None:
    seen: list[str] = []
    nothing = cast(Cluster, None)

    def fails(cluster: Cluster) -> None:
        raise RuntimeError("no worker")

    first = Event(0.0, "first", lambda cluster: seen.append("first"))
    later = Event(60.0, "later", lambda cluster: seen.append("later"))
    played = Played(nothing, (first, later))
    played.start()
    eventually(lambda: seen == ["first"], 10)
    played.end(10)
    assert [event.title for event in played.left] == ["later"]
    assert [title for _, title in played.done] == ["first"]
    failing = Played(nothing, (Event(0.0, "second", fails), later))
    failing.start()
    eventually(lambda: bool(failing.done), 10)
    with pytest.raises(RuntimeError, match="'second' failed: no worker"):
        failing.end(10)


def turn(rate: float) -> Run:
    figures = dict.fromkeys(("total", "least", "most", "median", "steady"), rate)
    return {
        **figures,
        "events": [(5.0, "a worker joins")],
        "late": 1,
        "rebalances": 7,
        "progress": [(0.0, 0), (1.0, 9)],
    }


RUN: Run = {
    "begun": "now",
    "command": "c",
    "machine": {"processor": "p", "cores": 2, "load_before": 0.1},
    "sizes": {"tasks": 10, "contenders": [], "repetitions": 1},
    "load": {"delay_ms": 30_000},
    "turns": [],
}


def test_turns_are_added_to_those_of_an_earlier_run() -> None:
    earlier = with_turn(RUN, "Eager", turn(1))
    both = with_turn(with_turn(merged(earlier, RUN), "Default", turn(2)), "Eager", turn(3))
    assert [(t["contender"], t["repetition"]) for t in both["turns"]] == [
        ("Eager", 0),
        ("Default", 0),
        ("Eager", 1),
    ]
    assert both["sizes"] == {"tasks": 10, "contenders": ["Eager", "Default"], "repetitions": 2}
    with pytest.raises(typer.BadParameter, match="has other load"):
        merged(earlier, {**RUN, "load": {"delay_ms": 1}})


def test_a_page_does_not_tell_where_figures_are_on_one_machine() -> None:
    words = ["churn", "--results", "/somewhere/else", "--merge", "--contenders=Eager,Default", "--seed", "2"]
    assert command_of(words) == "python -m benchmarks.article churn --seed 2"


def test_the_page_compares_incremental_with_eager(tmp_path: Path) -> None:
    run = with_turn(with_turn(RUN, "stock eager", turn(10)), "stock sessioned", turn(25))
    run = {**with_turn(run, "Eager", {"failed": "no broker"}), "note": "Eager stops all."}
    page.write({"churn": run}, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| stock sessioned | 25.0 | 25.0 | 25.0 | 25.0 | 25.0 | 1 | 1 of 2 | 7 |" in text
    assert "| stock sessioned over stock eager | 2.50 | 2.50 | 2.50 | 2.50 |" in text
    assert "Eager failed: no broker" in text
    assert "Eager stops all." in text
    assert (tmp_path / "pictures" / "article-churn.svg").exists()


@pytest.mark.real
@pytest.mark.timeout(1_800)
@pytest.mark.long("tests/stock/test_figures.py::test_a_worker_joins_returns_and_leaves_for_good")
def test_the_short_form_measures_every_contender(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.article", "churn", "--short", "--results", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=1_780)
    turns = json.loads((tmp_path / "churn.json").read_text())["turns"]
    assert {turn["contender"] for turn in turns} == CONTENDERS.keys()
    for turn in turns:
        assert "failed" not in turn, turn
        assert turn["least"] > 0
