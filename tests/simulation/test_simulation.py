"""The simulation itself: it is deterministic, shrinks failures, tells their story, and finds planted bugs."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.simulation.command import command_of
from tests.simulation.mutations import FAST
from tests.simulation.planted import ALL, find
from tests.simulation.run import Cuts, run
from tests.simulation.shrink import shrink
from tests.simulation.story import story

ROOT = Path(__file__).parent.parent.parent


def replayed(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--replay", str(seed)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    ).stdout


def test_a_seed_is_one_history_in_every_process() -> None:
    first, second = replayed(7, "1"), replayed(7, "2")
    assert "FAULT" in first
    assert first == second


@pytest.mark.parametrize("name", FAST)
def test_a_planted_bug_is_found(name: str) -> None:
    mutation = next(mutation for mutation in ALL if mutation.name == name)
    assert find(mutation, limit=30) is not None, f"not found: {mutation.bug}"


def test_a_failing_history_is_shrunk_and_told() -> None:
    mutation = next(mutation for mutation in ALL if mutation.name == "AcknowledgesBeforeTheStop")
    found = find(mutation, limit=30)
    assert found is not None
    _, outcome = found
    with ExitStack() as stack:
        for each in mutation.plant():
            stack.enter_context(each)
        cuts, shortest = shrink(outcome)
        again = run(outcome.seed, cuts)
    assert shortest.broken is not None
    assert len(shortest.faults) <= len(outcome.faults)
    assert str(again.broken) == str(shortest.broken)
    copy = next(iter(shortest.simulation.copies.by_task))
    lines = [line.what for line in story(shortest, str(copy))]
    assert any(line.startswith("BROKEN") for line in lines)
    assert any(f"gives {copy} to" in line for line in lines)


def test_the_command_of_a_shrunk_history_names_all_that_was_left_out() -> None:
    command = command_of(5, Cuts(frozenset({"MemberHangs"}), frozenset({2, 9}), 30_000))
    assert command == (
        "python -m tests.simulation --replay 5 --without MemberHangs --drop 2 --drop 9 --until 30000"
    )


def test_there_are_many_planted_bugs_and_each_has_a_name_of_its_own() -> None:
    names = [mutation.name for mutation in ALL]
    assert len(names) >= 20
    assert len(set(names)) == len(names)
    assert set(FAST) <= set(names)
