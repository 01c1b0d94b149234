"""Commands in lanes: their order, their results, what they cost, and what a signal does."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.lanes import Command, Result, run_lanes


def python(name: str, text: str, **options: bool) -> Command:
    return Command(name, (sys.executable, "-c", text), **options)


def run(lanes: Sequence[Sequence[Command]], directory: Path) -> dict[str, Result]:
    return {result.name: result for result in run_lanes(lanes, directory)}


def test_a_lane_runs_in_turn_and_beside_the_others(tmp_path: Path) -> None:
    """Each lane can end only while the other one runs: both wait for a file of the other."""
    wait = "import pathlib, time\nwhile not pathlib.Path('{0}').exists(): time.sleep(0.01)\n"
    touch = "import pathlib; pathlib.Path('{0}').touch(exist_ok=False)"
    lanes = [
        [python("a", touch.format("a")), python("waits for b", wait.format("b") + touch.format("c"))],
        [python("waits for a", wait.format("a") + touch.format("b")), python("c", wait.format("c"))],
    ]
    results = run_lanes(lanes, tmp_path)
    assert [(result.name, result.code) for result in results] == [
        *[("a", 0), ("waits for b", 0)],
        *[("waits for a", 0), ("c", 0)],
    ]


def test_a_failure_is_a_result_and_the_lane_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    results = run([[python("bad", "print('why'); raise SystemExit(3)"), python("good", "pass")]], tmp_path)
    assert (results["bad"].code, results["good"].code) == (3, 0)
    said = capfd.readouterr().out
    assert "why" in said
    assert "bad: FAILED with 3" in said


def test_output_is_whole_and_that_of_a_quiet_command_is_shown_only_if_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        [
            [python("quiet", "print('unshown text')", is_quiet=True)],
            [python("quiet and bad", "print('shown text'); raise SystemExit(1)", is_quiet=True)],
        ],
        tmp_path,
    )
    said = capsys.readouterr().out
    assert "unshown text\n" not in said
    assert "\nshown text\n" in said


def test_processor_time_counts_descendants(tmp_path: Path) -> None:
    work = "sum(range(3_000_000))"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    results = run([[python("idle", "pass")], [python("nested", nested)]], tmp_path)
    assert results["nested"].processor_s > results["idle"].processor_s > 0
