"""The commands ``run.py check`` and ``run.py tests``, in the project's own environment (``python -m tests``).

The parts of the tests and their times stand in ``pyproject.toml`` (``tool.cooperator.parts``). A run that
decides about a change is the same on every machine: no environment variable adds or removes a test. Tests
marked ``long`` run with ``--long`` only.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.commands import Command, Interrupted, Result, raise_on_signals, run_at_once, say
from tests.harness.runs import begin_run
from tests.kubernetes.caches import cache_folder
from tests.simulation.seeds import first_fresh

ROOT = Path(__file__).resolve().parents[1]
STATIC = "static"
SLOWEST = 10
"""The end of a run names this number of tests."""
CHECKED_SEEDS = 20
"""``check`` runs this number of fixed seeds of the simulation, and as many fresh ones."""


@dataclass(frozen=True)
class Part:
    """``words`` are arguments of pytest; minutes are of two calm cores with warm caches."""

    name: str
    words: tuple[str, ...]
    minutes: float
    long_minutes: float


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if anything failed, 128 and the signal's number if one ended the run."""
    parts = read_parts()
    options, pytest_words = _parser(parts).parse_known_args(arguments)
    raise_on_signals()
    # Where it is set, each of hundreds of processes compiles the project again: twice the time to import it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # All that is started from here on ends with this process, however that ends.
    sys.stdout.write(begin_run())
    try:
        with tempfile.TemporaryDirectory() as scratch:
            reports = Path(scratch)
            if options.what == "check":
                results = run_check(reports)
            else:
                results = run_tests(parts, options.only, options.long, pytest_words, reports)
            return report(results, read_durations(reports))
    except Interrupted as interrupted:
        (number,) = interrupted.args
        say(f"ended by {signal.Signals(number).name}")
        return 128 + int(number)


def _parser(parts: Mapping[str, Part]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", allow_abbrev=False)
    parser.add_argument("what", choices=("check", "tests"))
    parser.add_argument("--only", choices=(STATIC, *parts), help="one part of the tests")
    parser.add_argument("--long", action="store_true", help="also the long tests; they take hours")
    return parser


def read_parts(root: Path = ROOT) -> dict[str, Part]:
    """Returns the parts in the order in which they run.

    A path below another part's folder belongs to the part that names it.
    """
    table = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["cooperator"]["parts"]
    named = [word for part in table.values() for word in part["tests"]]

    def of_others(tests: Iterable[str]) -> list[str]:
        folders = tuple(f"{path}/" for path in tests)
        return [path for path in named if path not in tests and path.startswith(folders)]

    return {
        name: Part(
            name,
            (*part["tests"], *part["options"], *(f"--ignore={path}" for path in of_others(part["tests"]))),
            part["minutes"],
            part["long-minutes"],
        )
        for name, part in table.items()
    }


# --- what runs --------------------------------------------------------------------------------------------


def run_check(reports: Path) -> list[Result]:
    """Runs what fits every save: static checks, tests without real parts, some seeds of the simulation."""
    pure = ("tests", "--ignore=tests/simulation", "-m", "not real", "-n", "2", "--dist", "worksteal")
    seeds = (sys.executable, "-m", "tests.simulation", "--jobs", "2", "--seeds", str(CHECKED_SEEDS))
    tests = [
        pytest_command("pure", pure, reports),
        Command("fixed seeds", seeds),
        Command("fresh seeds", (*seeds, "--start", str(first_fresh()))),
    ]
    results = run_at_once(static_checks(), ROOT)
    for each in tests:
        results += run_at_once([each], ROOT)
    return results


def run_tests(
    parts: Mapping[str, Part], only: str | None, long: bool, pytest_words: Sequence[str], reports: Path
) -> list[Result]:
    """Runs static checks and all parts, one part, or what ``pytest_words`` name.

    A test that fails once fails the run (decision 028).
    """
    if pytest_words:
        return run_at_once([pytest_command("tests", pytest_words, reports, long=long)], ROOT)
    chosen = [part for part in parts.values() if only in (None, part.name)]
    say(announce(chosen, long))
    results = run_at_once(static_checks(), ROOT) if only in (None, STATIC) else []
    for part in chosen:
        results += run_at_once([pytest_command(part.name, part.words, reports, long=long)], ROOT)
    return results


def announce(parts: Sequence[Part], long: bool) -> str:
    """Returns how long these parts take."""
    minutes = sum(part.minutes for part in parts)
    hours = sum(part.long_minutes for part in parts) / 60
    text = f"these tests take some {minutes:.0f} minutes on two calm cores"
    return f"{text}, and the long ones {hours:.1f} hours more" if long else text


def pytest_command(name: str, words: Sequence[str], reports: Path, *, long: bool = False) -> Command:
    """Returns pytest with these words."""
    pytest = (sys.executable, "-m", "pytest", f"--junitxml={reports / name}.xml")
    return Command(name, (*pytest, *words, *(("--long",) if long else ())))


def static_checks() -> list[Command]:
    """Returns commands that need one core each."""
    tools = Path(sys.executable).parent
    return [
        Command("lint", (str(tools / "ruff"), "check", ".")),
        Command("format", (str(tools / "ruff"), "format", "--check", ".")),
        # Outside the clone, so that a fresh one need not check all dependencies again.
        Command("types", (str(tools / "mypy"), f"--cache-dir={cache_folder('mypy')}")),
        Command("imports", (str(tools / "lint-imports"),)),
        # JVMs of tests start with it in half the time; written once, until a jar changes.
        Command("classes", (str(tools / "cooperator"), "packages", "--local", "--classes"), is_quiet=True),
    ]


# --- the end of the output --------------------------------------------------------------------------------


def read_durations(reports: Path) -> list[tuple[str, float]]:
    """Returns each test of the JUnit reports with its seconds, fixtures included."""
    return [
        (f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}", float(case.get("time", 0)))
        for file in sorted(reports.glob("*.xml"))
        for case in ElementTree.parse(file).iter("testcase")
    ]


def report(results: Sequence[Result], durations_s: Iterable[tuple[str, float]]) -> int:
    """Prints the slowest tests, and each part's result and time. Returns the exit code."""
    slowest = sorted(durations_s, key=lambda each: -each[1])
    if slowest:
        say(f"the slowest {min(SLOWEST, len(slowest))} of {len(slowest)} tests")
        for test, seconds in slowest[:SLOWEST]:
            sys.stdout.write(f"    {seconds:6.1f} s  {test}\n")
    say("summary (elapsed time, processor time)")
    for result in results:
        outcome = "ok" if result.code == 0 else "FAILED"
        sys.stdout.write(
            f"    {result.name:<14} {outcome:<6} {result.elapsed_s:8.1f} s {result.processor_s:8.1f} s\n"
        )
    return int(any(result.code for result in results))
