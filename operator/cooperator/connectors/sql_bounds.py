"""Bounds of literal arguments of functions: what they may allocate, and how patterns backtrack. Pure."""

import re
from collections.abc import Sequence
from typing import Final

Argument = int | float | str | None
"""A literal argument of a call; None: anything else."""

LARGEST: Final = 10_000
"""Upper limit of a length, a number of elements or a number of rows that a literal asks for."""
DIGITS: Final = 400
"""More than a double has; rounding to millions of digits takes hours."""
_WINDOWS: Final = 1_000
_WIDTH: Final = re.compile(r"%[^a-zA-Z%\n]*\d{4}")
_DURATION: Final = re.compile(
    r"(?:interval )?(?:[0-9]{1,12} (?:microsecond|millisecond|second|minute|hour|day|week)s? ?)+", re.ASCII
)
_PART: Final = re.compile(r"([0-9]+) ([a-z]+?)s?\b", re.ASCII)
_MICROSECONDS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}


def bounded_number(given: Sequence[Argument], at: int, most: float, least: float | None = None) -> str:
    """Returns why argument ``at``, if it is given, is no number from ``least`` (-``most``) to ``most``."""
    if len(given) <= at:
        return ""
    value = given[at]
    low = -most if least is None else least
    # Spark casts a text to a number where it needs one.
    if not isinstance(value, (int, float)) or not low <= value <= most:
        return f"needs a number between {low:g} and {most:g} as argument {at + 1}, written as such"
    return ""


def bounded_digits(given: Sequence[Argument]) -> str:
    """Returns why ``format_number`` may write any number of digits; a text is a format, as long as it is."""
    return "" if len(given) > 1 and isinstance(given[1], str) else bounded_number(given, 1, DIGITS)


def bounded_sequence(given: Sequence[Argument]) -> str:
    """Returns why a sequence, or the rows of ``range``, are not surely few."""
    numbers = [value for value in given if isinstance(value, int)]
    if not numbers or len(numbers) != len(given):
        return (
            "needs whole numbers, written as such; for the elements of an array use posexplode or transform"
        )
    first, last = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    if abs(last - first) >= LARGEST or (len(numbers) > 3 and abs(numbers[3]) > LARGEST):
        return f"makes more than {LARGEST} elements"
    return ""


def bounded_format(given: Sequence[Argument]) -> str:
    """Returns why a format may pad or round to any length."""
    if not given or not isinstance(given[0], str):
        return "needs a format that is written as a text"
    return "has a width or precision above 999" if _WIDTH.search(given[0]) else ""


def bounded_window(given: Sequence[Argument]) -> str:
    """Returns why a row may belong to any number of windows."""
    if len(given) < 3:
        return ""
    durations = [_microseconds(value) for value in given[1:3]]
    if not all(durations):
        return "needs durations that are written as texts, such as '10 minutes'"
    length, slide = durations
    return f"puts a row into more than {_WINDOWS} windows" if length > slide * _WINDOWS else ""


def _microseconds(value: Argument) -> int:
    """Returns a duration as Spark reads it; 0 if it is not a plain one."""
    if not isinstance(value, str) or not value.isascii() or not _DURATION.fullmatch(value.lower()):
        return 0
    return sum(int(number) * _MICROSECONDS[unit] for number, unit in _PART.findall(value.lower()))


def bounded_pattern(given: Sequence[Argument], at: Sequence[int]) -> str:
    """Returns why a pattern may backtrack without end."""
    for number in at:
        if len(given) <= number:
            continue
        pattern = given[number]
        if not isinstance(pattern, str):
            return f"needs a pattern that is written as a text, as argument {number + 1}"
        if backtracks(pattern):
            return (
                "has a pattern that can backtrack without end: repeat no group that itself has a repetition, "
                "an alternative or an optional part; write [ab]* for (a|b)*"
            )
    return ""


_NEVER, _BOUNDED, _ANY = range(3)
"""Whether a part of a pattern can match in several ways: never, in a few, or in more the longer a text is."""
_REPEATED: Final = {_NEVER: float("inf"), _BOUNDED: 9, _ANY: 4}
"""Upper limits of how often a group may be repeated; then the work is a polynomial of a low degree."""
_QUANTIFIER: Final = re.compile(r"[*+?]|\{([0-9]+)(,([0-9]*))?\}")


def backtracks(pattern: str) -> bool:
    """Whether Java's matcher may need exponential time: a repeated group whose content is ambiguous.

    It errs on the safe side: a group is taken for ambiguous if it has a repetition or an alternative. A
    polynomial is not found: ``.*a.*b.*c`` takes the cube of the length of a text.
    """
    if re.search(r"\(\?[a-zA-Z-]*x", pattern) or r"\Q" in pattern or re.search(r"\[\^?\]", pattern):
        return True  # These change what a quantifier belongs to, or where a class ends.
    groups = [_NEVER]
    at = 0
    while at < len(pattern):
        character, following = pattern[at], pattern[at + 1 : at + 2]
        if character == "(":
            groups.append(_NEVER)
            at += 2 if following == "?" else 1  # a group's own question mark is no quantifier
            continue
        ambiguity = _NEVER
        if character == "\\":
            if following.isdigit() or following == "k":
                ambiguity = _ANY  # the text of a group has any length
            at += 2
        elif character == "[":
            at = _end_of_class(pattern, at)
        else:
            if character == ")" and len(groups) > 1:
                ambiguity = groups.pop()
            elif character == "|":
                ambiguity = _BOUNDED
            at += 1
        found = _QUANTIFIER.match(pattern, at)
        if found:
            if _most(found) > _REPEATED[ambiguity]:
                return True
            ambiguity = max(ambiguity, _ambiguity(found))
            at = found.end()
            at += pattern[at : at + 1] in ("?", "+")
        groups[-1] = max(groups[-1], ambiguity)
    return False


def _ambiguity(found: re.Match[str]) -> int:
    if _most(found) == float("inf"):
        return _ANY
    return _NEVER if found[0].startswith("{") and found[2] is None else _BOUNDED


def _most(found: re.Match[str]) -> float:
    if not found[0].startswith("{"):
        return 1 if found[0] == "?" else float("inf")
    most = found[1] if found[2] is None else found[3]
    return int(most) if most else float("inf")


def _end_of_class(pattern: str, at: int) -> int:
    """Returns where a character class ends; Java nests them."""
    depth = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            depth += 1
        elif pattern[at] == "]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at
