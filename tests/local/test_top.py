"""The live picture, and tables that are watched: what they show of a moment, and when they print."""

import io
from collections.abc import Mapping
from typing import Any

import pytest
import typer
from rich.console import Console

from cooperator.local.top import picture
from cooperator.local.watch import print_changes

NOW = 1_700_000_100_000


def task(name: str, state: str, member: str | None = "lake-0", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
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
    assert "1 of 2 members run, 2 of 5 tasks run, 1 FAILED, 1 HELD, 1 RESTARTING, 1,300 rows/s" in summary


def test_what_is_held_or_tried_again_counts_down() -> None:
    assert row(VIEW, "a-3")[2:] == ["HELD", "5s", "for lake-1, in 41s (Departed)"]
    assert row(VIEW, "a-2")[-1] == "next attempt in 12s: no disk"
    later = {**VIEW, "at_ms": NOW + 11_000}
    assert row(later, "a-3")[-1] == "for lake-1, in 30s (Departed)"
    assert row(later, "a-2")[-1] == "next attempt in 1s: no disk"


def test_rates_and_failures() -> None:
    assert row(VIEW, "a-0")[2:] == ["RUNNING", "lake-0", "1,250", "5s", "1,200 rows, 1,250/s"]
    assert row(VIEW, "a-4")[2:] == ["FAILED", "lake-0", "5s", "RestartLimit: It has failed again"]


def test_what_needs_a_look_stands_above_what_runs() -> None:
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
    texts = iter(["one", "one", "two", "two", "one"])

    def pause() -> None:
        if not texts.__length_hint__():
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        print_changes(lambda: next(texts), pause)
    assert capsys.readouterr().out == "one\n\ntwo\n\none\n"
    assert ended.value.exit_code == 130
