"""The live picture, and tables that are watched: what they show of a moment, and when they print."""

import io
import operator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from cooperator.local import get
from cooperator.local.layout import StateDir, write_json
from cooperator.terminal import watch
from cooperator.terminal.top import picture
from cooperator.terminal.watch import print_changes

NOW = 1_700_000_100_000


def task(name: str, state: str, member: str | None = "lake-0", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "task": int(name.rpartition("-")[2]),
        "worker": "lake",
        "state": state,
        "member": member,
        "at_ms": NOW - 5_000,
        "progress": "",
        "trace": "",
        **more,
    }


VIEW: dict[str, Any] = {
    "at_ms": NOW,
    "workers": [
        {
            "spec": {"replicas": 2},
            "status": {
                "readyReplicas": 1,
                "tasks": {"desired": 120, "running": 102, "held": 6, "failed": 11},
            },
        }
    ],
    "members": [
        {
            "name": "lake-0",
            "worker": "lake",
            "phase": "Running",
            "tasks": 3,
            "restarts": 0,
            "started_ms": NOW - 60_000,
            "message": "",
        },
        {
            "name": "lake-1",
            "worker": "lake",
            "phase": "Ended",
            "tasks": 0,
            "restarts": 2,
            "started_ms": None,
            "message": "it [crashed]",
        },
    ],
    "tasks": [
        task("a-0", "RUNNING", progress='{"rows_in": 1200, "rows_per_s": 1250.4}'),
        task("a-1", "RUNNING", progress='{"rows_in": 10, "rows_per_s": 49.6}'),
        task("a-2", "RESTARTING", trace="no disk", next_attempt_ms=NOW + 12_000),
        task("a-3", "HELD", None, held_for="lake-1", held_until_ms=NOW + 41_000, held_reason="Departed"),
        task("a-4", "FAILED", trace="It has failed again", reason="RestartLimit"),
    ],
    "groups": [
        {
            "worker": "lake",
            "rebalances": [
                {
                    "generation": number,
                    "at_ms": NOW - 10_000 * (9 - number),
                    "cause": f"cause {number}",
                    "assigned": number,
                    "revoked": 1,
                    "moved": 2,
                    "held": 3,
                }
                for number in range(1, 9)
            ],
        }
    ],
}


def lines(view: Mapping[str, Any], trouble: str = "") -> list[list[str]]:
    """The cells of the picture, line by line."""
    file = io.StringIO()
    console = Console(width=200, file=file)
    console.print(picture(view, trouble))
    text = file.getvalue()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def row(view: Mapping[str, Any], first: str) -> list[str]:
    [found] = [line for line in lines(view) if line and line[0] == first]
    return found


def test_the_sums_of_a_moment() -> None:
    summary = lines(VIEW)[0][0]
    assert (
        "1 of 2 members run, 102 of 120 tasks run, 11 FAILED, 6 HELD, 1 RESTARTING, 1,300 rows/s" in summary
    )


def test_unreported_figures_are_unknown_and_not_zero() -> None:
    summary = lines({**VIEW, "workers": [*VIEW["workers"], {"spec": {"replicas": 3}}], "tasks": []})[0][0]
    assert "? of 5 members run, ? of ? tasks run" in summary
    assert "HELD" not in summary


def test_holds_and_retries_count_down() -> None:
    assert row(VIEW, "a-3")[2:] == ["HELD", "5s", "for lake-1, in 41s (Departed)"]
    assert row(VIEW, "a-2")[-1] == "next attempt in 12s: no disk"
    later = {**VIEW, "at_ms": NOW + 11_000}
    assert row(later, "a-3")[-1] == "for lake-1, in 30s (Departed)"
    assert row(later, "a-2")[-1] == "next attempt in 1s: no disk"


def test_rates_and_failures() -> None:
    assert row(VIEW, "a-0")[2:] == ["RUNNING", "lake-0", "1,250", "5s", "1,200 rows, 1,250/s"]
    assert row(VIEW, "a-4")[2:] == ["FAILED", "lake-0", "5s", "RestartLimit: It has failed again"]


