"""Logs that are printed while they grow, are cut and are replaced."""

import threading
from pathlib import Path

import pytest

from cooperator.terminal.follow import tail
from tests.harness.support import eventually


class Follower:
    def __init__(self, path: Path, lines: int) -> None:
        self.seen: list[str] = []
        self._lines = tail(path, lines, follow=True)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for line in self._lines:
            self.seen.append(line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "member.log"
    path.write_text("one\ntwo\nthree\n")
    return path


def test_the_last_lines_all_lines_no_lines(path: Path) -> None:
    assert list(tail(path, 2, follow=False)) == ["two\n", "three\n"]
    assert list(tail(path, -1, follow=False)) == ["one\n", "two\n", "three\n"]
    assert list(tail(path, 0, follow=False)) == []


def test_bytes_that_are_no_text_do_not_stop_it(path: Path) -> None:
    path.write_bytes(b"a\xffb\n")
    assert list(tail(path, 5, follow=False)) == ["a\ufffdb\n"]


def test_new_lines_are_followed_also_after_the_log_was_cut_or_replaced(path: Path, tmp_path: Path) -> None:
    follower = Follower(path, 1)
    eventually(lambda: follower.seen == ["three\n"])
    with path.open("a") as file:
        file.write("four\n")
    eventually(lambda: follower.seen[1:] == ["four\n"])
    path.write_text("five\n")
    eventually(lambda: follower.seen[2:] == ["five\n"])
    fresh = tmp_path / "fresh"
    fresh.write_text("six\nseven\n")
    fresh.replace(path)
    eventually(lambda: follower.seen[3:] == ["six\n", "seven\n"])
