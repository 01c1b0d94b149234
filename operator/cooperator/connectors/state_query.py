"""Questions about the state of a connector's queries, and the form of their answers. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cooperator.model.text import choice

MOST_ROWS: Final = 1_000
MOST_BYTES: Final = 80_000
"""The limit of an answer's rows as JSON; an annotation has room for it."""
MOST_ROW_CHARS: Final = 20_000
"""The limit of a key and of a value as JSON; longer ones are left out, and their lengths are told."""
_FIELDS: Final = ("keys", "unit", "operator", "limit")


class StateError(ValueError):
    """The state cannot be read; the text names the field, the value and the remedy."""


@dataclass(frozen=True, slots=True)
class StateQuery:
    """``keys`` maps columns of the state's key to values, as text. ``unit`` is empty for all units, and
    ``operator`` None for all operators of a query. ``limit`` is in rows."""

    keys: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    operator: int | None = None
    limit: int = 100

    def encode(self) -> dict[str, Any]:
        return {
            "keys": dict(self.keys),
            "unit": self.unit,
            "operator": self.operator,
            "limit": self.limit,
        }


def decode(asked: Any) -> StateQuery:
    """Reads what ``encode`` has written, or a user. Raises ``StateError``."""
    if not isinstance(asked, dict):
        raise StateError('the question is not an object: write {"keys": {"column": "value"}}')
    if unknown := sorted(asked.keys() - set(_FIELDS)):
        raise StateError(f"the unknown field {unknown[0][:40]!r}: {choice(unknown[0], _FIELDS)}")
    keys, unit, operator = asked.get("keys", {}), asked.get("unit", ""), asked.get("operator")
    limit = asked.get("limit", StateQuery().limit)
    if not isinstance(keys, dict) or not all(isinstance(text, str) for pair in keys.items() for text in pair):
        raise StateError('keys is not a map of texts: write {"column": "value"}')
    if not isinstance(unit, str):
        raise StateError(f"unit is {str(unit)[:40]!r}: use the name of a unit")
    if operator is not None and not _is_count(operator):
        raise StateError(f"operator is {str(operator)[:40]!r}: use a number of at least 0")
    if not _is_count(limit) or not 1 <= limit <= MOST_ROWS:
        raise StateError(f"limit is {str(limit)[:40]!r}: use a number from 1 to {MOST_ROWS:,}")
    return StateQuery(keys, unit, operator, limit)


def keys_of(given: Iterable[str]) -> dict[str, str]:
    """Returns the map of texts such as ``user=ada``. Raises ``StateError``."""
    found: dict[str, str] = {}
    for text in given:
        column, sign, value = text.partition("=")
        if not column or not sign:
            raise StateError(f"--key is {text[:80]!r}: write COLUMN=VALUE, such as user=ada")
        if column in found:
            raise StateError(f"--key names the column {column!r} twice: give it one value")
        found[column] = value
    return found


@dataclass(slots=True)
class Answer:
    """Collects rows, up to the limits."""

    limit: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    is_cut: bool = False
    _size_bytes: int = 0

    @property
    def room(self) -> int:
        """The number of rows that may still come."""
        return 0 if self.is_cut else self.limit - len(self.rows)

    def add(self, row: dict[str, Any]) -> None:
        """Adds a row, unless it is beyond the limits; then the answer is cut."""
        size_bytes = len(json.dumps(row, ensure_ascii=False).encode()) + 2
        if self.room <= 0 or self._size_bytes + size_bytes > MOST_BYTES:
            self.is_cut = True
            return
        self._size_bytes += size_bytes
        self.rows.append(row)

    def encode(self) -> dict[str, Any]:
        """Returns ``{"rows", "cut"}``; ``cut``: there is more than these rows."""
        return {"rows": self.rows, "cut": self.is_cut}


def wrong_column(keys: Iterable[str], known: Sequence[str]) -> StateError:
    """Returns the error for a question whose columns no part of the state has together."""
    lower = {name.lower() for name in known}
    wrong = next((name for name in keys if name.lower() not in lower), None)
    if wrong is None:
        return StateError(
            f"key {', '.join(keys)}: no part of the state has all of these columns; ask by fewer of them"
        )
    return StateError(f"key {wrong[:80]!r} is not a column of the state's key: {choice(wrong, known)}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
