"""All commands on a small project, whose processes are killed, forked, and shared by tests."""

import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.mutation.mutants import draw
from tests.mutation.work import Work

FILE = "operator/cooperator/planner/step.py"
FUNCTIONS = ("direct", "in_killed", "in_forked", "in_fixture", "in_shared", "of_both", "never")
SOURCE = "".join(f"def {name}(a):\n    return a + 1\n" for name in FUNCTIONS)
LINES = {name: 2 * number for number, name in enumerate(FUNCTIONS, 1)}
"""The statements of the functions."""
TESTS = """
import os, signal, subprocess, sys
import pytest
from cooperator.planner import step as small

def start(function):
    code = f"import sys; small.{function}(1); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", f"from cooperator.planner import step as small; {code}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
    process.stdout.readline()
    return process

def kill(process):
    process.kill()
    process.communicate()

@pytest.fixture(scope="module")
def shared():
    small.in_fixture(1)
    process = start("in_shared")
    yield
    kill(process)

def test_direct():
    assert small.direct(1) == 2

def test_both_but_weak():
    assert small.of_both(5)

def test_both():
    assert small.of_both(1) == 2

def test_killed():
    kill(start("in_killed"))

def test_forked():
    if not (child := os.fork()):
        small.in_forked(1)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL

def test_shared(shared): pass

def test_shared_again(shared): pass
"""
LEFT = "tests/test_small.py::test_both"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """A folder in which the tests of the small project were recorded."""
    folder = tmp_path_factory.mktemp("mutation")
    project = folder / "project"
    for path, text in {
        FILE: SOURCE,
        "operator/cooperator/__init__.py": "",
        "operator/cooperator/planner/__init__.py": "",
        "tests/test_small.py": TESTS,
        "tests/__init__.py": "",
        "pytest.ini": "[pytest]",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "small")):
        subprocess.run(["git", *author, *words], cwd=project, check=True)
    names = [line[4:].partition("(")[0] for line in TESTS.splitlines() if line.startswith("def test_")]
    stayed = [node for name in names if (node := f"tests/test_small.py::{name}") != LEFT]
    (folder / "stayed").write_text("\n".join(stayed))
    (folder / "before").write_text(
        "tests/test_small.py::test_direct\n" + LEFT + "\n\n2 tests collected in 0.01s\n"
    )
    work = Work(folder / "work", project)
    call(work, "record", "--stayed", str(folder / "stayed"), "--before", str(folder / "before"))
    return work


def call(work: Work, *words: str) -> str:
    command = [
        sys.executable,
        "-m",
        "tests.mutation",
        "--work",
        work.folder,
        "--project",
        work.project,
        *words,
    ]
    # Without the plugins that the project's own tests have, pytest starts in a third of the time.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=200)
    logs = "".join(path.read_text() for path in work.folder.glob("*.log"))
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{logs}"
    return done.stdout


def functions_by_test(work: Work) -> dict[str, set[str]]:
    first = work.slots().first[FILE]
    return {
        test.partition("::")[2]: {name for name, line in LINES.items() if lines[first + line]}
        for test, _, lines in work.records()
    }


def test_each_test_has_what_its_processes_executed_also_killed_forked_and_shared_ones(work: Work) -> None:
    assert functions_by_test(work) == {
        "test_direct": {"direct"},
        "test_both_but_weak": {"of_both"},
        "test_both": {"of_both"},
        "test_killed": {"in_killed"},
        "test_forked": {"in_forked"},
        "test_shared": {"in_fixture", "in_shared"},
        "test_shared_again": {"in_fixture", "in_shared"},
    }


def test_a_second_recording_runs_what_is_not_recorded(work: Work) -> None:
    before = work.tests.read_text()
    kept = [line for line in before.splitlines() if "test_direct" not in line]
    work.tests.write_text("".join(f"{line}\n" for line in kept))
    folder = work.folder.parent
    call(work, "record", "--stayed", str(folder / "stayed"), "--before", str(folder / "before"))
    again = work.tests.read_text().splitlines()
    assert again[:-1] == kept
    assert json.loads(again[-1])["test"] == "tests/test_small.py::test_direct"


def test_a_mutant_is_drawn_and_named_with_the_test_that_left(work: Work) -> None:
    assert "1 mutants in 1 statements" in call(work, "draw", "--seed", "1", "--count", "9")
    lines = {FILE: {LINES["direct"], LINES["of_both"]}}
    seeds = (draw({FILE: SOURCE}, lines, seed, 9) for seed in range(1000))
    mutants = next(drawn for drawn in seeds if {mutant.after for mutant in drawn} == {"(a - 1)"})
    work.mutants.write_text(json.dumps([asdict(mutant) for mutant in mutants]))
    call(work, "run", "--workers", "1")
    table = call(work, "report")
    assert "| planner | 2 | 1 | 1 | 0 |" in table
    assert f"1 of 1 | 1 of 1 | `{LEFT}` (failed) |" in table
    assert (work.project / FILE).read_text() == SOURCE
