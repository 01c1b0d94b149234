"""The page on types, made of the record of a run: ``python -m tests.values.page`` writes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.values.cells import Gap, Listed, Refusal
from tests.values.gaps import EXCEPTIONS
from tests.values.record import Entry, read
from tests.values.world import DATABASE_ZONE, MEMBER_ZONE, SESSION_ZONE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "types.md"

_HEAD = f"""# Types

What becomes of each type between a source and a sink, as readers that are not ours see it: pyarrow,
psycopg, Python's `csv` and `json`, a plain Kafka consumer. `python -m tests.values.record` makes this
page from a run of `tests/values`; tests compare it with the table and with each further run. Values that
depend on a zone or a language show: in that run Spark's session is in {SESSION_ZONE}, the member in
{MEMBER_ZONE} with a Turkish locale, and the database in {DATABASE_ZONE}. `errors.tolerance` is `all`.

A value is **equal** if the reader gets what the source had. It is **refused** if a dead letter, or the
failure of the task, names its column, its record's key, the value and a remedy. Every other value is a
**gap**: it is listed with what comes out.
"""


def rendered(entries: Sequence[Entry]) -> str:
    pairs = list(dict.fromkeys(each.pair for each in entries))
    return "\n".join(
        [_HEAD, *_summary(pairs, entries), *(line for pair in pairs for line in _pair(pair, entries))]
    )


def _summary(pairs: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    lines = ["| pair | values | equal | refused | gaps |", "|---|---|---|---|---|"]
    for pair in pairs:
        of_pair = [each for each in entries if each.pair == pair]
        counts = Counter(each.status for each in of_pair)
        numbers = [len(of_pair), counts["equal"], counts["refused"], counts["wrong"]]
        lines.append(f"| [{pair}](#{_anchor(pair)}) | {' | '.join(map(str, numbers))} |")
    return [*lines, ""]


def _pair(pair: str, entries: Sequence[Entry]) -> list[str]:
    of_pair = [each for each in entries if each.pair == pair]
    lines = [
        f"## {pair}",
        "",
        "| type | a value | is read as | equal | refused | gaps |",
        "|---|---|---|---|---|---|",
    ]
    for type_name in dict.fromkeys(each.type for each in of_pair):
        of_type = [each for each in of_pair if each.type == type_name]
        counts = Counter(each.status for each in of_type)
        first = of_type[0]
        came = _code(first.came) if first.kind == "row" else _what(first)
        numbers = " | ".join(str(counts[status] or "") for status in ("equal", "refused", "wrong"))
        lines.append(f"| {_code(type_name)} | {_code(first.given)} | {came} | {numbers} |")
    lines.append("")
    for status, title in (("refused", "Refused"), ("wrong", "Gaps")):
        found = [each for each in of_pair if each.status == status]
        if found:
            lines += [f"### {title}: {pair}", "", "| type | value | what comes out | |", "|---|---|---|---|"]
            lines += [_exception(each) for each in found]
            lines.append("")
    return lines


def _exception(each: Entry) -> str:
    listed = _listed(each, EXCEPTIONS)
    reason = "" if listed is None else listed.reason
    came = _code(each.came) if each.kind == "row" else _what(each)
    value = (
        _code(each.given)
        if each.value == each.given.strip('"')
        else f"{_escaped(each.value)}: {_code(each.given)}"
    )
    return f"| {_code(each.type)} | {value} | {came} | {_escaped(reason)} |"


def _listed(each: Entry, exceptions: Iterable[Listed]) -> Gap | Refusal | None:
    return next((listed for listed in exceptions if listed.has(each.pair, each.type, each.value)), None)


def _what(each: Entry) -> str:
    """What is said of a value that came to no row."""
    if each.kind == "missing":
        return "nothing"
    said = {"letter": "a dead letter", "failed": "the task stops"}[each.kind]
    return f"{said}: {_code(each.came)}"


def _code(text: str) -> str:
    """The text in a cell of a Markdown table."""
    if not text:
        return "(empty)"
    fence = "``" if "`" in text else "`"
    pad = " " if text[0] in " `" or text[-1] in " `" else ""
    return fence + pad + text.replace("|", "\\|") + pad + fence


def _escaped(text: str) -> str:
    return re.sub(r"([\\|*_<>\[\]`])", r"\\\1", text)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(rendered(read()), "utf-8")
