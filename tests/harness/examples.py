"""How many examples Hypothesis tries: some in every run, many in a long one.

A run that decides about a change repeats the same examples (``conftest.py``). A long run draws new ones
(docs/decisions/036).
"""

from hypothesis import settings


def examples(every_run: int, *, long: int) -> int:
    """Returns the number of examples for this run, as an argument ``max_examples``."""
    return every_run if settings().derandomize else long
