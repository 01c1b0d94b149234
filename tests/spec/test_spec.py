"""The formal models of the protocol (docs/spec): their invariants hold in every state within small bounds,
every run terminates, and each planted bug is found. ``docs/spec/check`` uses larger bounds."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.kubernetes.caches import cache_folder

CHECK = Path(__file__).parents[2] / "docs" / "spec" / "check"


def load() -> ModuleType:
    loader = SourceFileLoader("spec_check", str(CHECK))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    # Otherwise Python would write a cache beside the model.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


check = load()


@cache
def digest_of_models() -> str:
    """Returns a digest of all that a search depends on: the models, the check, and the tools' versions."""
    files = [path.read_bytes() for path in (CHECK, *sorted(CHECK.parent.glob("*.pml")))]
    said = [check.run(".", *words).encode() for words in (("spin", "-V"), (check.compiler(), "--version"))]
    return hashlib.sha256(b"\0".join([*files, *said])).hexdigest()


def search_once(name: str, search: Callable[[], Any]) -> Any:
    """Returns the result of ``search``, which visits all states of a model.

    The same files give the same result, so it is searched again when one of them, or a tool, has changed.
    """
    kept = cache_folder("spec", digest_of_models(), f"{name}.json")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(search())))
        partial.rename(kept)
    return check.Result(**json.loads(kept.read_text()))


@pytest.fixture(autouse=True)
def _spin_and_compiler() -> None:
    """Does not skip: without them nothing would be checked; run.py installs them."""
    problem = check.missing()
    assert problem is None, problem


def test_invariants_hold_in_every_state_and_every_step_of_the_model_is_taken() -> None:
    result = search_once("every state", lambda: check.search(check.QUICK))
    assert result.holds, (result.broken, *result.story)
    assert result.states > 500_000
    assert result.unreached == 0


def test_every_run_terminates() -> None:
    result = search_once("every run", lambda: check.search(check.SMALL, cycles=True))
    assert result.holds, (result.broken, *result.story)


def test_without_rounds_the_promises_hold_in_every_state() -> None:
    result = search_once("every state without rounds", lambda: check.search(check.QUICK_RECONCILING))
    assert result.holds, (result.broken, *result.story)
    assert result.states > 100_000


def test_without_rounds_every_run_terminates() -> None:
    result = search_once(
        "every run without rounds", lambda: check.search(check.SMALL_RECONCILING, cycles=True)
    )
    assert result.holds, (result.broken, *result.story)


FOUND_BY = {
    "BUG_ASSIGN_AT_ONCE": {"check_two_rounds"},
    "BUG_START_BEFORE_STOP": {"check_two_rounds"},
    "BUG_FORGET_HOLDS": {"check_start", "check_holds"},
    "BUG_MEMBER_FORGETS": {"check_start", "check_holds"},
    "BUG_EVICT_BY_NAME": {"check_start", "check_memory"},
    "BUG_ASSIGN_IN_TAKEOVER": {"check_start", "check_holds"},
    "BUG_SEND_BEFORE_SAVE": {"check_memory"},
    "BUG_IGNORE_LEASE": {"check_start"},
    "BUG_ASSIGNMENT_OUTLIVES_JOIN": {"check_start"},
    "BUG_STALE_ABSENCE": {"check_start"},
    "BUG_MERGE_INCARNATIONS": {"check_start"},
    "BUG_STOP_THE_WORLD": {"check_revocation"},
    "BUG_NEVER_ASKS": {"check_rest"},
    "BUG_ALWAYS_ASKS": {"a run without end"},
    "BUG_RELEASE_WITHOUT_REPORT": {"check_log", "check_start"},
    "BUG_OLDER_ANSWER": {"check_log", "check_start"},
    "BUG_OLDER_REPORT": {"check_log", "check_start"},
    "BUG_REPORT_OF_EARLIER_TERM": {"check_log", "check_start"},
    "BUG_ANSWER_OF_REPLACED_LEADER": {"check_log", "check_start"},
    "BUG_ANSWER_BEFORE_SAVE": {"check_log", "check_start"},
    "BUG_OBEYS_AFTER_JOIN": {"check_log", "check_start"},
    "BUG_OBEYS_AFTER_LEASE": {"check_log", "check_start"},
    "BUG_TELLS_NOBODY": {"check_rest"},
    "BUG_IGNORE_DEPARTED": {"check_log", "check_start"},
    "BUG_FENCE_ENDS_WHILE_JOINING": {"check_log", "check_start"},
    "BUG_EARLIER_INCARNATION_RUNS": {"check_log", "check_start"},
    "BUG_LEAVES_ROUNDS_WITHOUT_TASKS": {"check_log", "check_start"},
    "BUG_LEAVES_ROUNDS_BLINDLY": {"check_log", "check_start"},
    "BUG_LEAVES_ROUNDS_WITHOUT_FENCES": {"check_log", "check_start"},
    "BUG_RETURNS_TO_ROUNDS_WITHOUT_FENCES": {"check_log", "check_start"},
    "BUG_SAME_TERM": {"check_epoch"},
}


def test_no_planted_bug_is_left_out() -> None:
    switches = "".join(part.read_text() for part in CHECK.parent.glob("*.pml"))
    assert set(FOUND_BY) == set(check.BUGS)
    assert all(f"def {bug}" in switches for bug in check.BUGS)


@pytest.mark.parametrize("bug", FOUND_BY)
def test_a_planted_bug_is_found(bug: str) -> None:
    result = search_once(bug, lambda: check.find(bug, shortest=False))
    assert result.broken in FOUND_BY[bug]
    assert result.story
