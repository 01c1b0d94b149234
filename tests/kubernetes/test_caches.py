"""Caches: entries are made by one process, whole or not at all."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.caches import forget_unused, once

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
