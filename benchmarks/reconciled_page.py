"""Writes docs/evidence/reconciliation.md and its picture from the results of ``reconciled_scale``."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.clusters.pictures import COLORS, finish

PAGE: Final = Path(__file__).parents[1] / "docs" / "evidence" / "reconciliation.md"
PICTURE: Final = PAGE.parent / "pictures" / "reconciliation.svg"
HEAD: Final = """# Changes without rounds

Written by `python -m benchmarks.reconciled_scale page` from its measurement, on 2 cores that other work
shared; the load average is in the table. The broker has its defaults, the leader is the real one, and light
members speak the real protocols and run nothing; all share the 2 cores. Times run from the desired connector
to the start of its last task at a member. A change is a connector with one task, the median of ten; its
instance and its task each concern one member.

"""
COLUMNS: Final = (
    "members, tasks",
    "in the group, without rounds",
    "all tasks run",
    "processor time for that: leader, members",
    "one more connector runs",
    "its reports and posts",
    "their bytes",
    "bytes in the logs",
    "load",
)
MIDDLE: Final = """
![Requests and bytes of a change, by what exists and by what changes](pictures/reconciliation.svg)

Requests do not grow with the group. A report names all tasks of its member, so its bytes depend on a
member's tasks; records of the leader log are those of the members that a change concerns.

In the largest group, one more connector with more tasks:

"""
MORE_COLUMNS: Final = (
    "tasks of the connector",
    "they run",
    "reports and posts",
    "their bytes",
    "bytes in the logs",
    "members",
)


def write(lines: Sequence[Mapping[str, Any]]) -> None:
    """Write the page and the picture; ``lines``: results, of which the last of each size counts. The page has
    the ``note`` that was added to one.
    """
    sizes = [*{line["members"]: line for line in lines}.values()]
    sizes.sort(key=lambda line: int(line["members"]))
    largest = sizes[-1]
    table = _table(COLUMNS, map(_cells, sizes))
    more = _table(MORE_COLUMNS, map(_more_cells, _changes(largest)))
    notes = "".join(f"\n{line['note']}\n" for line in sizes if "note" in line)
    PAGE.write_text(HEAD + table + notes + MIDDLE + more + _tail(largest))
    draw(sizes, PICTURE)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("| --- ", "|---")


def _changes(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [line["one_more"], *line["more"]]


def _cells(line: Mapping[str, Any]) -> Sequence[str]:
    everything, one = line["everything"], line["one_more"]
    return (
        f"{line['members']:,}, {line['tasks']:,}",
        f"after {line['joined_s']:.0f} s",
        f"after {everything['took_ms'] / 1000:.1f} s",
        f"{everything['leader_cpu_s']:.1f} s, {everything['members_cpu_s']:.1f} s",
        f"{one['took_ms'] / 1000:.2f} s ({max(line['took_ms']) / 1000:.2f} s at most)",
        f"{one['requests']:.0f}",
        f"{one['http_bytes'] / 1000:.1f} kB",
        f"{one['disk_bytes'] / 1000:.1f} kB",
        f"{line['load']:.0f}",
    )


def _more_cells(change: Mapping[str, Any]) -> Sequence[str]:
    return (
        f"{change['tasks']:,.0f}",
        f"after {change['took_ms'] / 1000:.2f} s",
        f"{change['requests']:,.0f}",
        f"{change['http_bytes'] / 1000:,.1f} kB",
        f"{change['disk_bytes'] / 1000:,.1f} kB",
        f"{change['members']:,.0f}",
    )


def _tail(line: Mapping[str, Any]) -> str:
    stops = sum(each["stops"] for each in (line["everything"], *_changes(line)))
    return f"""
In that group, {line["failures"]:,} reports got no answer and were sent again, and {stops:,.0f} tasks were
stopped to be placed elsewhere. At rest, each member reports once in a third of its lease.
"""


def draw(sizes: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw requests and bytes of a change, by what exists and by what changes, as SVG."""
    figure = Figure(figsize=(9, 3))
    exists, changes = figure.subplots(1, 2)
    tasks = [line["tasks"] for line in sizes]
    _curves(exists, tasks, [line["one_more"] for line in sizes])
    exists.set_xlabel("tasks that exist (40 on each member)")
    largest = _changes(sizes[-1])
    _curves(changes, [each["tasks"] for each in largest], largest)
    changes.set_xlabel(f"tasks that change, of {sizes[-1]['tasks']:,}")
    finish(figure, file)


def _curves(axes: Any, at: Sequence[float], changes: Sequence[Mapping[str, Any]]) -> None:
    curves = (
        ("requests", "requests", 1),
        ("http_bytes", "kB of reports and answers", 1_000),
        ("disk_bytes", "kB in the logs", 1_000),
    )
    for color, (name, label, unit) in zip(COLORS, curves, strict=False):
        axes.plot(at, [each[name] / unit for each in changes], "o-", color=color, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1, 10_000)
