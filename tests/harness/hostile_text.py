"""Text that acts on a terminal, hides, or passes for something else, and what must be left of it."""

import re
import unicodedata

from hypothesis import strategies as st

ATTACKS = (
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1b[2J\x1b[1;1H",
    "\x1b[31mred",
    "\x9b31m",
    "\x9d0;title\x9c",
    "\x08\x08\x08",
    "\x7f",
    "\x00",
    "\r",
    "\n2026-01-01 00:00:00,000 INFO    cooperator: all is well",
    "\u2028",
    "\u2029",
    "\x85",
    "\u202eevil",
    "\u2066\u2069",
    "\u200b\u200d\ufeff\u2060",
    "\U000e0041",
    "\u3164\ufe0f",
    "\u2065\ufff0\U000e0080\U000e0fff",
    "\ud800",
    "\udcff",
    "[red]x[/]",
    "[link=http://evil.example]x[/link]",
    "[/]",
    "\\",
    '"',
    "ü\u3000ß",
)
hostile = st.lists(
    st.sampled_from(ATTACKS) | st.text(st.characters(), max_size=3), min_size=1, max_size=6
).map("".join)
_IGNORABLE = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def acting(text: str, allowed: str = "\n") -> list[str]:
    """The characters of ``text`` that would act, or show nothing; none are to be left."""
    return [
        character
        for character in text
        if character not in allowed
        and (unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") or _IGNORABLE.match(character))
    ]
