r"""Makes text of users and of data safe to show: what would act on a terminal, end a line or stay invisible
becomes a visible escape (``\x1b``, ``\u202e``).

This is the only place that decides what is escaped. It is applied where text leaves the program: to a
terminal (``terminal.console``), a log (``log_lines``), a status (``crd.projection``), an event, a label
(decision 132). Escaping twice is the same as once, since a backslash stays as it is.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

_UNUSUAL: Final = re.compile(r"[^ -~]")
_IGNORED: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Unicode's Default_Ignorable_Code_Point outside of the general categories below: they show nothing."""
_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Cs", "Zl", "Zp"})
"""Controls (C0, DEL, C1), formats (bidirectional overrides and isolates, zero width), what is not assigned
(which may be ignorable, or act once it is), lone surrogates, and the separators of lines and paragraphs."""
_SHORT: Final = MappingProxyType({"\n": r"\n", "\r": r"\r", "\t": r"\t"})
_GAP: Final = " … "


def visible_line(text: str, most: int | None = None) -> str:
    """Returns ``text`` as one line: newlines and tabs are escaped, too. ``most``: see ``bounded``."""
    return bounded(_UNUSUAL.sub(_escape, text), most)


def visible_lines(texts: Iterable[str]) -> str:
    """Returns each of ``texts`` as exactly one line."""
    return "\n".join(map(visible_line, texts))


def visible_text(text: str, most: int | None = None) -> str:
    """Returns ``text`` with its newlines and tabs. ``most``: see ``bounded``."""
    return bounded(_UNUSUAL.sub(_escape_in_lines, text), most)


def visible_json(document: str) -> str:
    """Returns a JSON document that means the same, with the escapes of JSON."""
    return _UNUSUAL.sub(_escape_in_json, document)


def to_visible_json(value: object, indent: int | None = None) -> str:
    """Returns a value as a JSON document in which nothing is hidden; programs read the same value."""
    return visible_json(json.dumps(value, indent=indent, ensure_ascii=False))


def bounded(text: str, most: int | None) -> str:
    """Returns at most ``most`` characters: a longer text keeps its beginning and its end."""
    if most is None or len(text) <= most:
        return text
    room = most - len(_GAP)
    if room < 2:
        return text[:most]
    return f"{text[: room - room // 2]}{_GAP}{text[-(room // 2) :]}"


def is_hidden(character: str) -> bool:
    """Whether a character shows nothing of its own, or acts on what shows it."""
    return unicodedata.category(character) in _CATEGORIES or bool(_IGNORED.match(character))


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    # The escapes of Python's literals.
    return character.encode("unicode-escape").decode() if is_hidden(character) else character


def _escape_in_lines(found: re.Match[str]) -> str:
    return found[0] if found[0] in "\n\t" else _escape(found)


def _escape_in_json(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT or not is_hidden(character):
        return character  # Between values; within a text, JSON does not allow these.
    pairs = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))
