"""The part of the article's page on stock sinks, and its picture, from the figures of a run."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.clusters.pictures import COLORS, finish
from benchmarks.clusters.sinks import EVENTS, EVERY_S, PARTITIONS, SHARING, TASKS

Run = Mapping[str, Any]
_PICTURE: Final = "article-sinks.svg"


def longest_s(run: Run, contender: str, sharing: str, event: str, moved: bool) -> list[float]:
    """The longest gap (s) of one turn after the other, of partitions whose task moved or did not move;
    without turns that had none."""
    found = []
    for turn in run["turns"]:
        if turn["contender"] == contender and "failed" not in turn:
            played = turn["sinks"][sharing]["events"].get(event, {"gaps_ms": ()})
            gaps = [gap_ms for _, gap_ms, did_move in played["gaps_ms"] if did_move == moved]
            found += [max(gaps) / 1000] if gaps else []
    return found


def text(run: Run) -> str:
    """The section, with a table for each contender."""
    load, machine, versions = run["load"], run["machine"], run["versions"]
    contenders = dict.fromkeys(turn["contender"] for turn in run["turns"] if "failed" not in turn)
    head = (
        f"By `{run['command']}` ({run['begun']}; {machine['processor']}, {machine['cores']} cores, load "
        f"{machine['load_before']} before; Kafka {versions['kafka']}). A sink of {TASKS} tasks reads "
        f"{PARTITIONS} partitions, each of which gets a record every {EVERY_S * 1000:.0f} ms. In each of "
        f"{run['sizes']['repetitions']} turns, the same workers run one sink after the other, in an order "
        f"drawn from seed {run['sizes']['seed']}: with Kafka's default, with `CooperativeStickyAssignor` "
        "alone, and with `group.protocol=consumer`. The delay of the workers is "
        f"{load['delay_ms'] / 1000:.0f} s; consumers have Kafka's own time-outs (a session of 45 s). A gap "
        "is the time between two batches of a partition, as the sink's tasks got them: median of the turns' "
        "longest (worst)."
    )
    parts = [f"\n## A stock sink, as its records see it\n\n{head}\n"]
    for contender in contenders:
        for moved, title in (
            (False, "of tasks that no event touched"),
            (True, "of tasks that moved or restarted"),
        ):
            parts.append(f"Longest gap in seconds of partitions {title}, `{contender}`:\n")
            parts.append(_table(run, contender, moved))
        parts.append(_counts(run, contender))
    parts.append(f"![Longest gap of partitions of tasks that no event touched](pictures/{_PICTURE})\n")
    return "\n".join([*parts, _failures(run)])


def _table(run: Run, contender: str, moved: bool) -> str:
    rows = [f"| event | {' | '.join(SHARING)} |", f"|---|{'---:|' * len(SHARING)}"]
    for event in (each.title for each in EVENTS.values()):
        cells = [_cell(longest_s(run, contender, sharing, event, moved)) for sharing in SHARING]
        if any(cell != "—" for cell in cells):
            rows.append(f"| {event} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _cell(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({max(values):.1f})" if values else "—"


def _counts(run: Run, contender: str) -> str:
    turns = [turn for turn in run["turns"] if turn["contender"] == contender and "failed" not in turn]

    def total(sharing: str, field: str) -> int:
        return sum(turn["sinks"][sharing][field] for turn in turns)

    said = "; ".join(
        f"{sharing}: {total(sharing, 'skipped')} skipped, {total(sharing, 'repeated')} repeated"
        for sharing in SHARING
    )
    broken = dict.fromkeys(
        f"With {sharing}, a turn broke off: {turn['sinks'][sharing]['failed']}.\n"
        for turn in turns
        for sharing in SHARING
        if "failed" in turn["sinks"][sharing]
    )
    return "\n".join([f"Records over all events and turns: {said}.\n", *broken])


def _failures(run: Run) -> str:
    return "".join(
        f"\n{turn['contender']} failed: {turn['failed']}\n" for turn in run["turns"] if "failed" in turn
    )


def draw(run: Run, folder: Path) -> None:
    """The longest gaps of partitions that no event touched, by event, of the first contender."""
    contender = next((turn["contender"] for turn in run["turns"] if "failed" not in turn), None)
    figure = Figure(figsize=(9, 3.5))
    axes = figure.subplots()
    titles = [event.title for event in EVENTS.values()]
    for offset, (sharing, color) in enumerate(zip(SHARING, COLORS, strict=False)):
        found = [longest_s(run, str(contender), sharing, title, moved=False) for title in titles]
        heights = [statistics.median(values) if values else 0.0 for values in found]
        places = [place + 0.27 * offset for place in range(len(titles))]
        axes.bar(places, heights, width=0.25, label=sharing, color=color)
    axes.set_yscale("log")
    axes.set_ylabel("longest gap, seconds")
    axes.set_xticks([place + 0.27 for place in range(len(titles))], list(EVENTS))
    finish(figure, folder / _PICTURE)
