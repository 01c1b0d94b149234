"""``run.py check`` and ``run.py tests``: what they run, what fails them, and that no variable changes it."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import suite
from tests.harness.commands import Command, Result
from tests.harness.support import eventually
from tests.long_list import texts
from tests.suite import ROOT

PARTS = ["units", "simulation", "runtime", "e2e", "operator", "members", "stock"]
STATIC = ["lint", "format", "types", "imports", "classes"]


class Commands:
    """Stands for all that the suite starts: what was run, and how it ends.

    Each part has the tests ``durations_s``, with seconds.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: dict[str, list[str]] = {}
        self.failing: set[str] = set()
        self.durations_s: dict[str, float] = {}
        monkeypatch.setattr(suite, "run_at_once", self._run_at_once)
        # Signals are of the whole process.
        monkeypatch.setattr(suite, "raise_on_signals", lambda: None)

    def _run_at_once(self, commands: Sequence[Command], directory: Path) -> list[Result]:
        assert directory == ROOT
        return [self._run(command) for command in commands]

    def _run(self, command: Command) -> Result:
        self.ran[command.name] = [*command.words]
        report = ElementTree.Element("testsuites")
        for test, seconds in self.durations_s.items():
            ElementTree.SubElement(report, "testcase", classname="tests.a", name=test, time=str(seconds))
        for word in command.words:
            if word.startswith("--junitxml="):
                ElementTree.ElementTree(report).write(word.partition("=")[2])
        return Result(command.name, int(command.name in self.failing), 1.0)

    def long(self) -> set[str]:
        """Those that were told to run the long tests, too."""
        return {name for name, command in self.ran.items() if "--long" in command}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch)


def summary(said: str) -> dict[str, str]:
    """The last lines: each part with its outcome."""
    lines = said.partition("==> summary")[2].splitlines()[1:]
    return {match[1]: match[2] for line in lines if (match := re.match(r" +(.+?) +(ok|FAILED) ", line))}


@pytest.mark.parametrize(
    ("words", "ran", "long"),
    [
        ("tests", [*STATIC, *PARTS], []),
        ("tests --long", [*STATIC, *PARTS], PARTS),
        ("tests --only stock", ["stock"], []),
        ("tests --only stock --long", ["stock"], ["stock"]),
        ("tests e2e -s", ["tests"], []),
        ("tests e2e -k drained --long", ["tests"], ["tests"]),
        ("check", [*STATIC, "pure", "fixed seeds", "fresh seeds"], []),
    ],
)
def test_words_choose_what_runs_in_this_order(
    commands: Commands, words: str, ran: list[str], long: list[str]
) -> None:
    assert suite.main(words.split()) == 0
    assert list(commands.ran) == ran
    assert commands.long() == {*long}


def test_static_checks_alone_are_a_part(commands: Commands) -> None:
    assert suite.main(["tests", "--only", suite.STATIC]) == 0
    assert list(commands.ran) == STATIC


