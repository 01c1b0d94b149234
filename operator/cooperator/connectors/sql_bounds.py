"""Bounds of literal arguments of functions: what they may allocate, and how patterns backtrack. Pure."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

Literal = int | float | str | None
Argument = Literal | tuple[Literal, ...]
"""A literal argument of a call, or those of a ``map(…)`` of literals; None: anything else."""

LARGEST: Final = 10_000
"""Upper limit of a length, a number of elements or a number of rows that a literal asks for."""
DIGITS: Final = 400
"""More than a double has; rounding to millions of digits takes hours."""
MOST_WINDOWS: Final = 1_000
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
    return f"puts a row into more than {MOST_WINDOWS} windows" if length > slide * MOST_WINDOWS else ""


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
                "an alternative or an optional part (write [ab]* for (a|b)*), and let few repetitions meet "
                "what they match themselves (write [^,]*, for .*,)"
            )
    return ""


def bounded_like(given: Sequence[Argument]) -> str:
    """Returns why a pattern of LIKE may try too many ways: each ``%`` is a ``.*`` for Java's matcher."""
    for pattern in given[1:]:
        if not isinstance(pattern, str):
            return "needs a pattern that is written as a text; use contains, startswith or endswith"
        if pattern.rstrip("%").count("%") > _MOST_WAYS:
            return f"has more than {_MOST_WAYS} times % before the last text"
    return ""


_TEXT_OF_XPATH: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_WAYS_OF_XPATH: Final = re.compile(
    r"//|\.\.|(?<![\w-])(?:ancestor|descendant|following|parent|preceding)[\w-]*\s*::"
)
"""Steps that reach a node again, or from each node many others; others go down a document once."""


def bounded_xpath(given: Sequence[Argument]) -> str:
    """Returns why a path may visit nodes without end: Java's evaluator visits a node once for each way to it,
    so that ``/parent::a/b`` thirty times never ends for two elements."""
    if len(given) < 2:
        return ""
    if not isinstance(given[1], str):
        return "needs a path that is written as a text, as argument 2"
    path = _TEXT_OF_XPATH.sub("''", given[1])
    depths = accumulate((character == "[") - (character == "]") for character in path)
    ways = len(_WAYS_OF_XPATH.findall(path)) + max(depths, default=0)
    return (
        f"has more than {_MOST_WAYS} steps //, .., other axes and nested conditions"
        if ways > _MOST_WAYS
        else ""
    )


_NAMES_THAT_ALLOCATE: Final = frozenset({"inputbuffersize", "maxcharspercolumn", "maxcolumns", "pretty"})
"""Buffers, and ``pretty``, which indents each line by the depth of the value."""


def bounded_options(given: Sequence[Argument], at: int) -> str:
    """Returns why the options of a format, as argument ``at``, may allocate any buffer."""
    if len(given) <= at:
        return ""
    options = given[at]
    if not isinstance(options, tuple) or not all(
        isinstance(each, str) and each.isascii() for each in options
    ):
        return f"needs options that are written as map('name', 'value'), as argument {at + 1}"
    found = sorted({str(name).lower() for name in options[::2]} & _NAMES_THAT_ALLOCATE)
    return f"sets {found[0]}, which allocates as much" if found else ""


_NEVER, _BOUNDED, _ANY = range(3)
"""Whether a part of a pattern can match in several ways: never, in a few, or in more the longer a text is."""
_REPEATED: Final = {_NEVER: float("inf"), _BOUNDED: 9, _ANY: 4}
"""Upper limits of how often a group may be repeated; then the work is a polynomial of a low degree."""
_MOST_WAYS: Final = 3
"""The highest degree of a polynomial that is allowed: ``.*a.*b.*c`` takes the cube of a text's length."""
_FEW: Final = 0.25
"""The part of a degree for two ways that do not depend on the text: 12 of them are 4,096 ways."""
_QUANTIFIER: Final = re.compile(r"[*+?]|\{([0-9]+)(,([0-9]*))?\}")
_GROUP: Final = re.compile(r"\((?:\?(?::|<[A-Za-z][A-Za-z0-9]*>|[a-zA-Z-]*:))?")
_WORDS: Final = re.compile(r"[\w -]+(?:\|[\w -]+)*\)", re.ASCII)
_SAMPLE: Final = [*map(chr, range(128)), "\u00e9", "\u017f", "\u212a", "\u4e2d"]


@dataclass(slots=True)
class _Group:
    """A group of a pattern, up to where it was read. ``ways`` is of the present alternative."""

    ambiguity: int = _NEVER
    ways: float = 0
    most_ways: float = 0
    alternatives: int = 1
    are_words: bool = False
    """Its alternatives are words of which none begins like another."""


