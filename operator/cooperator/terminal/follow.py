"""Reads the end of a log, and follows it."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from cooperator.model.visible import visible_text

_POLL_S: Final = 0.2
_MOST: Final = 65_536


def tail(path: Path, lines: int, follow: bool) -> Iterator[str]:
    """Yields the last ``lines`` lines (all when negative), then with ``follow`` new ones as they are written.

    A log that is truncated or replaced is read from its new beginning. Invalid UTF-8 is replaced. A log has
    lines of other programs, and data in them: each is escaped, and cut if it is long.
    """
    with _opened(path) as file:
        yield from map(_shown, file if lines < 0 else deque(file, maxlen=lines))
        position = file.tell()
        inode = path.stat().st_ino
    while follow:
        try:
            stat = path.stat()
        except FileNotFoundError:
            time.sleep(_POLL_S)
            continue
        if stat.st_ino != inode or stat.st_size < position:
            position, inode = 0, stat.st_ino
        if stat.st_size == position:
            time.sleep(_POLL_S)
            continue
        with _opened(path) as file:
            file.seek(position)
            while text := file.readline():
                yield _shown(text)
            position = file.tell()


def _opened(path: Path) -> TextIO:
    # Only \n ends a line: with \r, a text could pass for another line.
    return path.open(errors="replace", newline="\n")


def _shown(line: str) -> str:
    text = line.removesuffix("\n")
    return f"{visible_text(text, _MOST)}{line[len(text) :]}"
