"""Times that a SELECT writes as text, by ``to_json`` and ``to_csv``: as file sinks write them. Pure.

Spark cuts them to milliseconds unless options of the call say otherwise.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cooperator.connectors.formats import TIMES_WRITTEN
from cooperator.connectors.options import refuse

_WRITERS: Final = frozenset({"to_csv", "to_json"})
"""``to_xml`` is refused (``sql_functions``)."""


def with_times(sql: str, calls: Iterable[Mapping[str, Any]]) -> str:
    """Returns the SELECT with the options of ``TIMES_WRITTEN`` in each call that writes text.

    ``calls`` are those that Spark's parser has read in ``sql`` and that ``check_calls`` allows, so that
    options are a ``map`` of literals. An option that a call sets is kept. A format that a call sets may leave
    out the zone, which is that of the session then, as in all of Spark.
    """
    added: dict[int, str] = {}
    for call in calls:
        if call["name"].lower() not in _WRITERS or not call["arguments"]:
            continue
        *ends, end = call["ends"]
        is_set = len(ends) > 1
        given = call["arguments"][1] if is_set else []
        options = _options({name.lower() for name in given[::2]})
        if options and is_set:
            added[ends[1]] = f", {options}" if given else options
        elif options:
            added[end] = f", map({options})"
    # A name of a WITH may stand for its calls in several places, so that each place is here once.
    for at in sorted(added, reverse=True):
        if sql[at : at + 1] != ")":
            raise refuse(f"calls {' or '.join(sorted(_WRITERS))} over a window", "remove OVER after it")
        sql = sql[:at] + added[at] + sql[at:]
    return sql


def _options(given: set[str]) -> str:
    """Returns those that are not given, as arguments of ``map``."""
    keeps_zone = "timestampformat" in given
    return ", ".join(
        f"{_quoted(name)}, {_quoted(value)}"
        for name, value in TIMES_WRITTEN.items()
        if name.lower() not in given and not (keeps_zone and name == "timeZone")
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