def backtracks(pattern: str) -> bool:
    """Whether Java's matcher may need more than some cubes of a text's length.

    Exponential is a repeated group whose content is ambiguous. A polynomial's degree is the number of
    repetitions that can end in several places, since what follows them can be a part of them: in a pattern
    that is written out, ``.*a.*a.*a…``, nothing else limits it. It errs on the safe side.
    """
    if re.search(r"\(\?[a-zA-Z-]*x", pattern) or r"\Q" in pattern or re.search(r"\[\^?\]", pattern):
        return True  # These change what a quantifier belongs to, or where a class ends.
    if re.search(r"(?<!\\)(?:\\\\)*\\[RX]", pattern):
        return True  # They match texts of several lengths, for which Java's matcher calls itself.
    ignores_case = bool(re.search(r"\(\?[a-zA-Z-]*i", pattern))
    groups = [_Group()]
    at = 0
    while at < len(pattern) and groups[-1].ways <= _MOST_WAYS:
        character, following = pattern[at], pattern[at + 1 : at + 2]
        if character == "(":
            inner = _GROUP.match(pattern, at)
            groups.append(_Group(are_words=_are_words(pattern, inner.end() if inner else at)))
            at += 2 if following == "?" else 1  # a group's own question mark is no quantifier
            continue
        begin, ambiguity, ways = at, _NEVER, 0.0
        is_group = False
        if character == "\\":
            if following.isdigit() or following == "k":
                ambiguity = _ANY  # the text of a group has any length
            at += 2
        elif character == "[":
            at = _end_of_class(pattern, at)
        else:
            if character == ")" and len(groups) > 1:
                is_group = True
                closed = groups.pop()
                ambiguity, ways = closed.ambiguity, max(closed.ways, closed.most_ways)
                if closed.alternatives > 1 and not closed.are_words:
                    ways += _FEW * math.log2(closed.alternatives)
            elif character == "|":
                ambiguity = _BOUNDED
                groups[-1].alternatives += 1
                groups[-1].most_ways = max(groups[-1].ways, groups[-1].most_ways)
                groups[-1].ways = 0
            at += 1
        atom = pattern[begin:at]
        found = _QUANTIFIER.match(pattern, at)
        if found:
            if _most(found) > _REPEATED[ambiguity]:
                return True
            ambiguity = max(ambiguity, _ambiguity(found))
            ways *= min(_most(found), _REPEATED[_BOUNDED])
            at = found.end()
            is_possessive = pattern[at : at + 1] == "+"
            at += pattern[at : at + 1] in ("?", "+")
            if not is_possessive and _may_end_elsewhere(pattern, atom, is_group, at, ignores_case):
                ways += _FEW if found[0] == "?" else _ambiguity(found) != _NEVER
        groups[-1].ambiguity = max(groups[-1].ambiguity, ambiguity)
        groups[-1].ways += ways
    return any(max(each.ways, each.most_ways) > _MOST_WAYS for each in groups)


def captured_aside(pattern: str) -> set[int]:
    """Returns the numbers of the groups within a lookahead or lookbehind.

    Matches do not overlap, so what they capture is a text's length together; what lies aside of them is not.
    """
    found: set[int] = set()
    opened: list[bool] = []
    number = at = 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            at = _end_of_class(pattern, at) - 1
        elif pattern[at] == "(":
            looks_aside = pattern.startswith(("(?=", "(?!", "(?<=", "(?<!"), at)
            if pattern[at + 1 : at + 2] != "?" or (pattern.startswith("(?<", at) and not looks_aside):
                number += 1
                found |= {number} if any(opened) else set()
            opened.append(looks_aside)
        elif pattern[at] == ")" and opened:
            opened.pop()
        at += 1
    return found


def _are_words(pattern: str, at: int) -> bool:
    found = _WORDS.match(pattern, at)
    words = sorted(found[0][:-1].split("|")) if found else []
    return bool(words) and not any(after.startswith(word) for word, after in pairwise(words))


def _may_end_elsewhere(pattern: str, atom: str, is_group: bool, at: int, ignores_case: bool) -> bool:
    """Whether what follows a repetition of ``atom`` at ``at`` can begin with what the atom matches."""
    own = None if is_group else _characters(atom, ignores_case)
    while at < len(pattern):
        character, following = pattern[at], pattern[at + 1 : at + 2]
        if character == "(":
            inner = _GROUP.match(pattern, at)
            is_plain = inner is not None and (inner[0] != "(" or following != "?")
            if inner is None or not is_plain or "|" in pattern[at:]:
                return True
            at = inner.end()
        elif character == ")":
            at += 1
            if _QUANTIFIER.match(pattern, at):
                return True
        elif character in "^$":
            at += 1
        elif character == "|":
            return True
        elif character == "\\" and following in "bBAzZG":
            at += 2
        else:
            end = at + 2 if character == "\\" else _end_of_class(pattern, at) if character == "[" else at + 1
            others = _characters(pattern[at:end], ignores_case)
            if own is None or others is None or own & others:
                return True
            found = _QUANTIFIER.match(pattern, end)
            if not found or (found[0][0] not in "*?" and found[1] != "0"):
                return False
            at = found.end()
            at += pattern[at : at + 1] in ("?", "+")
    return False  # Nothing follows that could fail.


@lru_cache(1_000)
def _characters(atom: str, ignores_case: bool) -> frozenset[str] | None:
    """Returns those of a sample that one atom matches; None if it cannot be told."""
    is_unusual = "&&" in atom or "[" in atom[1:] or re.match(r".*\\[^dDsSwWtnr\W]", atom, re.DOTALL)
    if is_unusual:
        return None
    flags = re.ASCII | re.DOTALL | (re.IGNORECASE if ignores_case else 0)
    try:
        found = re.compile(atom, flags)
    except (re.error, OverflowError):
        return None
    return frozenset(each for each in _SAMPLE if found.fullmatch(each))


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
