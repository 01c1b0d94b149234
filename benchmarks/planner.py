#!/usr/bin/env python3
"""The leader's decision beside Kafka Connect's own: metadata of all members in, assignments of all out.

    python -m benchmarks.planner [--sizes 900x3,10000x100] [--json FILE] [--document FILE]

Both sides play the same incarnations of a group, round by round (``incarnations``), Kafka's classes on a warm
JVM, ours in a Python process of its own. They must assign and revoke the same numbers of items, or the run
fails. They take turns of a few incarnations, so that a busy machine slows both. Figures are medians over the
incarnations without the first third, and a ratio is ours by Kafka's. The ratio of the shortest times stands
beside it: where the two differ much, something disturbed the run. Work without a counterpart in Kafka is
timed separately: the record of the leader log, and our leader's work once the assignments are delivered, when
nobody waits for it.

Needs the project's test extra.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from benchmarks.incarnations import ROUNDS, TASKS_PER_CONNECTOR, GroupIncarnation, Timed, play_kafka
from benchmarks.kafka_leader import KafkaLeader
from cooperator.artifacts import KAFKA_VERSION
from cooperator.leader.process import prepare_process
from cooperator.wire import encode_leader

SIZES: Final = ((900, 3), (1_000, 10), (10_000, 100), (30_000, 300), (100_000, 1_000), (100_000, 10))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The upper limit of a row's ratio, and the target, if there is one."""

    must: float
    goal: float | None = None


def bounds(tasks: int, members: int, name: str) -> Bounds:
    """The bounds of one row. With very many tasks per member, Kafka's removals from lists are quadratic."""
    if tasks < 10_000:
        return Bounds(2)
    goal = 1 / 3 if tasks >= 100_000 else 1 / 2
    if tasks // members > 2_000 and name != "cold start":
        return Bounds(1 / 100)
    return Bounds(1, goal)


