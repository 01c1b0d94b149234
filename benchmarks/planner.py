#!/usr/bin/env python3
"""The leader's decision beside Kafka Connect's own: metadata of all members in, assignments of all out.

    python -m benchmarks.planner [--sizes 900x3,10000x100x5] [--json FILE] [--document FILE]

Both sides play the same incarnations of a group, round by round (``incarnations``), Kafka's classes on a warm
JVM, ours in a Python process of its own. They must assign and revoke the same numbers of items, or the run
fails. They take turns of a few incarnations, so that a busy machine slows both. Figures are medians over the
incarnations without the first third, and a ratio is ours by Kafka's. The ratio of the shortest times stands
beside it: where the two differ much, something disturbed the run. Where our process leads several groups (the
third number of a size), they take turns round by round, and every one of them counts; Kafka's process has one
group, as a Connect worker has. Work without a counterpart in Kafka is
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
from typing import Any, Final, NamedTuple

from matplotlib.figure import Figure

from benchmarks.incarnations import ROUNDS, TASKS_PER_CONNECTOR, GroupIncarnation, Timed, play_kafka
from benchmarks.kafka_leader import KafkaLeader
from cooperator.artifacts import KAFKA_VERSION
from cooperator.leader.process import prepare_process
from cooperator.wire import encode_leader


class Size(NamedTuple):
    """``groups``: how many of this size our process leads at once."""

    tasks: int
    members: int
    groups: int = 1

    def __str__(self) -> str:
        several = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.tasks:,} / {self.members:,}{several}"


SIZES: Final = (
    *(Size(900, 3), Size(1_000, 10), Size(10_000, 100), Size(30_000, 300)),
    *(Size(100_000, 1_000), Size(100_000, 10)),
    *(Size(1_000, 10, 5), Size(10_000, 100, 5), Size(100_000, 1_000, 5), Size(100_000, 10, 5)),
)


def must(size: Size, name: str) -> float:
    """The upper limit of a row's ratio. With very many tasks per member, Kafka's removals from lists are
    quadratic."""
    if size.tasks < 10_000:
        return 2
    if size.tasks // size.members > 2_000 and name != "cold start":
        return 1 / 20
    return 1 / 2 if size.tasks >= 100_000 else 1


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
    """Our process's report: each group's rounds, the time of the leader log's record, the memory's peak."""

    rounds: Sequence[Sequence[Timed]]
    record_ms: float
    peak_mb: float


def play_ours(size: Size) -> OurIncarnation:
    """Play one incarnation of each group of our side, in this process; they take turns round by round."""
    groups = [GroupIncarnation(size.tasks, size.members, number) for number in range(size.groups)]
    in_turn = zip(*(group.rounds() for group in groups), strict=True)
    rounds = list(zip(*in_turn, strict=True))
    began = time.perf_counter_ns()
    encode_leader(groups[0].memory)
    record_ms = (time.perf_counter_ns() - began) / 1e6
    return OurIncarnation(rounds, record_ms, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def turns_for(size: Size) -> tuple[int, int, int]:
    """Returns how often the two sides take turns, and how many incarnations Kafka's side and ours play in a
    turn.

    There are enough to be warm: a short incarnation right after the other side's finds nothing in the
    processor's caches. There are few where one takes a minute.
    """
    if size.tasks // size.members > 2_000:
        return 3, 1, 3
    in_turn = max(1, 30_000 // size.tasks)
    return 12 if in_turn == 1 else 6, in_turn, in_turn


def measure(size: Size) -> dict[str, Any]:
    """Measure one size, with both sides in turn. Raises RuntimeError if their results differ."""
    turns, theirs_in_turn, ours_in_turn = turns_for(size)
    kafka, us, records_ms, peak_mb = Played(), Played(), [], 0.0
    # A process of its own has its own memory peak.
    spawn = multiprocessing.get_context("spawn")
    with KafkaLeader() as leader, spawn.Pool(1, prepare_process) as process:
        for _ in range(turns):
            for _ in range(theirs_in_turn):
                kafka.incarnations.append(list(play_kafka(leader, size.tasks, size.members)))
            for _ in range(ours_in_turn):
                incarnation = process.apply(play_ours, (size,))
                us.incarnations += incarnation.rounds
                records_ms.append(incarnation.record_ms)
                peak_mb = incarnation.peak_mb
    if kafka.changes() != us.changes():
        raise RuntimeError(f"{size}: Kafka {kafka.changes()}, ours {us.changes()}")
    rows = []
    for name in ROUNDS:
        theirs, ours = kafka.times_ms(name), us.times_ms(name)
        rows.append(
            {
                "round": name,
                "kafka_ms": statistics.median(theirs),
                "ours_ms": statistics.median(ours),
                "ratio": statistics.median(ours) / statistics.median(theirs),
                "ratio_of_shortest": min(ours) / min(theirs),
                "afterwards_ms": us.afterwards_ms(name),
                "must": must(size, name),
            }
        )
    return {
        "size": size,
        "rows": rows,
        "leader_log_record_ms": statistics.median(records_ms),
        "peak_memory_mb": peak_mb,
    }


def verdict(ratio: float, bound: float) -> str:
    """Whether a row meets its bound."""
    return f"{'met' if ratio <= bound else '**missed**'} (≤ {bound:.3g})"


def table(sizes: Sequence[Mapping[str, Any]]) -> str:
    """All sizes in Markdown."""
    lines = [
        "| tasks / members | round | Kafka ms | ours ms | ratio | of the shortest | must |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for size in sizes:
        for row in size["rows"]:
            figures = f"{row['kafka_ms']:.2f} | {row['ours_ms']:.2f} | {row['ratio']:.3f}"
            judged = f"{row['ratio_of_shortest']:.3f} | {verdict(row['ratio'], row['must'])}"
            lines.append(f"| {size['size']} | {row['round']} | {figures} | {judged} |")
    lines += [
        "",
        "| tasks / members | leader log record ms | afterwards ms | peak memory MB |",
        "|---|---:|---:|---:|",
    ]
    for size in sizes:
        afterwards_ms = max(row["afterwards_ms"] for row in size["rows"])
        figures = f"{size['leader_log_record_ms']:.1f} | {afterwards_ms:.1f} | {size['peak_memory_mb']:.0f}"
        lines.append(f"| {size['size']} | {figures} |")
    return "\n".join(lines) + "\n"


def document(sizes: Sequence[Mapping[str, Any]]) -> str:
    """The page of the documentation."""
    where = f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}"
    return f"""# Time of a decision

