"""The page on reactions, the reading of an operator's log, and the measurement's short form."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.clusters import page
from benchmarks.departures import EVICTING, PLANNED, LogTail, stages
from benchmarks.pipelines.job import ROOT

LOG = """\
2026-11-25 06:46:57,188 INFO  cooperator.leader.actuator: evicting m-1: it has ended
2026-11-25 06:46:57,200 WARNING cooperator.leader: something else
2026-11-25 06:46:57,400 INFO  cooperator.leader.leader_thread: generation 7: 0 assigned, 1 revoked, 0 held: x
2026-11-25 06:46:57,900 INFO  cooperator.leader.leader_thread: generation 8: 2 assigned, 0 revoked, 0 held: x
"""


def test_stages_are_read_from_the_operators_log_as_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "operator.log"
    file.write_text(LOG[:100])
    log = LogTail(file)
    evicted = log.first(EVICTING, 0.0)
    assert log.first(PLANNED, evicted) == 0.0
    with file.open("a") as out:
        out.write(LOG[100:])
    planned = log.first(PLANNED, evicted)
    assert stages([evicted, planned]) == [pytest.approx(712, abs=1)], "a round without new tasks is none"
    assert log.first(EVICTING, planned) == 0.0


def test_the_page_has_the_distribution_of_each_size_and_how_it_grows(tmp_path: Path) -> None:
    def turn(members: int, ms: float) -> dict[str, object]:
        return {
            "members": members,
            "heartbeat_ms": 1_000,
            "deaths_ms": [[ms, 10.0, 20.0, 30.0], [ms + 10, 10.0, 20.0, 30.0]],
            "takeovers_ms": [[1.0, 2.0, 3.0]],
            "cores": {"operator": 0.2, "harness": 0.5},
        }

    run = {
        "begun": "now",
        "command": "c",
        "machine": {"processor": "p", "cores": 2, "load_before": 0.1},
        "versions": {"kafka": "4"},
        "note": "A note.",
        "turns": [turn(3, 40), turn(50, 100), turn(200, 400), turn(3, 40)],
    }
    page.write({"reaction": run}, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| 3 | 1000 ms | all, of 4 | 105 | 110 | 110 | 110 |" in text
    assert "| 200 | 1000 ms | exit -> event | 405 | 410 | 410 | 410 |" in text
    assert "| 50 | 1000 ms | serves -> leads | 2 | 2 | 2 | 2 |" in text
    assert "From 50 to 200 members the median grows by 300 ms." in text
    assert "A note." in text
    assert (tmp_path / "pictures" / "article-reaction.svg").exists()
    slower = {**turn(50, 100), "heartbeat_ms": 3_000}
    page.write({"reaction": {**run, "turns": [slower, turn(200, 400)]}}, tmp_path / "page.md")
    assert "the median grows" not in (tmp_path / "page.md").read_text(), "other heartbeats"


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.long(
    "tests/controller/test_one_event.py::"
    "test_a_death_that_moves_tasks_has_one_id_from_the_watch_to_the_last_start"
)
def test_the_short_form_measures_each_stage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.article", "reaction", "--short", "--results", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=880)
    turns = json.loads((tmp_path / "reaction.json").read_text())["turns"]
    assert [turn["members"] for turn in turns] == [3, 10]
    for turn in turns:
        assert len(turn["deaths_ms"]) == len(turn["takeovers_ms"]) == 2
        assert all(ms >= 0 for each in (*turn["deaths_ms"], *turn["takeovers_ms"]) for ms in each), turn
