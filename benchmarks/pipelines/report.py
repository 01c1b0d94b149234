"""Tables of measured turns, with ratios inside one run, and the page of the documentation."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

BUSY_CORES: Final = 0.15
"""More than this, used by others, disturbs a turn."""

Turn = Mapping[str, Any]
OURS: Final = "cooperator"


@dataclass(frozen=True)
class Bound:
    """The bound of one of our figures. ``base`` names the contender that the figure is divided by; empty: the
    figure itself is bounded."""

    figure: str
    base: str
    must: float
    goal: float
    at_most: bool = False

    def verdict(self, value: float | None) -> str:
        sign = "≤" if self.at_most else "≥"
        words = f"({sign} {self.must:g}, goal {self.goal:g})"
        if value is None:
            return f"**missed** {words}"
        if value <= self.goal if self.at_most else value >= self.goal:
            return f"goal met {words}"
        met = value <= self.must if self.at_most else value >= self.must
        return f"met {words}" if met else f"**missed** {words}"


BOUNDS: Final[Mapping[str, Sequence[Bound]]] = {
    "kafka": [Bound("rows_per_cpu_s", "MirrorSource", 0.8, 1.2)],
    "files": [Bound("rows_per_cpu_s", "Spark", 0.9, 1.2)],
    "converters": [Bound("rows_per_s", "bytes", 0.5, 0.7), Bound("rows_per_cpu_s", "bytes", 0.5, 0.7)],
    "postgres": [Bound("rows_per_s", "COPY of a file", 0.5, 0.8)],
    "delay": [
        Bound("cores", "Spark", 0.5, 0.4, at_most=True),
        Bound("median_ms", "", 1_500, 500, at_most=True),
        Bound("p99_ms", "", 3_000, 1_000, at_most=True),
    ],
    "idle": [Bound("cores", "", 0.1, 0.03, at_most=True)],
}
_TITLES: Final = {
    "kafka": "Topics to topics",
    "files": "Topics to parquet files",
    "converters": "Converters",
    "postgres": "Topics to a table",
    "delay": "Many partitions with little in each",
    "idle": "Units without records",
}
_NOTES: Final = {
    "files": """Files appear when they are rotated, 10 s after their first row by default: see `wall s`.

""",
    "converters": """Spark's tasks read each value by its schema, and write it to a topic as JSON. From topic
to topic a row costs little otherwise, so reading and making JSON bounds the rows per CPU second: compare
*avro*, which is made into JSON, with *bytes*, and *json-schema*, which is read from it, too, with *avro*.

""",
    "postgres": """*COPY of a file* is `psql` on the same machine, with the rows in text format already. The
database works as long for each row in any case. A pipeline reads and converts rows, too, on the same cores.

""",
}
"""Notes on each sink, which come before its table."""
_SECTION: Final = ".section.md"
_OF_LOTS: Final = {
    "start_s": "start s",
    "wall_s": "wall s",
    "rows_per_s": "rows/s",
    "rows_per_cpu_s": "rows per CPU s",
    "cpu_s_per_million": "CPU s per million",
}
_FIGURES: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": _OF_LOTS,
    "files": _OF_LOTS,
    "converters": _OF_LOTS,
    "postgres": _OF_LOTS,
    "delay": {
        "start_s": "start s",
        "median_ms": "median ms",
        "p99_ms": "99th ms",
        "longest_ms": "longest ms",
        "cores": "cores",
    },
    "idle": {"start_s": "start s", "cores": "cores"},
}
_EVERYWHERE: Final = {"resident_mb": "memory MB", "others_cores": "others' cores"}


def table(run: Mapping[str, Any]) -> str:
    """One scenario's run in Markdown."""
    scenario = run["scenario"]
    figures = {**_FIGURES[scenario], **_EVERYWHERE}
    bounds = BOUNDS[scenario]
    ratios = [f"{bound.figure.replace('_', ' ')} by {bound.base}" for bound in bounds if bound.base]
    heads = ["case", "contender", "n", *figures.values(), *ratios, "must"]
    lines = [f"| {' | '.join(heads)} |", f"|---|---|{'---:|' * (len(heads) - 3)}---|"]
    for case, contenders in _grouped(run["turns"]).items():
        for name, turns in contenders.items():
            results = [turn["result"] for turn in turns if "result" in turn]
            if not results:
                error = " ".join(turns[0]["error"].split())[:120].replace("|", "/")
                lines.append(f"| {case} | {name} | 0 | {error} {'| ' * (len(heads) - 4)}|")
                continue
            cells = [_cell(results, figure) for figure in figures]
            divided = [ratio(contenders, name, bound) for bound in bounds if bound.base]
            cells += ["" if value is None else f"{value:.2f}" for value in divided]
            count = f"{len(results)}" if len(results) == len(turns) else f"{len(results)} of {len(turns)}"
            lines.append(
                f"| {case} | {name} | {count} | {' | '.join([*cells, judged(contenders, name, bounds)])} |"
            )
    return "\n".join(lines) + "\n"


