"""A cell of the table: a value of a type that travels one pair, what is expected of it, and what came out.

Everything is compared as text, in the form that ``readings`` gives to what an independent reader has read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

Kind = Literal["row", "letter", "failed", "missing"]
Status = Literal["equal", "refused", "wrong"]

_REMEDIES = (
    *("add", "alter", "cast", "change", "declare", "drop", "encode", "leave out", "name", "raise", "remove"),
    *("rename", "replace", "select", "set", "use", "write"),
)
_REMEDY = re.compile(rf"\b({'|'.join(_REMEDIES)})\b", re.IGNORECASE)
_NAMED = 20


@dataclass(frozen=True)
class Cell:
    """One value of the table, in the column ``column`` of the record whose key is ``key``.

    ``given`` is the value as the source gets it, and ``due`` as a reader of the sink is to read it. A
    Connector that is refused as a ``whole`` has read no record, so that there is no key and no value to name.
    """

    pair: str
    type: str
    value: str
    given: str
    due: str
    column: str
    key: str
    whole: bool = False

    @property
    def name(self) -> str:
        return f"{self.pair} / {self.type} / {self.value}"


@dataclass(frozen=True)
class Outcome:
    """What came of a cell: a row with this text, a letter or a failed task with this message, or nothing."""

    kind: Kind
    text: str = ""


@dataclass(frozen=True)
class Listed:
    """Cells of which something is known. An asterisk in ``pair``, ``type``
    and ``values`` stands for any text.

    A cell that travels ``alone`` stops its task, or changes how the rest of its batch is converted: it has a
    Connector of its own, and only the whole table has it.
    """

    pair: str
    type: str
    values: tuple[str, ...]
    reason: str
    alone: bool = field(default=False, kw_only=True)

    def has(self, pair: str, type_name: str, value: str) -> bool:
        return (
            _matches(self.pair, pair)
            and _matches(self.type, type_name)
            and any(_matches(each, value) for each in self.values)
        )


@dataclass(frozen=True)
class Refusal(Listed):
    """Cells that are to be refused, with a message that names column, key, value and remedy."""


@dataclass(frozen=True)
class Gap(Listed):
    """Cells that are known to be neither equal nor refused: ``reason`` says what comes out. ``line`` is
    the one of issue 40 that the gap belongs to.
    """

    line: str


def status_of(cell: Cell, outcome: Outcome) -> Status:
    if outcome.kind == "row":
        return "equal" if outcome.text == cell.due else "wrong"
    if outcome.kind == "missing":
        return "wrong"
    return "refused" if not unnamed(cell, outcome.text) else "wrong"


def unnamed(cell: Cell, message: str) -> Sequence[str]:
    """What a refusal lacks of column, key, value and remedy."""
    value = cell.given.strip('"')[:_NAMED]
    found = {
        "column": cell.column in message,
        "key": cell.whole or cell.key in message,
        "value": cell.whole or value in message,
        "remedy": bool(_REMEDY.search(message)),
    }
    return [part for part, named in found.items() if not named]


def _matches(pattern: str, name: str) -> bool:
    """Of special characters, only the asterisk is one: names of types and values have the others."""
    return fnmatchcase(name, re.sub(r"[\[?]", r"[\g<0>]", pattern))


def listed_for(cell: Cell, exceptions: Iterable[Listed]) -> Listed | None:
    """The first entry of the list that has the cell."""
    return next((listed for listed in exceptions if listed.has(cell.pair, cell.type, cell.value)), None)


def problems(outcomes: Mapping[Cell, Outcome], exceptions: Sequence[Listed]) -> list[str]:
    """Each cell that is not as expected, in a line that says what went in and what came out."""
    found = []
    for cell, outcome in outcomes.items():
        status = status_of(cell, outcome)
        listed = listed_for(cell, exceptions)
        expected = "equal" if listed is None else "refused" if isinstance(listed, Refusal) else "wrong"
        if status != expected:
            closed = "; the gap is closed: take it off the list" if isinstance(listed, Gap) else ""
            found.append(f"{cell.name}: {status}, expected {expected}{closed}\n{described(cell, outcome)}")
    return found


def described(cell: Cell, outcome: Outcome) -> str:
    lacks = (
        "" if outcome.kind in ("row", "missing") else f" (names no {', '.join(unnamed(cell, outcome.text))})"
    )
    return (
        f"    in:  {shown(cell.given)}\n    due: {shown(cell.due)}\n"
        f"    out: {outcome.kind}{lacks}: {shown(outcome.text, 400)}"
    )


def shown(text: str, most: int = 100) -> str:
    """The text in printable characters; a long one by its beginning and its length."""
    readable = "".join(
        each if each.isprintable() and each != "\\" else _escaped(each) for each in text[:most]
    )
    return readable if len(text) <= most else f"{readable}… ({len(text):,} characters)"


def _escaped(character: str) -> str:
    names = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
    code = ord(character)
    return names.get(character) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
