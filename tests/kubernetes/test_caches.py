"""Caches: entries are made by one process, whole or not at all."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.kubernetes import caches
from tests.kubernetes.caches import SAYS_AFTER_S, LockHeld, forget_unused, locked, locked_if_free, once

ROOT = Path(__file__).parent.parent.parent

MAKES_ONCE = """
import sys, time
from pathlib import Path
from tests.kubernetes.caches import once

def make(folder):
    with open(sys.argv[2], "a") as journal:
        journal.write("made\\n")
    (folder / "first").write_text("1")
    print("making", flush=True)
    sys.stdin.read()
    (folder / "second").write_text("2")

once(Path(sys.argv[1]), make)
"""


def test_the_second_waits_for_the_first_and_makes_nothing(tmp_path: Path) -> None:
    folder, journal = tmp_path / "thing", tmp_path / "journal"
    command = [sys.executable, "-c", MAKES_ONCE, str(folder), str(journal)]
    first, second = (
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    )
    with first, second:
        # The holder of the lock is in the middle of it; its entry must not be visible yet.
        assert first.stdout is not None
        assert second.stdout is not None
        ready, _, _ = select.select([first.stdout, second.stdout], [], [], 60)
        assert ready[0].readline() == b"making\n"
        assert not folder.exists()
        maker, waiter = (first, second) if ready[0] is first.stdout else (second, first)
        for child in (maker, waiter):
            child.communicate(timeout=60)
        assert (first.returncode, second.returncode) == (0, 0)
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    assert journal.read_text() == "made\n"


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "thing"

    def half(unfinished: Path) -> None:
        (unfinished / "first").write_text("1")
        raise RuntimeError("the network is gone")

    with pytest.raises(RuntimeError):
        once(folder, half)
    assert [path.name for path in tmp_path.iterdir()] == [".thing.lock"]


def test_unused_entries_are_removed(tmp_path: Path) -> None:
    for name in ("used", "unused"):
        once(tmp_path / name, lambda folder: None)
        os.utime(tmp_path / name, (0, 0))
    once(tmp_path / "used", lambda folder: None)
    forget_unused(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*/")) == ["used"]


class Clock:
    """Time passes only while somebody waits; ``meanwhile`` happens in each pause."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.meanwhile = lambda: None

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.meanwhile()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(caches, "announce", found.append)
    return found


def taken(path: Path, clock: Clock, limit_s: float = 60.0) -> AbstractContextManager[None]:
    return locked(
        path,
        "the oven",
        limit_s=limit_s,
        remedy="bake elsewhere",
        now_s=lambda: clock.now_s,
        pause=clock.pause,
    )


def test_a_process_that_waits_for_a_lock_says_for_what_and_who_has_it(
    tmp_path: Path, clock: Clock, said: list[str]
) -> None:
    path, holder = tmp_path / "oven.lock", ExitStack()
    with holder:
        holder.enter_context(locked(path, "the oven"))

        def let_go_when_said() -> None:
            assert clock.now_s < 2 * SAYS_AFTER_S
            if said:
                holder.close()

        clock.meanwhile = let_go_when_said
        with taken(path, clock):
            assert path.read_text() == f"{os.getpid()}\n"
    [text] = said
    assert text.startswith(f"waiting for the oven, 60 s at most: process {os.getpid()} (")
    assert text.endswith(f"holds {path} (you can bake elsewhere)")


def test_a_process_that_need_not_wait_says_nothing(tmp_path: Path, clock: Clock, said: list[str]) -> None:
    for _ in range(2):
        with taken(tmp_path / "oven.lock", clock):
            pass
    assert (said, clock.now_s) == ([], 0)


def test_no_process_waits_without_end(tmp_path: Path, clock: Clock, said: list[str]) -> None:
    path = tmp_path / "oven.lock"
    with locked(path, "the oven"), pytest.raises(LockHeld) as refused, taken(path, clock):
        pass
    assert 60 < clock.now_s < 61
    assert len(said) == 1
    assert re.fullmatch(
        rf"waited 60 s for the oven: process {os.getpid()} \(.+\) holds {path}; "
        "wait until it has ended, or bake elsewhere",
        str(refused.value),
    )
    with taken(path, clock):
        pass


def test_a_lock_whose_holder_is_gone_is_not_named_after_it(
    tmp_path: Path, clock: Clock, said: list[str]
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(60)
    path = tmp_path / "oven.lock"
    with locked(path, "the oven"):
        path.write_text(f"{ended.pid}\n")
        of_a_child = f"a child of process {ended.pid}, which has ended"
        with pytest.raises(LockHeld, match=of_a_child), taken(path, clock):
            pass
        path.write_text("")
        with pytest.raises(LockHeld, match="another process"), taken(path, clock):
            pass


def test_a_lock_that_is_free_can_be_taken_without_a_wait(tmp_path: Path) -> None:
    path = tmp_path / "oven.lock"
    with locked_if_free(path) as first, locked_if_free(path) as second:
        assert (first, second) == (True, False)
        assert path.read_text() == f"{os.getpid()}\n"
    with locked_if_free(path) as third:
        assert third


WAITS_IN_A_TEST = """
from pathlib import Path

from tests.kubernetes.caches import locked

def test_waits():
    with locked(Path({path!r}), "the oven"):
        pass
"""


def test_it_is_said_on_the_terminal_while_a_test_waits(tmp_path: Path) -> None:
    path = tmp_path / "oven.lock"
    (tmp_path / "test_waits.py").write_text(WAITS_IN_A_TEST.format(path=str(path)))
    options = ["-q", "-p", "tests.kubernetes.fixtures", "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_waits.py")]
    with ExitStack() as holder:
        holder.enter_context(locked(path, "the oven"))
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
            assert child.stderr is not None
            ready, _, _ = select.select([child.stderr], [], [], 60)
            assert ready, "nothing was said"
            line = child.stderr.readline()
            holder.close()
            child.communicate(timeout=60)
        assert line.startswith("waiting for the oven")
        assert child.returncode == 0


def test_all_locks_of_the_tests_are_taken_here() -> None:
    """So each of them says what it waits for, and ends."""
    sources = [path for part in ("tests", "e2e", "release") for path in (ROOT / part).rglob("*.py")]
    takers = [
        str(path.relative_to(ROOT))
        for path in sources
        if re.search(
            r"^\s*(fcntl\.(flock|lockf)\(|from fcntl|from cooperator\.artifacts\.cache import.*exclusive)",
            path.read_text(),
            re.MULTILINE,
        )
    ]
    assert takers == ["tests/kubernetes/caches.py"]
