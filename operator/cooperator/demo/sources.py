"""The demo's input: text that exists wherever the demo can run, that of the installed packages."""

import hashlib
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUFFIXES: Final = frozenset(
    (".py", ".pyi", ".txt", ".md", ".rst", ".json", ".toml", ".h", ".c", ".cpp", ".pxd", ".pyx", ".cfg", ".R")
)
"""Kinds of text in packages; files without a suffix are metadata (METADATA, RECORD, LICENSE)."""

_LARGEST_BYTES: Final = 25_000
"""Otherwise one huge generated file could be most of the input, and all of it one task's."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The files copied to ``root``: numbers of files, lines (see ``read_lines``) and bytes."""

    root: Path
    files: int
    lines: int
    bytes: int


def collect(target: Path, lines: int, files: int, progress: Callable[[int], None] | None = None) -> Selection:
    """Copies real text files below ``target`` until there are at least ``lines`` lines in ``files`` files.

    A hash of their names selects the files: a cross-section of all packages, the same each time.
    """
    chosen = total = size = 0
    for path, name in sorted(_candidates(), key=_shuffled):
        if chosen >= files and total >= lines:
            break
        text = _text(path)
        if text is None:
            continue
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(text)
        chosen += 1
        total += len(read_lines(copy))
        size += len(text)
        if progress is not None:
            progress(chosen)
    return Selection(target, chosen, total, size)


def read_lines(path: Path) -> list[str]:
    """Returns a text file's lines; ``\\n``, ``\\r\\n`` and ``\\r`` end a line, as in Spark's text source."""
    with path.open(encoding="utf-8-sig", newline=None) as file:
        return [line.removesuffix("\n") for line in file]


def _candidates() -> Iterator[tuple[Path, str]]:
    """Yields files of the environment's packages and of the standard library, with their target names."""
    for part in ("purelib", "stdlib"):
        root = Path(sysconfig.get_path(part))
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            # Names that begin with a dot or an underscore are hidden, as everywhere in Spark.
            if any(name.startswith((".", "_")) for name in inside.parts):
                continue
            if part == "stdlib" and inside.parts[0] in ("site-packages", "dist-packages"):
                continue
            if path.suffix in SUFFIXES or (not path.suffix and inside.parent.suffix == ".dist-info"):
                yield path, f"{part}/{inside.as_posix()}"


def _shuffled(candidate: tuple[Path, str]) -> bytes:
    return hashlib.sha256(candidate[1].encode(errors="replace")).digest()


def _text(path: Path) -> bytes | None:
    """Returns the content of a small, non-empty UTF-8 text file; None for anything else."""
    try:
        if not path.is_file() or not 0 < path.stat().st_size <= _LARGEST_BYTES:
            return None
        data = path.read_bytes()
        data.decode()
        str(path).encode()
    except (OSError, UnicodeError):
        return None
    return None if b"\0" in data else data
