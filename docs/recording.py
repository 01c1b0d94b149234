#!/usr/bin/env python3
"""The recording of the demo in the README: ``make recording``, or ``python docs/recording.py [--again]``.

It runs ``cooperator demo`` in a pseudo-terminal and draws what the terminal showed as one animated SVG, which
needs no script. Nothing is edited except that the recording plays faster than the run, and that the machine's
paths are shortened: the directory of the run is ``.cooperator``, the user's is ``~``. The picture holds the
hash of what the demo is made of: without ``--again``, the command does nothing while that is the same. Needs
the project's test extra.
"""

import argparse
import codecs
import fcntl
import hashlib
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyte

ROOT: Final = Path(__file__).resolve().parents[1]
TARGET: Final = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS: Final = 120
ROWS: Final = 40
SHOWN: Final = ".cooperator"
MOST_BYTES: Final = 150_000
SPEED: Final = 4.0
"""Seconds of the run in a second of the recording."""
LONGEST_S: Final = 1.0
"""A picture that does not change is shown no longer than this."""
LAST_S: Final = 8.0
_INTERVALS_S: Final = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_MADE_OF: Final = ("operator/cooperator/demo", "operator/cooperator/terminal")
_WIDTH: Final = 8
_HEIGHT: Final = 17
_MARGIN: Final = 12
_COLOURS: Final = {
    "default": "#d4d4d4",
    "black": "#767676",
    "red": "#f14c4c",
    "green": "#23d18b",
    "brown": "#e5c07b",
    "blue": "#6cb6ff",
    "magenta": "#d670d6",
    "cyan": "#29b8db",
    "white": "#e5e5e5",
    **{f"bright{name}": "#ffffff" for name in ("black", "white")},
}
"""pyte's names of colours; others are shown in the default colour."""


@dataclass(frozen=True, slots=True)
class Words:
    """Text of one style, from ``column`` on."""

    column: int
    text: str
    colour: str
    bold: bool


Line = tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Shot:
    """The screen of a terminal from ``at_s`` on, in seconds of the run."""

    at_s: float
    lines: tuple[Line, ...]


