"""The commands ``run.py check`` and ``run.py tests``, in the project's own environment (``python -m tests``).

The parts of the tests and their times stand in ``pyproject.toml`` (``tool.cooperator.parts``). A run that
decides about a change is the same on every machine: no environment variable adds or removes a test, and a
test that fails once fails the run (docs/decisions/028). Tests marked ``long`` run with ``--long`` only.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.kubernetes.caches import cache_folder
from tests.simulation.seeds import first_fresh

ROOT = Path(__file__).resolve().parents[1]
STATIC = "static checks"
SLOWEST = 10
"""The end of a run names this number of tests."""
CHECKED_SEEDS = 20
"""``check`` runs this number of fixed seeds of the simulation, and as many fresh ones."""
TEARDOWN_S = 60.0
"""After a signal, fixtures have this time to end what they started; then pytest is killed."""


@dataclass(frozen=True)
class Part:
    """``words`` are arguments of pytest; minutes are of two calm cores with warm caches."""

    name: str
    words: tuple[str, ...]
    minutes: float
    long_minutes: float


@dataclass(frozen=True)
class Result:
    """``processor_s``: of all processes of the part that have ended; ``durations_s``: by test."""

    name: str
    code: int
    elapsed_s: float
    processor_s: float = 0.0
    durations_s: tuple[tuple[str, float], ...] = ()


class Interrupted(Exception):
    """A signal ends the run."""


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if anything failed, 128 and the signal's number if one ended the run."""
    parts = read_parts()
    options, pytest_words = _parser(parts).parse_known_args(arguments)
    os.chdir(ROOT)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    adopt_orphans()
    try:
        if options.what == "check":
            return report(run_check())
        return report(run_tests(parts, options.only, options.long, pytest_words))
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def say(text: str) -> None:
    sys.stdout.write(f"==> {text}\n")
    sys.stdout.flush()


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


def run_check() -> list[Result]:
    """Runs what fits every save: static checks, tests without real parts, some seeds of the simulation."""
    results = run_at_once(static_checks())
    results.append(
        run_part("pure tests", ("tests", "--ignore=tests/simulation", "-m", "not real", "-n", "2"))
    )
    seeds = [sys.executable, "-m", "tests.simulation", "--jobs", "2", "--seeds", str(CHECKED_SEEDS)]
    results += run_in_turn({"fixed seeds": seeds, "fresh seeds": [*seeds, "--start", str(first_fresh())]})
    return results


def run_tests(
    parts: Mapping[str, Part], only: str | None, long: bool, pytest_words: Sequence[str]
) -> list[Result]:
    """Runs static checks and all parts, one part, or what ``pytest_words`` name."""
    if pytest_words:
        return [run_part("tests", pytest_words, long)]
    chosen = [part for part in parts.values() if only in (None, part.name)]
    minutes = sum(part.minutes for part in chosen)
    say(
        f"these tests take some {minutes:.0f} minutes on two calm cores"
        + (_announce_long(chosen) if long else "")
    )
    results = run_at_once(static_checks()) if only in (None, STATIC) else []
    return [*results, *(run_part(part.name, part.words, long) for part in chosen)]


def _announce_long(parts: Iterable[Part]) -> str:
    minutes = sum(part.long_minutes for part in parts)
    return f", and the long ones {minutes / 60:.1f} hours more"


def static_checks() -> dict[str, list[str]]:
    tools = Path(sys.executable).parent
    return {
        "lint": [str(tools / "ruff"), "check", "."],
        "format": [str(tools / "ruff"), "format", "--check", "."],
        # Outside the clone, so that a fresh one need not check all dependencies again.
        "types": [str(tools / "mypy"), f"--cache-dir={cache_folder('mypy')}"],
        "imports": [str(tools / "lint-imports")],
        # JVMs of tests start with it in half the time; written once, until a jar changes.
        "classes": [str(tools / "cooperator"), "packages", "--local", "--classes"],
    }


def run_at_once(commands: Mapping[str, Sequence[str]]) -> list[Result]:
    """Runs commands that need one core each; prints the output of each when it has ended."""

    def run(name: str) -> tuple[str, subprocess.CompletedProcess[str], float]:
        began = time.monotonic()
        done = subprocess.run(
            commands[name], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return name, done, time.monotonic() - began

    results = []
    with ThreadPoolExecutor(len(commands)) as pool:
        for name, done, elapsed_s in pool.map(run, commands):
            say(f"{name}: {' '.join(commands[name])}")
            if done.returncode or name != "classes":
                sys.stdout.write(done.stdout)
            results.append(Result(name, done.returncode, elapsed_s))
    return results


def run_in_turn(commands: Mapping[str, Sequence[str]]) -> list[Result]:
    return [run_measured(name, command) for name, command in commands.items()]


def run_part(name: str, words: Sequence[str], long: bool = False) -> Result:
    """Runs pytest with these words."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "durations.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            f"--junitxml={file}",
            *words,
            *(["--long"] if long else []),
        ]
        result = run_measured(name, command)
        durations_s = read_durations(file) if file.exists() else ()
    return Result(name, result.code, result.elapsed_s, result.processor_s, durations_s)


def run_measured(name: str, command: Sequence[str]) -> Result:
    say(f"{name}: {' '.join(command)}")
    before_s = _processor_s()
    began = time.monotonic()
    # A session of its own: a Ctrl-C reaches it once, from here.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        code = wait_and_reap(child)
    except Interrupted:
        child.send_signal(signal.SIGINT)
        wait_and_reap(child, TEARDOWN_S)
        raise
    return Result(name, code, time.monotonic() - began, _processor_s() - before_s)


# --- processes --------------------------------------------------------------------------------------------


def adopt_orphans() -> None:
    """Makes this process the parent of its orphaned descendants (Linux), so that their time counts, too."""
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def wait_and_reap(child: subprocess.Popen[bytes], timeout_s: float | None = None) -> int:
    """Returns the exit code of ``child``, which is killed after ``timeout_s``; reaps orphans meanwhile."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        pid, status = os.waitpid(-1, 0 if deadline is None else os.WNOHANG)
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode
        if pid == 0:
            if deadline is not None and time.monotonic() > deadline:
                child.kill()
                deadline = None
            else:
                time.sleep(0.05)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- the end of the output --------------------------------------------------------------------------------


def read_durations(file: Path) -> tuple[tuple[str, float], ...]:
    """Returns each test of a JUnit report with its seconds, fixtures included."""
    return tuple(
        (f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}", float(case.get("time", 0)))
        for case in ElementTree.parse(file).iter("testcase")
    )


def report(results: Sequence[Result]) -> int:
    """Prints each part's result and time, and the slowest tests. Returns the exit code."""
    durations_s = sorted(
        (each for result in results for each in result.durations_s), key=lambda each: -each[1]
    )
    if durations_s:
        say(f"the slowest {min(SLOWEST, len(durations_s))} of {len(durations_s)} tests")
        for test, seconds in durations_s[:SLOWEST]:
            sys.stdout.write(f"    {seconds:6.1f} s  {test}\n")
    say("summary (elapsed time, processor time)")
    for result in results:
        processor = f"{result.processor_s:8.1f} s" if result.processor_s else ""
        outcome = "ok" if result.code == 0 else "FAILED"
        sys.stdout.write(f"    {result.name:<14} {outcome:<6} {result.elapsed_s:8.1f} s {processor}\n")
    return int(any(result.code for result in results))
