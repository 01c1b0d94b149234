"""Text for users: numbers of things, lists of names, and suggestions for unknown words (one rule for fields,
options, values, kinds and names)."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

_SEPARATORS: Final = re.compile(r"[\s._-]+")
_CUTOFF: Final = 0.7


def counted(number: int, noun: str) -> str:
    """Return ``1 task``, ``2 tasks``, ``1,600 tasks``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """Return ``a, b and 3 more``: at most ``most`` of the names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def did_you_mean(wrong: str, known: Iterable[str], cutoff: float = _CUTOFF) -> str:
    """Return ``did you mean 'tasksMax'?``, or an empty string if nothing known is similar.

    Case and separators are ignored. ``cutoff``: the minimum similarity of two words, from 0 to 1.
    """
    by_plain = {_plain(name): name for name in known}
    close = difflib.get_close_matches(_plain(wrong), by_plain, n=1, cutoff=cutoff)
    return f"did you mean {by_plain[close[0]]!r}?" if close else ""


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown word: ``did you mean 'x'?``, or the words to choose from."""
    names = list(known)
    return did_you_mean(wrong, names) or (f"use one of {', '.join(names)}" if names else "remove it")


def hinted(wrong: str, known: Iterable[str], remedy: str) -> str:
    """Return ``remedy``, after a "did you mean" hint if there is one."""
    hint = did_you_mean(wrong, known)
    return f"{hint} {remedy}" if hint else remedy


def otherwise(hint: str, remedy: str) -> str:
    """Return ``remedy`` as the alternative to ``hint``, which may be empty."""
    return f"{hint} Otherwise {remedy}" if hint else remedy


def choice(wrong: str, known: Iterable[str]) -> str:
    """Like ``suggestion``, but always with all words to choose from."""
    names = list(known)
    return hinted(wrong, names, f"use one of {', '.join(names)}")


def end_of_braces(text: str) -> int:
    """Returns where the last reference ``${…}`` can end. Beyond it a search would go through the rest of the
    text for each ``${``, in quadratic time, with the interpreter's lock."""
    return text.rfind("}") + 1


def _plain(word: str) -> str:
    return _SEPARATORS.sub("", word.lower())
