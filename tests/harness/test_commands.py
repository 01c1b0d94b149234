"""Commands that run at once: their results, their output, and what they cost."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.commands import Command, Result, run_at_once


def python(name: str, text: str, **options: bool) -> Command:
    return Command(name, (sys.executable, "-c", text), **options)


def run(commands: Sequence[Command], directory: Path) -> dict[str, Result]:
    return {result.name: result for result in run_at_once(commands, directory)}


def test_commands_run_at_once_and_results_are_in_order(tmp_path: Path) -> None:
    """Each can end only while the other one runs: both wait for a file of the other."""
    meet = (
        "import pathlib, time; pathlib.Path('{0}').touch(exist_ok=False)\n"
        "while not pathlib.Path('{1}').exists(): time.sleep(0.01)"
    )
    results = run_at_once([python("a", meet.format("a", "b")), python("b", meet.format("b", "a"))], tmp_path)
    assert [(result.name, result.code) for result in results] == [("a", 0), ("b", 0)]


def test_a_failure_is_a_result_and_the_others_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    results = run([python("bad", "print('why'); raise SystemExit(3)"), python("good", "pass")], tmp_path)
    assert (results["bad"].code, results["good"].code) == (3, 0)
    said = capfd.readouterr().out
    assert "why" in said
    assert "bad: FAILED with 3" in said


def test_output_is_whole_and_that_of_a_quiet_command_is_shown_only_if_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        [
            python("quiet", "print('unshown text')", is_quiet=True),
            python("quiet and bad", "print('shown text'); raise SystemExit(1)", is_quiet=True),
        ],
        tmp_path,
    )
    said = capsys.readouterr().out
    assert "unshown text\n" not in said
    assert "\nshown text\n" in said


def test_processor_time_counts_descendants(tmp_path: Path) -> None:
    work = "sum(range(3_000_000))"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    results = run([python("idle", "pass"), python("nested", nested)], tmp_path)
    assert results["nested"].processor_s > results["idle"].processor_s > 0
