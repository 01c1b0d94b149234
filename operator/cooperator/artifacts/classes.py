"""Archives of loaded classes (class data sharing, JEP 350): a JVM that maps one starts in half the time.

An archive belongs to one Java and to the jars of one class path in their present state. A JVM whose jars have
changed does not use it, and starts without an archive.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from cooperator.artifacts.cache import cache_root, exclusive
from cooperator.artifacts.errors import ArtifactError
from cooperator.artifacts.java import find_java

_QUIET: Final = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""Otherwise a JVM that cannot use an archive would log that at each start."""


def use_archive(name: str, class_path: Iterable[Path]) -> tuple[str, ...]:
    """Return arguments for a JVM with this class path, in this order; none if it has no archive."""
    archive = _place(name, _inputs(class_path))
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.is_file() else ()


def write_archive(name: str, class_path: Iterable[Path], run: Callable[[tuple[str, ...]], None]) -> Path:
    """Return the archive for this class path, and write it if it does not exist.

    ``run``: starts a JVM with the given arguments, lets it load the classes that will be needed, and returns
    when it has ended normally. Archives of jars that have changed or gone are removed. Raises ArtifactError
    if the JVM has written none.
    """
    inputs = _inputs(class_path)
    archive = _place(name, inputs)
    if archive.is_file():
        return archive
    with exclusive(archive.parent / f"{name}.lock"):
        if archive.is_file():
            return archive
        _remove_outdated(name)
        part = archive.with_suffix(f".{os.getpid()}.part")
        part_of_inputs = archive.with_suffix(f".{os.getpid()}.inputs-part")
        try:
            run((f"-XX:ArchiveClassesAtExit={part}", *_QUIET))
            if not part.is_file():
                raise ArtifactError(
                    f"{name}: the JVM ended without writing an archive of its classes; it works without one, "
                    f"but starts more slowly. If the disk is full, free space in {archive.parent} and try "
                    "again"
                )
            part_of_inputs.write_text("\n".join(inputs))
            part_of_inputs.rename(archive.with_suffix(".inputs"))
            part.rename(archive)
        finally:
            part.unlink(missing_ok=True)
            part_of_inputs.unlink(missing_ok=True)
    return archive


def _inputs(class_path: Iterable[Path]) -> list[str]:
    """Return one line per file that the archive depends on, with the attributes that the JVM checks."""
    return [_line(find_java()), *map(_line, class_path)]


def _line(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_size} {int(stat.st_mtime)} {path}"


def _place(name: str, inputs: list[str]) -> Path:
    digest = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:16]
    return cache_root() / "classes" / f"{name}-{digest}.jsa"


def _remove_outdated(name: str) -> None:
    for listed in (cache_root() / "classes").glob(f"{name}-*.inputs"):
        if not all(map(_is_unchanged, listed.read_text().splitlines())):
            for path in (listed.with_suffix(".jsa"), listed):
                with suppress(FileNotFoundError):
                    path.unlink()


def _is_unchanged(line: str) -> bool:
    try:
        return _line(Path(line.split(" ", 2)[2])) == line
    except (OSError, IndexError):
        return False