@dataclass(slots=True)
class Played:
    """The incarnations of one side."""

    incarnations: list[Sequence[Timed]] = field(default_factory=list)

    def of_round(self, name: str) -> list[Timed]:
        """The rounds of this name without the first third of the incarnations, which are the warm-up."""
        return [
            incarnation[ROUNDS.index(name)]
            for incarnation in self.incarnations[len(self.incarnations) // 3 :]
        ]

    def times_ms(self, name: str) -> list[float]:
        return [timed.nanos / 1e6 for timed in self.of_round(name)]

    def afterwards_ms(self, name: str) -> float:
        """The median of the work after the round."""
        return statistics.median(timed.afterwards_nanos / 1e6 for timed in self.of_round(name))

    def changes(self) -> list[tuple[int, int]]:
        """Assigned and revoked items of each round; the same in all incarnations."""
        return [(timed.assigned, timed.revoked) for timed in self.incarnations[-1]]


@dataclass(frozen=True, slots=True)
class OurIncarnation:
    """Our process's report: the rounds, the time of the leader log's record, the memory's peak so far."""

    rounds: Sequence[Timed]
    record_ms: float
    peak_mb: float


def play_ours(tasks: int, members: int) -> OurIncarnation:
    """Play one incarnation of our side, in this process."""
    group = GroupIncarnation(tasks, members)
    rounds = list(group.rounds())
    began = time.perf_counter_ns()
    encode_leader(group.memory)
    record_ms = (time.perf_counter_ns() - began) / 1e6
    return OurIncarnation(rounds, record_ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def sizes_for(tasks: int, members: int) -> tuple[int, int, int]:
    """How often the two sides take turns, and how many incarnations Kafka's side and ours play in a turn.

    There are enough to be warm: a short incarnation right after the other side's finds nothing in the
    processor's caches. There are few where one takes a minute.
    """
    if tasks // members > 2_000:
        return 3, 1, 3
    in_turn = max(1, 30_000 // tasks)
    return 12 if in_turn == 1 else 6, in_turn, in_turn


def measure(tasks: int, members: int) -> dict[str, Any]:
    """Measure one size, with both sides in turn. Raises RuntimeError if their results differ."""
    turns, theirs_in_turn, ours_in_turn = sizes_for(tasks, members)
    kafka, us, records_ms, peak_mb = Played(), Played(), [], 0.0
    # A process of its own has its own memory peak.
    spawn = multiprocessing.get_context("spawn")
    with KafkaLeader() as leader, spawn.Pool(1, prepare_process) as process:
        for _ in range(turns):
            for _ in range(theirs_in_turn):
                kafka.incarnations.append(list(play_kafka(leader, tasks, members)))
            for _ in range(ours_in_turn):
                incarnation = process.apply(play_ours, (tasks, members))
                us.incarnations.append(incarnation.rounds)
                records_ms.append(incarnation.record_ms)
                peak_mb = incarnation.peak_mb
    if kafka.changes() != us.changes():
        raise RuntimeError(f"{tasks}x{members}: Kafka {kafka.changes()}, ours {us.changes()}")
    rows = []
    for name in ROUNDS:
        theirs, ours, bound = kafka.times_ms(name), us.times_ms(name), bounds(tasks, members, name)
        rows.append(
            {
                "round": name,
                "kafka_ms": statistics.median(theirs),
                "ours_ms": statistics.median(ours),
                "ratio": statistics.median(ours) / statistics.median(theirs),
                "ratio_of_shortest": min(ours) / min(theirs),
                "afterwards_ms": us.afterwards_ms(name),
                "must": bound.must,
                "goal": bound.goal,
            }
        )
    return {
        "tasks": tasks,
        "members": members,
        "rows": rows,
        "leader_log_record_ms": statistics.median(records_ms),
        "peak_memory_mb": peak_mb,
    }


def verdict(ratio: float, bound: float | None) -> str:
    """Whether a row meets its bound."""
    if bound is None:
        return ""
    return f"{'met' if ratio <= bound else '**missed**'} (≤ {bound:.3g})"


def table(sizes: Sequence[Mapping[str, Any]]) -> str:
    """All sizes in Markdown."""
    lines = [
        "| tasks / members | round | Kafka ms | ours ms | ratio | of the shortest | must | goal |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for size in sizes:
        for row in size["rows"]:
            shape = f"{size['tasks']:,} / {size['members']:,}"
            figures = f"{row['kafka_ms']:.2f} | {row['ours_ms']:.2f} | {row['ratio']:.3f}"
            judged = " | ".join(verdict(row["ratio"], row[kind]) for kind in ("must", "goal"))
            lines.append(
                f"| {shape} | {row['round']} | {figures} | {row['ratio_of_shortest']:.3f} | {judged} |"
            )
    lines += [
        "",
        "| tasks / members | leader log record ms | afterwards ms | peak memory MB |",
        "|---|---:|---:|---:|",
    ]
    for size in sizes:
        afterwards_ms = max(row["afterwards_ms"] for row in size["rows"])
        figures = f"{size['leader_log_record_ms']:.1f} | {afterwards_ms:.1f} | {size['peak_memory_mb']:.0f}"
        lines.append(f"| {size['tasks']:,} / {size['members']:,} | {figures} |")
    return "\n".join(lines) + "\n"


def document(sizes: Sequence[Mapping[str, Any]]) -> str:
    """The page of the documentation."""
    where = f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}"
    return f"""# How long a decision takes

Written by `python -m benchmarks.planner --document docs/evidence/speed.md` ({where}).
Kafka is `IncrementalCooperativeAssignor` of Connect {KAFKA_VERSION} on a warm JVM. Ours is the whole leader:
it reads the reports, makes the plan and encodes the assignments. Every connector has
{TASKS_PER_CONNECTOR} tasks. In the round `taken up` all members report their assignments for the first time;
in `no change` only offset and epoch differ.

Kafka and cooperator take turns; each runs several incarnations of a group, in a process of its own. Times
are medians over all incarnations but the first third. `ratio` is our time divided by Kafka's: below 1, ours
is faster. The next column has the ratio of the shortest times; where the two ratios differ much, other work
kept the machine busy. `must` and `goal` judge `ratio`. The peak memory is of the whole Python process,
including the members that the benchmark plays in it. No ratio includes `afterwards`: once the assignments
are delivered, and while the members start and stop tasks, the leader decides whether another round is needed
and prepares for the members' next reports. The table has the longest time of all rounds.
[planner.md](../planner.md#how-long-it-takes) explains what bounds these times.

![The time of a round by the number of tasks, 100 tasks a member](pictures/speed.svg)

{table(sizes)}"""


def draw(sizes: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw time by number of tasks, both axes logarithmic, for the sizes with 100 tasks per member."""
    growing = [size for size in sizes if size["tasks"] == 100 * size["members"]]
    figure = Figure(figsize=(9, 4))
    parts = figure.subplots(1, 2, sharey=True)
    for axes, side, title in ((parts[0], "kafka_ms", "Kafka"), (parts[1], "ours_ms", "cooperator")):
        for number, name in enumerate(ROUNDS):
            times = [size["rows"][number][side] for size in growing]
            axes.loglog([size["tasks"] for size in growing], times, marker="o", markersize=3, label=name)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("tasks")
        axes.grid(visible=True, which="both", linewidth=0.3)
    parts[0].set_ylabel("ms")
    parts[1].legend(fontsize=7, frameon=False)
    figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")


def parse_sizes(text: str) -> list[tuple[int, int]]:
    """``900x3,10000x100`` as numbers of tasks and members. Raises argparse.ArgumentTypeError."""
    sizes = []
    for size in text.split(","):
        tasks, _, members = size.partition("x")
        if not (
            tasks.isdecimal() and members.isdecimal() and int(tasks) >= TASKS_PER_CONNECTOR and int(members)
        ):
            raise argparse.ArgumentTypeError(f"{size!r}: give tasks and members, such as 900x3")
        sizes.append((int(tasks), int(members)))
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=parse_sizes, default=list(SIZES), help="tasks x members, with commas")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--document", type=Path, help="write the page, and the picture beside it")
    options = parser.parse_args()
    measured = []
    for tasks, members in options.sizes:
        measured.append(measure(tasks, members))
        sys.stdout.write(table(measured[-1:]) + "\n")
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    if options.document:
        options.document.write_text(document(measured))
        draw(measured, options.document.parent / "pictures" / "speed.svg")


if __name__ == "__main__":
    main()