def test_a_part_that_does_not_exist_is_refused_with_those_that_do(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        suite.main(["tests", "--only", "units of time"])
    assert refused.value.code == 2
    said = capsys.readouterr().err
    assert all(part in said for part in PARTS)
    assert commands.ran == {}


def test_words_after_tests_are_those_of_pytest(commands: Commands) -> None:
    suite.main(["tests", "e2e", "-s", "-k", "drained"])
    assert commands.ran["tests"][-4:] == ["e2e", "-s", "-k", "drained"]


def test_modules_are_compiled_once_whatever_the_environment_says(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    suite.main(["check"])
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def test_a_check_leaves_out_tests_with_real_parts(commands: Commands) -> None:
    suite.main(["check"])
    words = " ".join(commands.ran["pure"])
    assert "-m not real" in words
    assert "--ignore=tests/simulation" in words, "its seeds are fewer here"


def test_the_time_is_announced_and_that_of_the_long_tests_if_they_run(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = suite.read_parts()
    minutes, long = (
        sum(getattr(part, name) for part in parts.values()) for name in ("minutes", "long_minutes")
    )
    suite.main(["tests"])
    said = capsys.readouterr().out
    assert said.startswith(f"==> these tests take some {minutes:.0f} minutes")
    assert "the long ones" not in said
    suite.main(["tests", "--long"])
    assert f"and the long ones {long / 60:.1f} hours more" in capsys.readouterr().out
    suite.main(["tests", "--only", "stock"])
    assert f"take some {parts['stock'].minutes:.0f} minutes" in capsys.readouterr().out


@pytest.mark.parametrize("failing", ["types", *PARTS])
def test_one_failure_fails_the_run_and_is_shown_and_the_rest_runs_all_the_same(
    commands: Commands, capsys: pytest.CaptureFixture[str], failing: str
) -> None:
    commands.failing = {failing}
    assert suite.main(["tests"]) == 1
    assert list(commands.ran) == [*STATIC, *PARTS]
    shown = summary(capsys.readouterr().out)
    assert shown.keys() == {*STATIC, *PARTS}
    assert {name for name, outcome in shown.items() if outcome == "FAILED"} == {failing}


def test_the_slowest_tests_are_named_slowest_first(
    commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.durations_s = {f"test_{number}": number for number in range(30)}
    suite.main(["tests", "--only", "units"])
    said = capsys.readouterr().out
    assert f"the slowest {suite.SLOWEST} of 30 tests" in said
    assert re.findall(r"^ +([\d.]+) s  tests/a\.py::(\w+)$", said, re.MULTILINE) == [
        (f"{number}.0", f"test_{number}") for number in range(29, 29 - suite.SLOWEST, -1)
    ]


def test_every_test_belongs_to_one_part() -> None:
    def has(words: Iterable[str], file: Path) -> bool:
        def below(paths: Iterable[str]) -> bool:
            return any(file.is_relative_to(ROOT / path) for path in paths)

        named = (word for word in words if (ROOT / word).exists())
        ignored = (word.partition("=")[2] for word in words if word.startswith("--ignore="))
        return below(named) and not below(ignored)

    parts = suite.read_parts()
    assert list(parts) == PARTS
    files = [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("e2e/test_*.py")]
    assert files
    for file in files:
        assert len([part.name for part in parts.values() if has(part.words, file)]) == 1, file


# --- with real processes ----------------------------------------------------------------------------------


WAITS = """
import pathlib, threading
import pytest

@pytest.fixture
def part():
    yield
    pathlib.Path(r"{folder}", "ended").touch()

def test_it(part):
    pathlib.Path(r"{folder}", "began").touch()
    threading.Event().wait(120)
"""
FAILS_ONCE = """
import pathlib

def test_it():
    tries = pathlib.Path(r"{folder}", "tries")
    before = tries.read_text() if tries.exists() else ""
    tries.write_text(before + "x")
    assert before, "the first try fails"
"""


def start(folder: Path, text: str, *words: str) -> "subprocess.Popen[bytes]":
    """Without the plug-ins of other packages, which take longer to import than all the rest."""
    file = folder / "test_tiny.py"
    file.write_text(text.format(folder=folder))
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests", "tests", f"{file}", "-p", "no:cacheprovider", *words],
            cwd=ROOT,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGINT, ""), (signal.SIGTERM, ""), (signal.SIGTERM, "-p xdist.plugin -n 1")],
    ids=["SIGINT", "SIGTERM", "SIGTERM with a process for tests"],
)
def test_a_signal_ends_pytest_with_its_fixtures_and_is_the_exit_code(
    tmp_path: Path, number: signal.Signals, words: str
) -> None:
    child = start(tmp_path, WAITS, *words.split())
    log = tmp_path / "log"
    try:
        eventually((tmp_path / "began").exists, 120, "the test runs")
        child.send_signal(number)
        assert child.wait(60) == 128 + number, log.read_text()
    finally:
        child.kill()
        child.wait(10)
    assert (tmp_path / "ended").exists(), log.read_text()
    assert f"ended by {number.name}" in log.read_text()


def test_a_named_test_that_fails_once_fails_the_run(tmp_path: Path) -> None:
    child = start(tmp_path, FAILS_ONCE)
    assert child.wait(120) == 1
    said = (tmp_path / "log").read_text()
    assert (tmp_path / "tries").read_text() == "x", "there is no second try"
    assert summary(said) == {"tests": "FAILED"}
    assert "test_it" in said.partition("the slowest 1 of 1 tests")[2]


# --- no variable adds or removes a test -------------------------------------------------------------------


MARKED = """
import pytest
from hypothesis import given, strategies

@given(strategies.none())
def test_it(drawn): ...

@pytest.mark.parametrize("given", [1, pytest.param(2, marks=pytest.mark.long("tests/a.py::test_it"))])
def test_them(given): ...

@pytest.mark.long("tests/a.py::test_it")
def test_long(): ...
"""


def collected(file: Path, *words: str, **variables: str) -> list[str]:
    """The tests of ``file`` that pytest would run by the project's conftest, and Hypothesis' settings."""
    without = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    plugins = ("-p", "conftest", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-v", *plugins, str(file), *words],
        cwd=ROOT,
        env={**without, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    wanted = re.compile(r"hypothesis profile|.*<Function |.*deselected")
    lines = [
        line for line in done.stdout.splitlines() if wanted.match(line) and "tests collected" not in line
    ]
    assert "hypothesis profile" in lines[0]
    return lines


def test_the_same_tests_run_with_and_without_the_variable_ci(tmp_path: Path) -> None:
    file = tmp_path / "test_marked.py"
    file.write_text(MARKED)
    usual = collected(file)
    assert re.findall(r"<Function (.+?)>", "\n".join(usual)) == ["test_it", "test_them[1]"]
    assert collected(file, CI="true") == usual
    long = collected(file, "--long")
    assert re.findall(r"<Function (.+?)>", "\n".join(long)) == [
        "test_it",
        "test_them[1]",
        "test_them[2]",
        "test_long",
    ]
    assert collected(file, "--long", CI="true") == long


def test_no_test_looks_at_the_variable_ci() -> None:
    """A name of the environment is a text of its own in the source."""
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = [
        f"{name}:{node.lineno}"
        for name, text in texts().items()
        if name != here and re.search(r"""["']CI["']""", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in ("CI", b"CI")
    ]
    assert found == []
