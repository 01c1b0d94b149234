#!/usr/bin/env python3
"""The leader's decision beside Kafka Connect's own: metadata of all members in, assignments of all out.

    python benchmarks/speed.py [--sizes 900x3,10000x100] [--json FILE] [--document FILE]

Both play the same life of a group, round by round, Kafka's classes on a warm JVM, ours in a Python of its
own, and must hand out and revoke the same numbers of items, or the run fails. Figures are medians over the
lives after the first third; a ratio is ours by Kafka's. What members do between rounds is not timed. The
leader log's record, which Kafka has no counterpart of, is timed apart.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from cooperator.artifacts import KAFKA_VERSION
from cooperator.group import JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.process import prepare_process
from cooperator.leader.reports import ReportReader
from cooperator.leader.state import LeaderSettings
from cooperator.model import ClusterConfig, ConnectorConfig, Epoch, Memory, SessionKey, TaskId
from cooperator.wire import (
    AgentReport,
    Assignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_leader,
    encode_metadata,
)
from kafka_leader import KafkaLeader

TASKS_PER_CONNECTOR: Final = 10
DELAY_MS: Final = 300_000
ROUNDS: Final = (
    "cold start",
    "taken up",
    "no change",
    "member joins",
    "follow-up",
    "member lost",
    "hold ended",
)
SIZES: Final = ((900, 3), (1_000, 10), (10_000, 100), (30_000, 300), (100_000, 1_000), (100_000, 10))
URL: Final = "http://worker:8083/"


@dataclass(frozen=True, slots=True)
class Timed:
    """One round of one life: how long, and what it changed (numbers of items)."""

    nanos: int
    assigned: int
    revoked: int


@dataclass(slots=True)
class Worker:
    """What one member runs, as its own records say it."""

    owned: tuple[TaskId, ...] = ()
    applied: Epoch | None = None

    def apply(self, share: Assignment) -> None:
        revoked = frozenset(share.revoked)
        if revoked:
            self.owned = tuple(task for task in self.owned if task not in revoked)
        self.owned += share.assigned
        assert share.agent is not None
        self.applied = share.agent.epoch


class Life:
    """One life of a group that our leader leads. ``rounds`` plays and times it."""

    def __init__(self, tasks: int, members: int) -> None:
        self._config = _config(tasks)
        self._machine = LeaderMachine(LeaderSettings(url=URL, max_group_bytes=2**31))
        self._reader = ReportReader()
        self._workers = {f"member-{i:05d}": Worker() for i in range(members)}
        self._now_ms = 1_000_000
        self._generation = 0
        self._offset = 100
        self.memory = Memory()
        self._machine.handle(ev.LeadTaken(self.memory, self._config), self._now_ms)

    def rounds(self) -> Iterator[Timed]:
        """In the order of ``ROUNDS``."""
        yield self._round()
        yield self._round()
        yield self._round()
        newcomer = f"member-{len(self._workers):05d}"
        self._workers[newcomer] = Worker()
        yield self._round()
        yield self._round()
        del self._workers[newcomer]
        yield self._round()
        self._now_ms += DELAY_MS + 1
        yield self._round()

    def _round(self) -> Timed:
        self._generation += 1
        # The offset is the one thing that differs from round to round where nothing changes.
        self._offset += 1
        self._config = replace(self._config, offset=self._offset)
        members = tuple(
            JoinedMember(member_id, None, self._metadata(member_id, worker))
            for member_id, worker in self._workers.items()
        )
        leader = JoinedMember("leader", None, self._leader_metadata())
        round_ = Round(self._generation, Protocol.SESSIONED.value, "leader", (leader, *members))
        began = time.perf_counter_ns()
        assignments = self._decide(round_)
        nanos = time.perf_counter_ns() - began
        self._machine.handle(ev.Delivered(self._generation), self._now_ms)
        assigned = revoked = 0
        for member_id, data in assignments.items():
            if member_id in self._workers:
                share = decode_assignment(data)
                assigned += len(share.assigned)
                revoked += len(share.revoked)
                self._workers[member_id].apply(share)
        return Timed(nanos, assigned, revoked)

    def _decide(self, round_: Round) -> Mapping[str, bytes]:
        reports = self._reader.read(round_)
        instructions = self._machine.handle(
            ev.RoundReady(
                round_.generation,
                round_.protocol,
                round_.leader_id,
                reports.members,
                reports.idle_ids,
                reports.highest_offset,
                self._config,
                reports.metadata_bytes,
            ),
            self._now_ms,
        )
        answer: Mapping[str, bytes] = {}
        for instruction in instructions:
            if isinstance(instruction, ev.SaveMemory):
                self.memory = instruction.memory
                self._machine.saved(instruction.memory)
            elif isinstance(instruction, ev.Answer):
                answer = instruction.assignments
                self._reader.expect(self._machine.state.members, instruction.written)
        return answer

    def _metadata(self, member_id: str, worker: Worker) -> bytes:
        report = AgentReport(Role.WORKER, member_id, "life-1", applied=worker.applied)
        allocation = Assignment(0, "", URL, self._offset, assigned=worker.owned)
        return encode_metadata(Metadata(URL, self._offset, allocation, report), Protocol.SESSIONED)

    def _leader_metadata(self) -> bytes:
        report = AgentReport(Role.LEADER, "leader", "leader")
        return encode_metadata(Metadata(URL, self._offset, None, report), Protocol.SESSIONED)


def _config(tasks: int) -> ClusterConfig:
    one: Mapping[str, str] = {}
    connector = ConnectorConfig(one, tasks=(one,) * TASKS_PER_CONNECTOR)
    names = (f"connector-{i:05d}" for i in range(tasks // TASKS_PER_CONNECTOR))
    return ClusterConfig(100, dict.fromkeys(names, connector), SessionKey(b"key", "HmacSHA256", 1_000_000))


def play_kafka(kafka: KafkaLeader, tasks: int, members: int) -> Iterator[Timed]:
    """One life of the group that Kafka leads, in the order of ``ROUNDS``."""
    running: dict[str, dict[TaskId, None]] = {f"member-{i:05d}": {} for i in range(members)}
    now_ms, generation = 1_000_000, 0
    kafka.life(DELAY_MS)
    kafka.configure(_config(tasks).task_counts())

    def round_() -> Timed:
        nonlocal generation
        generation += 1
        decision = kafka.decide(
            [(member_id, generation, items) for member_id, items in running.items()],
            now_ms=now_ms,
            generation=generation,
            completed=generation - 1,
            leader="member-00000",
            process="leader",
            offset=generation,
        )
        for member_id, share in decision.shares.items():
            for task in share.revoked:
                running[member_id].pop(task, None)
            running[member_id].update(dict.fromkeys(share.assigned))
        return Timed(
            decision.nanos,
            sum(len(share.assigned) for share in decision.shares.values()),
            sum(len(share.revoked) for share in decision.shares.values()),
        )

    yield round_()
    yield round_()
    yield round_()
    newcomer = f"member-{members:05d}"
    running[newcomer] = {}
    yield round_()
    yield round_()
    del running[newcomer]
    yield round_()
    now_ms += DELAY_MS + 1
    yield round_()


@dataclass(frozen=True, slots=True)
class Played:
    """All lives of one side. ``record_ms`` and ``peak_mb``: of ours only."""

    lives: Sequence[Sequence[Timed]]
    record_ms: float = 0.0
    peak_mb: float = 0.0

    def median_ms(self, name: str) -> float:
        """Without the first third of the lives, in which everything warms up."""
        timed = [life[ROUNDS.index(name)].nanos for life in self.lives[len(self.lives) // 3 :]]
        return statistics.median(timed) / 1e6

    def changes(self) -> list[tuple[int, int]]:
        """Per round what is assigned and revoked; the same in all lives."""
        return [(timed.assigned, timed.revoked) for timed in self.lives[-1]]


def play_ours(tasks: int, members: int, lives: int) -> Played:
    """Our side, in this process."""
    prepare_process()
    played, records = [], []
    for _ in range(lives):
        group = Life(tasks, members)
        played.append(list(group.rounds()))
        began = time.perf_counter_ns()
        encode_leader(group.memory)
        records.append(time.perf_counter_ns() - began)
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Played(played, statistics.median(records) / 1e6, peak_kb / 1024)


def lives_for(tasks: int, members: int) -> tuple[int, int]:
    """How many lives Kafka's side and ours play: enough to be warm, few where one takes a minute."""
    per_member = tasks // members
    if per_member > 2_000:
        return 3, 9
    return max(12, 180_000 // tasks), max(9, 54_000 // tasks)


def measure(tasks: int, members: int) -> dict[str, Any]:
    """One size: both sides in turn, compared. Raises RuntimeError when they do not do the same."""
    for_kafka, for_us = lives_for(tasks, members)
    with KafkaLeader() as leader:
        kafka = Played([list(play_kafka(leader, tasks, members)) for _ in range(for_kafka)])
    # In a process of its own, so that the peak of its memory is its own.
    with multiprocessing.get_context("spawn").Pool(1) as process:
        us = process.apply(play_ours, (tasks, members, for_us))
    if kafka.changes() != us.changes():
        raise RuntimeError(f"{tasks}x{members}: Kafka {kafka.changes()}, ours {us.changes()}")
    rows = []
    for name in ROUNDS:
        theirs, ours = kafka.median_ms(name), us.median_ms(name)
        rows.append({"round": name, "kafka_ms": theirs, "ours_ms": ours, "ratio": ours / theirs})
    return {
        "tasks": tasks,
        "members": members,
        "rows": rows,
        "leader_log_record_ms": us.record_ms,
        "peak_memory_mb": us.peak_mb,
    }


def table(sizes: Sequence[Mapping[str, Any]]) -> str:
    """All sizes in Markdown."""
    lines = ["| tasks / members | round | Kafka ms | ours ms | ratio |", "|---|---|---:|---:|---:|"]
    for size in sizes:
        for row in size["rows"]:
            shape = f"{size['tasks']:,} / {size['members']:,}"
            figures = f"{row['kafka_ms']:.2f} | {row['ours_ms']:.2f} | {row['ratio']:.3f}"
            lines.append(f"| {shape} | {row['round']} | {figures} |")
    lines += ["", "| tasks / members | leader log record ms | peak memory MB |", "|---|---:|---:|"]
    for size in sizes:
        figures = f"{size['leader_log_record_ms']:.1f} | {size['peak_memory_mb']:.0f}"
        lines.append(f"| {size['tasks']:,} / {size['members']:,} | {figures} |")
    return "\n".join(lines) + "\n"


def document(sizes: Sequence[Mapping[str, Any]]) -> str:
    """The page of the documentation."""
    where = f"{platform.machine()}, {os.cpu_count()} cores, CPython {platform.python_version()}"
    return f"""# How long a decision takes

Written by `python benchmarks/speed.py --document docs/speed.md` ({where}).
Kafka is `IncrementalCooperativeAssignor` of Connect {KAFKA_VERSION} on a warm JVM; ours is the whole
leader: reports read, plan made, shares encoded. Every connector has {TASKS_PER_CONNECTOR} tasks. In
`taken up` all members report for the first time what they were given; in `no change` only offset and epoch
differ. Medians; a ratio below 1 is faster than Kafka. The peak is of the whole Python process, with the
members that the benchmark plays in it.
What bounds it is said in [planner.md](planner.md#how-long-it-takes).

![The time of a round by the number of tasks, 100 tasks a member](pictures/speed.svg)

{table(sizes)}"""


def draw(sizes: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Time by number of tasks, both axes logarithmic, of the sizes with 100 tasks a member."""
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
