"""Files of text to topics, read by a plain consumer and a JSON parser."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tests.values.cells import Cell, Outcome
from tests.values.extremes import TEXTS
from tests.values.pairs import Flock, Pair
from tests.values.readings import json_value
from tests.values.world import World, connector

CONTENTS: dict[str, tuple[bytes, list[str]]] = {
    **{
        name: (f"{text}\n".encode(), [text])
        for name, text in TEXTS.items()
        if name not in ("line ends", "empty", "byte order mark")
    },
    "a byte order mark, which is no part of the text": (b"\xef\xbb\xbfa\n", ["a"]),
    "an empty line": (b"a\n\nb\n", ["a", "", "b"]),
    "no end of the last line": (b"a\nb", ["a", "b"]),
    "lines that end with CR LF": (b"a\r\nb\r\n", ["a", "b"]),
    "a CR alone, which ends a line": (b"a\rb\n", ["a", "b"]),
    "bytes that are not UTF-8": (b"a\xffb\n", ["a\udcffb"]),
    "an unpaired surrogate": (b"a\xed\xa0\x80b\n", ["a\udced\udca0\udc80b"]),
}
"""Contents of files by their names, and the lines that are due: no byte of a line becomes another one.

Lines end as those of Connect's own source of files do, and a byte order mark marks an encoding.
"""

_FIRST, _LAST = "first of all.txt", "last of all.txt"
NAMES = (
    "with spaces.txt",
    "grüße 😀.txt",
    "a\\b.txt",
    "100%25.txt",
    "a+b&c=d?e#f.txt",
    "[x]{y,z}*.txt",
    "quote\"'.txt",
    "line\nend.txt",
    "-.txt",
    "CASE.txt",
    "case.txt",
    f"{'n' * 200}.txt",
)


class FromFiles(Pair):
    """Each cell is a file. ``form`` is that of the value: a line alone, or JSON with the path."""

    ways: ClassVar = {"singly": {"max.files.per.trigger": "1"}}

    def __init__(self, form: str) -> None:
        self.form = form
        self.label = f"files-to-kafka, {form}"
        self.short = f"texts-{form}"
        self._awaited: dict[str, str] = {}

    def cells(self) -> Sequence[Cell]:
        contents = [
            Cell(
                self.label,
                "text",
                name,
                content.decode(errors="replace").rstrip("\n"),
                json.dumps(lines),
                "line",
                f"text-{at}",
            )
            for at, (name, (content, lines)) in enumerate(CONTENTS.items())
        ]
        names = [
            Cell(self.label, "name of a file", name, name, json.dumps([name]), "path", f"name-{at}")
            for at, name in enumerate(NAMES)
        ]
        return [*contents, *names]

    def begin(self, world: World, flock: Flock) -> dict[str, Any]:
        self._directory(world, flock).mkdir(parents=True)
        world.create_topics([f"{flock.name}-out"])
        _move_in(self._directory(world, flock), _FIRST, b"first\n")
        config = {
            "path": self._directory(world, flock),
            "topic": f"{flock.name}-out",
            "units": 1,
            "record.value": self.form,
            "trigger.interval.ms": 100,
            "message.max.bytes": 2_000_000,
            **flock.options,
        }
        return connector(flock.name, "files-to-kafka", config)

    def send(self, world: World, flock: Flock) -> None:
        for cell in flock.cells:
            content = CONTENTS[cell.value][0] if cell.type == "text" else cell.value.encode()
            _move_in(
                self._directory(world, flock), _file_of(cell), content.replace(b"line\nend", b"line end")
            )
        # The oldest files are read first, so all others have been read when this one has.
        _move_in(self._directory(world, flock), _LAST, b"last\n", later_s=5)
        self._awaited[flock.name] = _LAST

    def done(self, world: World, flock: Flock) -> bool:
        awaited = self._awaited.get(flock.name, _FIRST).encode()
        return any(record.key == awaited for record in world.records(f"{flock.name}-out"))

    def read(self, world: World, flock: Flock) -> Mapping[Cell, Outcome]:
        came: dict[str, list[str]] = {}
        for record in world.records(f"{flock.name}-out"):
            path, value = record.key.decode(), record.value.decode(errors="surrogateescape")
            if self.form == "json":
                row = json_value(value)
                assert row["path"] == path
                value = row["line"]
            came.setdefault(path, []).append(value)
        found: dict[Cell, Outcome] = {}
        for cell in flock.cells:
            name = _file_of(cell)
            lines = came.get(name)
            if cell.type != "text" and lines is not None:
                lines = [name]
            found[cell] = Outcome("missing") if lines is None else Outcome("row", json.dumps(lines))
        return found

    def _directory(self, world: World, flock: Flock) -> Path:
        return world.root / "texts" / flock.name


def _file_of(cell: Cell) -> str:
    return f"{cell.key}.txt" if cell.type == "text" else cell.value


def _move_in(directory: Path, name: str, content: bytes, later_s: int = 0) -> None:
    aside = directory.parent / "aside"
    aside.write_bytes(content)
    changed_ns = aside.stat().st_mtime_ns + later_s * 1_000_000_000
    os.utime(aside, ns=(changed_ns, changed_ns))
    aside.rename(directory / name)