def test_sums_leave_out_rates_that_have_expired_and_say_so() -> None:
    later = {**VIEW, "at_ms": NOW + 26_000}
    summary = lines(later)[0][0]
    assert "rows/s" not in summary
    assert "2 rates unknown" in summary
    assert row(later, "a-0")[4:] == ["?", "31s", "1,200 rows, rate unknown, as of 31s ago"]

    tasks = [VIEW["tasks"][0], {**VIEW["tasks"][1], "at_ms": NOW - 840_000}]
    assert "1,250 rows/s, 1 rate unknown" in lines({**VIEW, "tasks": tasks})[0][0]


def test_a_sum_of_lags_tells_since_when_its_oldest_part_stands() -> None:
    old = task("b-0", "RUNNING", progress='{"rows_in": 1, "lag": 40}', at_ms=NOW - 840_000)
    new = task("b-1", "RUNNING", progress='{"rows_in": 1, "lag": 2}')
    assert lines({**VIEW, "tasks": [new]})[0][0].endswith(", 2 behind")
    assert lines({**VIEW, "tasks": [old, new]})[0][0].endswith(", 42 behind (some as of 14m ago)")


def test_tasks_that_need_attention_come_first() -> None:
    names = [line[0] for line in lines(VIEW) if line and line[0].startswith("a-")]
    assert names == ["a-4", "a-3", "a-2", "a-0", "a-1"]


def test_members_and_the_last_rebalances_newest_first() -> None:
    assert row(VIEW, "lake-1") == ["lake-1", "lake", "Ended", "0", "2", "it [crashed]"]
    rebalances = [line for line in lines(VIEW) if line and line[-1].startswith("cause")]
    assert [line[0] for line in rebalances] == ["8", "7", "6", "5", "4"]
    assert rebalances[0] == ["8", "lake", "10s", "8", "1", "2", "3", "cause 8"]


def test_a_daemon_that_is_away_is_said_with_the_last_picture() -> None:
    assert ["the daemon does not answer"] in lines(VIEW, "the daemon does not answer")
    assert lines(VIEW, "away")[0] == lines(VIEW)[0]


def test_a_watched_table_is_printed_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([("one, 1s", 1), ("one, 2s", 1), ("two, 3s", 2), ("two, 4s", 2), ("one, 5s", 1)])

    def pause() -> None:
        if not operator.length_hint(looks):
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        print_changes(lambda: next(looks), pause)
    assert capsys.readouterr().out == "one, 1s\n\ntwo, 3s\n\none, 5s\n"
    assert ended.value.exit_code == 130


@pytest.mark.parametrize("kind", ["workers", "connectors", "tasks", "members"])
def test_that_time_goes_by_is_no_change_of_a_watched_table(
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    task = {"name": "a-0", "state": "HELD", "at_ms": NOW - 9_000, "held_until_ms": NOW + 60_000}
    meta = {"name": "a", "namespace": "default", "creationTimestamp": "2023-11-14T22:13:20Z"}
    view = {
        "workers": [{"metadata": meta, "spec": {"replicas": 1}}],
        "connectors": [{"metadata": meta, "spec": {"workerRef": {"name": "lake"}, "class": "noop"}}],
        "tasks": [{**task, "worker": "lake"}],
        "members": [
            {"name": "a", "worker": "l", "phase": "x", "tasks": 1, "restarts": 0, "started_ms": NOW - 9_000}
        ],
        "problems": [],
    }
    seconds = iter(range(4))

    def ask(state: StateDir) -> dict[str, Any]:
        second = next(seconds, None)
        if second is None:
            raise KeyboardInterrupt
        return {**view, "at_ms": NOW + 1_000 * second}

    monkeypatch.setattr(get, "ask_host", ask)
    monkeypatch.setattr(watch, "_INTERVAL_S", 0)
    write_json(tmp_path / "cluster.json", {"id": "x"})
    with pytest.raises(typer.Exit):
        get.get(kind, watch=True, state=tmp_path)
    assert capsys.readouterr().out.count("NAME") == 1


@pytest.mark.parametrize("kind", ["tasks", "members"])
def test_unknown_daemon_facts_are_not_shown_as_none(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "cluster.json", {"id": "x"})
    with pytest.raises(typer.Exit):
        get.get(kind, "a", state=tmp_path)
    said = capsys.readouterr().err
    assert "the host daemon does not answer" in said
    assert "there " not in said