def ratio(contenders: Mapping[str, Sequence[Turn]], name: str, bound: Bound) -> float | None:
    """A contender's figure by that of the base, medians both; None if one has none."""
    base = bound.base
    if base == "bytes":
        # Each contender is compared with itself.
        base = f"{name.partition(', ')[0]}, bytes"
    mine, theirs = _median(contenders[name], bound.figure), _median(contenders.get(base, ()), bound.figure)
    return mine / theirs if mine is not None and theirs else None


def judged(contenders: Mapping[str, Sequence[Turn]], name: str, bounds: Sequence[Bound]) -> str:
    """Whether a row of ours meets its bounds; empty for others, and where there is nothing to divide by."""
    if not name.startswith(OURS) or name.endswith((", bytes", "json")):
        return ""
    verdicts = []
    for bound in bounds:
        value = ratio(contenders, name, bound) if bound.base else _median(contenders[name], bound.figure)
        if value is not None or not bound.base:
            verdicts.append(bound.verdict(value))
    return "; ".join(verdicts)


def disturbed(turns: Iterable[Turn]) -> list[Turn]:
    """The turns during which something else was at work on the machine."""
    return [turn for turn in turns if turn.get("result", {}).get("others_cores", 0) > BUSY_CORES]


def write_section(results: Path, name: str, title: str, command: str, table: str) -> None:
    """Leave a section of the page for ``document``."""
    text = f"## {title}\n\nBy `{command}`, {datetime.now(UTC).date()}.\n\n{table.rstrip()}\n"
    (results / f"{name}{_SECTION}").write_text(text)


def sections(results: Path) -> Sequence[str]:
    """The sections that other benchmarks have left."""
    return [file.read_text() for file in sorted(results.glob(f"*{_SECTION}"))]


def document(runs: Mapping[str, Mapping[str, Any]], more: Sequence[str] = ()) -> str:
    """The page of the documentation. ``more``: sections from other benchmarks."""
    first = next(iter(runs.values()))
    machine, versions = first["machine"], first["versions"]
    turns = [turn for run in runs.values() for turn in run["turns"]]
    busy = disturbed(turns)
    warning = (
        f"\n**This run was disturbed:** during {len(busy)} of {len(turns)} turns others used more than "
        f"{BUSY_CORES} cores. Its figures say little.\n"
        if busy
        else ""
    )
    parts = [
        f"## {_TITLES[scenario]}\n\nBy `{runs[scenario]['command']}`, {runs[scenario]['started'][:10]}.\n\n"
        f"{_NOTES.get(scenario, '')}{table(runs[scenario])}"
        for scenario in _TITLES
        if scenario in runs
    ]
    parts += more
    return f"""# Speed and cost

Written by `python -m benchmarks.throughput document` from the figures of the commands below.
{machine["processor"]}, {machine["cores"]} cores, {machine["memory_gib"]} GiB; Java {versions["java"]},
Spark {versions["spark"]}, Kafka and Connect {versions["kafka"]}, CPython {versions["python"]}.
{warning}
Contenders take turns on one broker, each in fresh processes, with the same rows. *Spark* is one Structured
Streaming query with a trigger each second and no limit of batches (at least once into Kafka).
*MirrorSource* is Kafka's own, on a stock Connect worker with the JVM options of Kafka's scripts (at least
once). *cooperator* is a Worker with one member and its defaults in `cooperator local` (exactly once). All
read committed records only.

A first lot of records is processed before the clock starts, and the measured lot is in the topic by then,
in a transaction that is committed at that moment: no producer is at work meanwhile. The clock stops when
the last row is visible at the sink, and then the rows are counted. `start s` is from the start of the
processes to the end of the first lot. CPU is user and system time of the contender's processes and all
their children, without broker, database and registry; memory is the largest sum of their resident sizes;
`others' cores` were used on the machine by none of these. Figures are medians of `n` repetitions, with the
range in brackets; ratios are of medians.

{chr(10).join(parts)}"""


def _grouped(turns: Sequence[Turn]) -> dict[str, dict[str, list[Turn]]]:
    found: dict[str, dict[str, list[Turn]]] = {}
    for turn in turns:
        found.setdefault(turn["case"], {}).setdefault(turn["contender"], []).append(turn)
    return found


def _values(turns: Iterable[Turn], figure: str) -> list[float | None]:
    return [turn["result"][figure] for turn in turns if "result" in turn]


def _median(turns: Iterable[Turn], figure: str) -> float | None:
    """None if there is no value, or if the median is endless."""
    return _middle(_values(turns, figure))


def _middle(values: Sequence[float | None]) -> float | None:
    if not values:
        return None
    middle = statistics.median([float("inf") if value is None else value for value in values])
    return None if middle == float("inf") else middle


def _cell(results: Sequence[Mapping[str, Any]], figure: str) -> str:
    values: list[float | None] = [result[figure] for result in results]
    known = [value for value in values if value is not None]
    middle = _middle(values)
    text = "endless" if middle is None else _number(middle)
    if len(known) > 1 and min(known) != max(known):
        text += f" ({_number(min(known))} to {_number(max(known))})"
    return text


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.3f}"
