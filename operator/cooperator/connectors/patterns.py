"""Regular expressions that users give, matched in time linear in the text (RE2, as KIP-848 does by RE2J).

A backtracking engine takes exponential time for some patterns and holds the interpreter's lock meanwhile: one
Connector would stop the heartbeats of all others in its process. RE2 has no lookaround and no backreferences,
and ``\\d``, ``\\w`` and ``\\s`` match ASCII only.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import re2

from cooperator.connectors.options import refuse

LONGEST_PATTERN: Final = 1_000
"""Maximum length of a pattern, in characters; the matched names have at most 249."""
_MAX_MEMORY_BYTES: Final = 1 << 20
"""Memory limit for a compiled pattern, in bytes. RE2 refuses nested repetitions that expand beyond it."""


def check_pattern(option: str, pattern: str, example: str) -> None:
    """Raises ValueError, which names ``option`` and the remedy, unless RE2 can compile ``pattern``."""
    try:
        compiled(pattern)
    except ValueError as error:
        remedy = (
            f"write a regular expression of RE2 for complete names, such as {example}, without lookaround "
            f"and backreferences, and in at most {LONGEST_PATTERN:,} characters"
        )
        raise refuse(f"is not a valid regular expression ({error})", remedy, option) from None


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the whole name. A pattern that is refused, which running tasks of an
    earlier release may have, matches nothing."""
    try:
        return compiled(pattern)(name)
    except ValueError:
        return False


@lru_cache(maxsize=100)
def compiled(pattern: str) -> Callable[[str], bool]:
    """Returns the test whether the pattern matches a whole name. Raises ValueError if it is not valid."""
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"it has {len(pattern):,} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        program = re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        raise ValueError(said.decode(errors="replace") if isinstance(said, bytes) else str(said)) from None
    return lambda name: program.fullmatch(name) is not None
