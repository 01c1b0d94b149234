#!/usr/bin/env python3
"""Throughput by the number of executors, each of which may use a part of a core.

    python -m benchmarks.executors --executors 1,2 --cores 0.3 --repetitions 3

A Worker with one member has its executors on a standalone cluster of Spark's own kind on this machine. Turns
are interleaved, each with fresh processes, as in ``benchmarks.throughput``: a first lot warms them up, then
each executor gets a cgroup with a processor quota, and the measured lot becomes visible. Driver, broker and
cluster have no quota. The result is the ratio of rows per second to those of the least number of executors.

Needs root and the cgroup controller ``cpu``, version 1 or 2.
"""

import argparse
import json
import shlex
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.pipelines.cgroups import Cgroup, usable
from benchmarks.pipelines.job import ContenderFailed, Job, Running
from benchmarks.pipelines.ours import Ours
from benchmarks.pipelines.report import write_section
from benchmarks.pipelines.surroundings import machine, surroundings, versions
from benchmarks.pipelines.turns import Limits, Load, throughput
from benchmarks.throughput import RESULTS
from tests.runtime.spark_servers import StandaloneCluster, executors

_CONFIG: Final = {"files": {"rotate.interval.ms": "0"}, "kafka": {}, "postgres": {}}
"""Files of a batch appear at its end; otherwise the last rows would wait for the rotation, with any number of
executors."""
_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""As in members. With a part of a core, compilers of the second tier would take it for minutes."""


class OnExecutors:
    """Ours with so many executors, each of which may use ``cores`` once the clock has started."""

    guarantee = "exactly once"

    def __init__(self, count: int, cores: float) -> None:
        self.name = f"{count} executor{'s' if count > 1 else ''}"
        self._count, self._cores = count, cores

    def start(self, job: Job) -> Running:
        cluster = StandaloneCluster(job.directory, cores=self._count)
        conf = {**cluster.conf(self._count), "spark.executor.extraJavaOptions": _JAVA}
        try:
            member = Ours(config=_CONFIG[job.sink], spark=conf).start(job)
        except BaseException:
            cluster.close()
            raise
        return _Capped(member, cluster, self._count, self._cores)


class _Capped:
    """A member with its cluster; implements ``Running``."""

    def __init__(self, member: Running, cluster: StandaloneCluster, count: int, cores: float) -> None:
        self._member, self._cluster, self._count, self._cores = member, cluster, count, cores
        self._cgroups: list[Cgroup] = []
        self.throttled_s: list[float] = []

    def roots(self) -> Sequence[int]:
        return [*self._member.roots(), *self._cluster.pids()]

    def beside(self) -> Sequence[int]:
        return self._member.beside()

    def check(self) -> None:
        self._member.check()

    def go(self) -> None:
        there = executors()
        if len(there) != self._count:
            raise ContenderFailed(f"{len(there)} executors are there, and {self._count} are to be measured")
        for executor in there:
            cgroup = Cgroup(f"cooperator-{executor.pid}")
            self._cgroups.append(cgroup)
            cgroup.limit(self._cores)
            cgroup.add(executor.pid)

    def stop(self) -> None:
        for cgroup in self._cgroups:
            sys.stdout.write(f"  an executor was throttled for {cgroup.throttled_s():.1f} s\n")
        self._member.stop()
        self._cluster.close()
        for cgroup in self._cgroups:
            cgroup.close()


def table(turns: Sequence[Mapping[str, Any]]) -> str:
    """Medians by case and number of executors, and the ratio to the first of the case."""
    lines = [
        "| case | executors | n | rows/s | rows/s by the least | CPU s per million | others' cores |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    grouped: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for turn in turns:
        if "result" in turn:
            by_name = grouped.setdefault(turn["case"], {})
            by_name.setdefault(turn["contender"], []).append(turn["result"])
    for case, contenders in grouped.items():
        base = 0.0
        for name in sorted(contenders):
            results = contenders[name]
            rate = _median(results, "rows_per_s")
            base = base or rate
            lines.append(
                f"| {case} | {name} | {len(results)} | {rate:,.0f} | {rate / base:.2f} "
                f"| {_median(results, 'cpu_s_per_million'):.1f} | {_median(results, 'others_cores'):.2f} |"
            )
    return "\n".join(lines) + "\n"


def _median(results: Sequence[Mapping[str, Any]], figure: str) -> float:
    return float(statistics.median(result[figure] for result in results))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--executors", default="1,2", help="numbers of executors, the least first")
    parser.add_argument("--cores", type=float, default=0.3, help="of each executor")
    parser.add_argument("--sinks", default="files", help="files, kafka, or both")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--records", type=int, default=400_000, help="of the measured lot")
    parser.add_argument("--warm", type=int, default=400_000, help="records of the first lot")
    parser.add_argument("--size", type=int, default=500, help="bytes of a value")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--limit-s", type=float, default=600.0)
    options = parser.parse_args(arguments)
    if reason := usable():
        sys.stderr.write(f"{reason}\n")
        return 1
    options.results.mkdir(parents=True, exist_ok=True)
    counts = [int(number) for number in options.executors.split(",")]
    turns: list[dict[str, Any]] = []
    written: dict[str, Any] = {
        "command": f"python -m benchmarks.executors {shlex.join(sys.argv[1:])}",
        "machine": machine(),
        "versions": versions(),
        "turns": turns,
    }
    limits = Limits(options.limit_s, options.limit_s)
    with surroundings(None, options.results / "failures") as around:
        for sink in options.sinks.split(","):
            load = Load(sink, options.size, options.partitions, options.records, options.warm)
            case = f"to {sink}, {load.rows:,} × {load.size_bytes} B, {load.partitions} partitions"
            for repetition in range(options.repetitions):
                order = counts if repetition % 2 == 0 else counts[::-1]
                for count in order:
                    contender = OnExecutors(count, options.cores)
                    turn = {"case": case, "contender": contender.name, **asdict(load)}
                    try:
                        turn["result"] = throughput(around, contender, load, limits)
                    except ContenderFailed as error:
                        turn["error"] = str(error)
                    turns.append(turn)
                    sys.stdout.write(f"{case}: {contender.name}: {turn.get('result', turn.get('error'))}\n")
                    sys.stdout.flush()
                    (options.results / "executors.json").write_text(json.dumps(written, indent=1) + "\n")
    sys.stdout.write(f"\n{table(turns)}")
    title = f"Executors that may use {options.cores:g} cores each"
    write_section(options.results, "executors", title, written["command"], table(turns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