Written by `python -m benchmarks.planner --document docs/evidence/speed.md` ({where}).
Kafka is `IncrementalCooperativeAssignor` of Connect {KAFKA_VERSION} on a warm JVM. Ours is the whole leader:
it reads the reports, makes the plan and encodes the assignments. Every connector has
{TASKS_PER_CONNECTOR} tasks. In the round `cold start` the connectors are created, in a group that runs
nothing yet; in `taken up` all members report their assignments for the first time; in `no change` only offset
and epoch differ. Where a row names several groups, one process of ours leads them, and they take turns round
by round; Kafka leads one group per process, and the row compares with that.

Kafka and cooperator take turns; each runs several incarnations of a group, in a process of its own. Times
are medians over all incarnations but the first third. `ratio` is our time divided by Kafka's: below 1, ours
is faster. The next column has the ratio of the shortest times; where the two ratios differ much, other work
kept the machine busy. `must` judges `ratio`. The peak memory is of the whole Python process,
including the members that the benchmark plays in it. No ratio includes `afterwards`: once the assignments
are delivered, and while the members start and stop tasks, the leader decides whether another round is needed
and predicts the members' next reports; before a cold start it decides the same. The table has the longest
time of all rounds. [planner.md](../planner.md#how-long-it-takes) explains what bounds these times.

![The time of a round by the number of tasks, 100 tasks a member](pictures/speed.svg)

{table(sizes)}"""


def _has_100_tasks_a_member(size: Size) -> bool:
    return size == Size(100 * size.members, size.members)


def draw(sizes: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw time by number of tasks, both axes logarithmic, for the sizes with 100 tasks per member."""
    growing = [measured for measured in sizes if _has_100_tasks_a_member(measured["size"])]
    tasks = [measured["size"].tasks for measured in growing]
    figure = Figure(figsize=(9, 4))
    parts = figure.subplots(1, 2, sharey=True)
    for axes, side, title in ((parts[0], "kafka_ms", "Kafka"), (parts[1], "ours_ms", "cooperator")):
        for number, name in enumerate(ROUNDS):
            times = [measured["rows"][number][side] for measured in growing]
            axes.loglog(tasks, times, marker="o", markersize=3, label=name)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("tasks")
        axes.grid(visible=True, which="both", linewidth=0.3)
    parts[0].set_ylabel("ms")
    parts[1].legend(fontsize=7, frameon=False)
    figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")


def parse_sizes(text: str) -> list[Size]:
    """``900x3,10000x100x5`` as sizes. Raises argparse.ArgumentTypeError."""
    sizes = []
    for size in text.split(","):
        numbers = [int(number) for number in size.split("x") if number.isdecimal()]
        if len(numbers) != size.count("x") + 1 or len(numbers) not in (2, 3) or not all(numbers):
            raise argparse.ArgumentTypeError(f"{size!r}: give tasks, members and groups, such as 900x3x1")
        if numbers[0] < TASKS_PER_CONNECTOR:
            raise argparse.ArgumentTypeError(f"{size!r}: give at least {TASKS_PER_CONNECTOR} tasks")
        sizes.append(Size(*numbers))
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=parse_sizes, default=list(SIZES), help="tasks x members x groups, with commas"
    )
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--document", type=Path, help="write the page, and the picture beside it")
    options = parser.parse_args()
    measured = []
    for size in options.sizes:
        measured.append(measure(size))
        sys.stdout.write(table(measured[-1:]) + "\n")
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    if options.document:
        options.document.write_text(document(measured))
        draw(measured, options.document.parent / "pictures" / "speed.svg")


if __name__ == "__main__":
    main()
