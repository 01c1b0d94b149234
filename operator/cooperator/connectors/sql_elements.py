"""How many elements a value has by what is written: those that are listed, counted or in a text. Pure.

An array of the row counts as one, as do the parts of a text of the row: rows of them grow with the data.
"""

from collections.abc import Sequence
from typing import Final

from cooperator.connectors.sql_bounds import LARGEST
from cooperator.connectors.sql_results import elements_of_sequence
from cooperator.connectors.sql_sizes import PLACE, Argument, Size

_COLLECTING: Final = frozenset(
    "array array_append array_prepend array_union arrays_zip concat flatten map map_concat".split()  # noqa: SIM905
)
"""Functions whose result has the elements of all arguments."""
BREAKING: Final = frozenset(
    """
    from_json json_object_keys parse_json regexp_extract_all sentences split str_to_map try_parse_json
    try_variant_get variant_get xpath
    """.split()  # noqa: SIM905
)
"""Functions that make elements of a text."""


def elements_of(name: str, given: Sequence[Argument], size: Size) -> float:
    """Returns the elements of a call's result, whose size is ``size``."""
    if name in ("sequence", "range"):
        return elements_of_sequence(given)
    found = [each.elements for each in given]
    number = given[1].value if len(given) > 1 else None
    elements = max(found, default=1)
    if name == "array_repeat":
        elements *= max(1, number) if isinstance(number, (int, float)) else LARGEST
    elif name == "array_insert":
        elements = sum(found) + (abs(number) if isinstance(number, (int, float)) else LARGEST)
    elif name in _COLLECTING:
        elements = sum(found)
    elif given and name in BREAKING:
        # A text may be broken into as many elements as it has bytes; what is copied has those of the copies.
        text = given[0].size
        elements = max(elements, text.bytes + sum(text.times.values()))
    return max(1, elements if size.grows else min(elements, size.bytes / PLACE))
