"""JSON of an API server, which may be nested 10,000 deep: Python's parser gives up near 1,000, kopf near 480.

One such object in a list or in a watch would hide all others, and it ends kopf. Deeper parts are read as
None: the object's reader refuses it for its depth anyway.
"""

import json
import re
from typing import Any, Final

KEPT_LEVELS: Final = 200
"""More than a list of objects may have that our readers accept."""
_STRUCTURE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def loads(text: str | bytes) -> Any:
    """Like ``json.loads``, with ``KEPT_LEVELS`` at most. Raises ValueError for what is not JSON."""
    try:
        value = json.loads(text)
        if not _is_deep(value):
            return value
    except RecursionError:
        pass
    return json.loads(cut(text if isinstance(text, str) else text.decode(), KEPT_LEVELS))


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(KEPT_LEVELS + 1):
        level = [
            child
            for part in level
            if isinstance(part, dict | list)
            for child in (part.values() if isinstance(part, dict) else part)
        ]
        if not level:
            return False
    return True


def cut(text: str, levels: int) -> str:
    """JSON in which mappings and lists below this level are null. An unfinished text stays invalid."""
    parts: list[str] = []
    begin = depth = 0
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if mark in "[{":
            if depth == levels:
                parts.append(text[begin : found.start()])
            depth += 1
        elif mark in "]}":
            depth -= 1
            if depth == levels:
                parts.append("null")
                begin = found.end()
    return "".join(parts) if depth > levels else "".join((*parts, text[begin:]))
