"""A long run in pieces: which seeds have run with which code, so that the next piece goes on there.

A line of the record is one finished piece: ``CODE FIRST END FAILED``, the digest of the code, the range of
its seeds (``END`` is not in it), and how many of them broke a promise.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PIECE = 100
"""Number of seeds after which a run is noted."""
LOADED = """
import sys
import tests.simulation.run
files = [module.__file__ for module in [*sys.modules.values()] if getattr(module, "__file__", None)]
print("\\n".join(files))
"""


class Piece(NamedTuple):
    code: str
    first: int
    end: int
    failed: int


def files() -> list[Path]:
    """What a history loads of the project and of its simulation, in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=ROOT, check=True, capture_output=True, text=True
    )
    places = (ROOT / "operator", ROOT / "tests")
    loaded = (Path(line) for line in answer.stdout.splitlines())
    return sorted(path for path in loaded if any(place in path.parents for place in places))


def code() -> str:
    """The digest of everything that can change a history: a run of other code says nothing about this one."""
    digest = hashlib.sha256()
    for path in files():
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read(record: Path, of_code: str) -> list[Piece]:
    """The pieces that have run with ``of_code``."""
    lines = record.read_text().splitlines() if record.exists() else []
    pieces = (Piece(name, *map(int, numbers)) for name, *numbers in map(str.split, lines))
    return [piece for piece in pieces if piece.code == of_code]


def note(record: Path, piece: Piece) -> None:
    with record.open("a") as lines:
        lines.write(" ".join(map(str, piece)) + "\n")


def left(seeds: range, done: Iterable[Piece], piece: int = PIECE) -> Iterator[range]:
    """Yield the ranges of ``seeds`` that are in no piece of ``done``; each has at most ``piece`` seeds."""
    at = seeds.start
    for known in sorted(done, key=lambda each: each.first):
        yield from _pieces(at, min(known.first, seeds.stop), piece)
        at = max(at, known.end)
    yield from _pieces(at, seeds.stop, piece)


def _pieces(first: int, end: int, piece: int) -> Iterator[range]:
    for start in range(first, end, piece):
        yield range(start, min(start + piece, end))
