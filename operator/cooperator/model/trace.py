"""Extracts the error of a stack trace as one line, and shortens traces for storage."""

import re
from collections.abc import Sequence
from typing import Final

_CAUSED_BY: Final = "caused by: "
_FRAME: Final = '  File "'
_TRACEBACK: Final = "Traceback (most recent call"
_CHAINED: Final = ("The above exception was", "During handling of the above")
_PY4J: Final = re.compile(r"py4j\.protocol\.Py4J\w+: ")
_AT: Final = re.compile(r"^[ \t]+at ", re.MULTILINE)
"""Matches within a line: with line breaks, a search over empty lines takes quadratic time."""
_READ: Final = 200_000
"""Upper limit of characters in which a root error is searched."""
_JVM_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: *")
_THROWABLE: Final = re.compile(r"[\w.$]+(: |\Z)")


def error_of(trace: str) -> str:
    """Return the root error of a trace, or the first line of a text that is not a trace. Empty for no text.

    Traces come from Python, the JVM ("Caused by: ..."), or both. Cooperator's members put the error and an
    empty line first (``with_error``); their earlier releases end a trace with lines of "caused by:".
    Long traces may lack their beginning. The innermost cause is last.
    """
    lines = trace.strip("\n").splitlines()
    if _begins_with_error(lines):
        return lines[0].strip()
    for line in reversed(lines):
        if line.lower().startswith(_CAUSED_BY):
            return line[len(_CAUSED_BY) :].strip()
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    behind = lines[frames[-1] + 1 :] if frames else lines
    # Indented lines after the last frame are its source.
    named = [line.strip() for line in behind if line and not line[0].isspace()]
    if len(named) > 1 and _PY4J.match(named[0]):
        # "An error occurred while calling o42.start." says nothing; the JVM's message follows.
        return named[1].removeprefix(":").strip()
    return named[0] if named else ""


def in_words(error: str) -> str:
    """Return ``error`` without the class of the JVM that it begins with: users look for the cause."""
    return _JVM_CLASS.sub("", error) or error


def _begins_with_error(lines: Sequence[str]) -> bool:
    """Tell ``with_error`` from Python's own empty line, which follows a cause that was never raised."""
    return (
        len(lines) > 2
        and not lines[1].strip()
        and not lines[2].startswith(_CHAINED)
        and any(line.startswith(_TRACEBACK) for line in lines)
    )


def with_error(error: str, trace: str) -> str:
    """Return ``trace`` after the one line that matters, which ``error_of`` returns."""
    return f"{error}\n\n{trace}"


def java_root(text: str) -> str:
    """Return class and message of the innermost cause in a JVM stack trace; empty if ``text`` is not one.

    For a Python error that the JVM passed on, such as a Spark worker's, this is the error's own last line.
    """
    text = trimmed(text, _READ)
    start = 0
    for found in re.finditer(r"^(?:Caused by: |: )", text, re.MULTILINE):
        start = found.end()
    message: str = _AT.split(text[start:], maxsplit=1)[0]
    lines = [line for line in message.splitlines() if line.strip()]
    if not lines or not _THROWABLE.match(lines[0]):
        return ""
    if _TRACEBACK in message:
        return next(line.strip() for line in reversed(lines) if not line[0].isspace())
    return lines[0].strip()


def trimmed(text: str, limit: int) -> str:
    """Return ``text`` in at most ``limit`` characters; a longer text keeps its head and tail, which matter
    most."""
    if len(text) <= limit:
        return text
    gap = f"\n… the middle of {len(text):,} characters is left out …\n"
    room = limit - len(gap)
    if room < 2:
        return text[:limit]
    return f"{text[: room - room // 2]}{gap}{text[-(room // 2) :]}"