def output_of(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> Iterator[tuple[float, bytes]]:
    """Runs ``command`` in a pseudo-terminal; yields its output with the seconds since its start.

    Raises subprocess.CalledProcessError if it fails.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    terminal = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**environment, **terminal},
        start_new_session=True,
    )
    os.close(theirs)
    began_s = time.monotonic()
    try:
        while data := _read(ours):
            yield time.monotonic() - began_s, data
    finally:
        os.close(ours)
        if code := process.wait():
            raise subprocess.CalledProcessError(code, command)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:
        return b""  # The other end is closed.


def shots_of(output: Iterable[tuple[float, bytes]], shown_as: Mapping[str, str]) -> Iterator[Shot]:
    """Returns what a terminal shows after each part of ``output``. ``shown_as`` replaces patterns before."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for at_s, data in output:
        text = decoder.decode(data)
        for pattern, shown in shown_as.items():
            text = re.sub(pattern, shown, text)
        stream.feed(text)
        yield Shot(at_s, tuple(_line(screen, row) for row in range(ROWS)))


def _line(screen: pyte.Screen, row: int) -> Line:
    cells = [screen.buffer[row][column] for column in range(COLUMNS)]
    words, column = list[Words](), 0
    for (colour, bold), group in groupby(cells, lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in group)
        # Gaps are not drawn, so that tables stay aligned in any font.
        for match in re.finditer(r"\S+(?: \S+)*", text):
            words.append(Words(column + match.start(), match.group(), colour, bold))
        column += len(text)
    return tuple(words)


def chosen(shots: Iterable[Shot], interval_s: float) -> Sequence[Shot]:
    """Returns the shots that differ from their predecessors, one for each interval at most, and the last."""
    kept, last = list[Shot](), None
    for shot in shots:
        if not kept or shot.at_s - kept[-1].at_s >= interval_s:
            if last is not None and kept and last.lines != kept[-1].lines:
                kept.append(last)
            if not kept or shot.lines != kept[-1].lines:
                kept.append(shot)
        last = shot
    if last is not None and last.lines != kept[-1].lines:
        kept.append(last)
    return kept


def svg(shots: Sequence[Shot], made_of: str) -> str:
    """Draws a film strip that steps from shot to shot. Without animations, the last shot is shown."""
    times_s = [min((after.at_s - before.at_s) / SPEED, LONGEST_S) for before, after in pairwise(shots)]
    times_s.append(LAST_S)
    rows = max(row for shot in shots for row, line in enumerate(shot.lines, 1) if line)
    columns = max(words.column + len(words.text) for shot in shots for line in shot.lines for words in line)
    width, height = columns * _WIDTH + 2 * _MARGIN, rows * _HEIGHT + 2 * _MARGIN
    names = dict[Line, str]()
    strip = []
    for number, shot in enumerate(shots):
        uses = "".join(
            f'<use href="#{names.setdefault(line, f"l{len(names)}")}" y="{row * _HEIGHT}"/>'
            for row, line in enumerate(shot.lines)
            if line
        )
        strip.append(f'<g transform="translate(0 {number * height})">{uses}</g>')
    total_s, at_s, steps = sum(times_s), 0.0, []
    for number, time_s in enumerate(times_s):
        steps.append(f"{100 * at_s / total_s:.2f}%{{transform:translateY(-{number * height}px)}}")
        at_s += time_s
    colours = "".join(f".{name}{{fill:{colour}}}" for name, colour in _COLOURS.items())
    cells = dict[Words, str]()
    lines = "".join(
        f'<g id="{name}">{"".join(_use(cells.setdefault(words, f"w{len(cells)}")) for words in line)}</g>'
        for line, name in names.items()
    )
    texts = "".join(_drawn(words, name) for words, name in cells.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">\n<title>The demo: a member is killed and comes back</title>\n'
        f"<desc>made of {made_of}</desc>\n"
        f"<style>text{{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre}}"
        f"{colours}.b{{font-weight:bold}}"
        f"#film{{animation:film {total_s:.1f}s steps(1,end) infinite}}"
        f"@keyframes film{{{''.join(steps)}}}"
        "@media(prefers-reduced-motion:reduce){#film{animation:none}}</style>\n"
        f'<defs>{texts}\n{lines}</defs>\n<rect width="100%" height="100%" rx="8" fill="#1e1e1e"/>\n'
        f'<svg x="{_MARGIN}" y="{_MARGIN}" width="{width - 2 * _MARGIN}" height="{height - 2 * _MARGIN}">'
        f'<g id="film" transform="translate(0 -{(len(shots) - 1) * height})">\n'
        f"{chr(10).join(strip)}\n</g></svg>\n</svg>\n"
    )


def _use(name: str) -> str:
    return f'<use href="#{name}"/>'


def _drawn(words: Words, name: str) -> str:
    colour = words.colour if words.colour in _COLOURS else "default"
    style = f"{colour} b" if words.bold else colour
    length = len(words.text) * _WIDTH
    return (
        f'<text id="{name}" x="{words.column * _WIDTH}" y="13" class="{style}" textLength="{length}">'
        f"{escape(words.text, quote=False)}</text>"
    )


def drawn(shots: Sequence[Shot], made_of: str) -> str:
    """Draws as many shots as fit into ``MOST_BYTES``. Raises ValueError if too few do."""
    for interval_s in _INTERVALS_S:
        picture = svg(chosen(shots, interval_s), made_of)
        if len(picture.encode()) <= MOST_BYTES:
            return picture
    raise ValueError(f"the recording needs {len(picture.encode())} bytes, more than {MOST_BYTES}")


def sources() -> str:
    """Returns a hash of this file and of the packages that the demo shows."""
    files = sorted(path for folder in _MADE_OF for path in (ROOT / folder).rglob("*.py"))
    texts = [path.read_bytes() for path in (*files, Path(__file__))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def record() -> Sequence[Shot]:
    """Runs the demo. Raises subprocess.CalledProcessError if it fails."""
    with TemporaryDirectory() as folder:
        prompt = (0.0, b"$ cooperator demo\r\n")
        program = [sys.executable, "-m", "cooperator.cli", "demo", "--directory", f"{folder}/demo"]
        output = output_of(program, os.environ, ROOT)
        paths = {re.escape(folder): SHOWN, re.escape(str(Path.home())): "~", r"/\S+/bin/java\b": "java"}
        return list(shots_of(_after(prompt, output), paths))


def _after(first: tuple[float, bytes], rest: Iterable[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    yield first
    yield from rest


def main() -> int:
    parser = argparse.ArgumentParser(description="Records the demo as an animated SVG.")
    parser.add_argument("file", nargs="?", type=Path, default=TARGET)
    parser.add_argument("--again", action="store_true", help="also if the demo has not changed")
    options = parser.parse_args()
    made_of = sources()
    if (
        not options.again
        and options.file.exists()
        and f"made of {made_of}<" in options.file.read_text("utf-8")
    ):
        sys.stdout.write(f"{options.file.name} shows this demo: --again records it anew\n")
        return 0
    try:
        picture = drawn(record(), made_of)
    except (subprocess.CalledProcessError, ValueError) as error:
        sys.stderr.write(f"the recording failed: {error}\n")
        return 1
    options.file.write_text(picture, "utf-8")
    sys.stdout.write(f"{options.file.name}: {options.file.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
