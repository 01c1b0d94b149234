"""Reads the end of a log, and follows it."""

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.2


def tail(path: Path, lines: int, follow: bool) -> Iterator[str]:
    """Yields the last ``lines`` lines (all when negative), then with ``follow`` new ones as they are written.

    A log that is truncated or replaced is read from its new beginning. Invalid UTF-8 is replaced.
    """
    with path.open(errors="replace") as file:
        yield from file if lines < 0 else deque(file, maxlen=lines)
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
        with path.open(errors="replace") as file:
            file.seek(position)
            while text := file.readline():
                yield text
            position = file.tell()
