#!/usr/bin/env python3
"""Rows per second and per CPU second, and delays, beside plain Spark, stock Connect and COPY by hand.

    python -m benchmarks.throughput kafka       topics to topics, beside Spark and MirrorSource
    python -m benchmarks.throughput files       topics to parquet files, beside Spark
    python -m benchmarks.throughput converters  json, json-schema and avro, beside bytes
    python -m benchmarks.throughput postgres    topics to a table, beside COPY by hand
    python -m benchmarks.throughput delay       100 partitions with 1,000 records a second in all
    python -m benchmarks.throughput idle        1,000 partitions without any
    python -m benchmarks.throughput all         all of these
    python -m benchmarks.throughput document    write the page of the documentation from their figures, and
                                                from those of benchmarks.executors and benchmarks.starts

``--short`` is for a look, some minutes for each. Contenders take turns on one broker, each in fresh
processes (``pipelines``). Each scenario writes all its repetitions to ``RESULTS/<scenario>.json``, turn by
turn, and prints a table with ratios inside the run. Run it on an idle machine: what others used meanwhile is
measured and shown.

Needs the project's test extra, and PostgreSQL for one scenario.
"""

import argparse
import json
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.pipelines.copying import CopyingConsumer, CopyOfFiles
from benchmarks.pipelines.job import ROOT, Contender, ContenderFailed, Converter, Sink
from benchmarks.pipelines.mirror import Mirror
from benchmarks.pipelines.ours import Ours
from benchmarks.pipelines.plain_spark import PlainSpark
from benchmarks.pipelines.records import Rows
from benchmarks.pipelines.report import disturbed, document, sections, table
from benchmarks.pipelines.surroundings import Surroundings, machine, surroundings, versions
from benchmarks.pipelines.turns import Limits, Load, Result, Trickle, delay, idle, throughput

PAGE: Final = ROOT / "docs" / "evidence" / "throughput.md"
RESULTS: Final = ROOT / "build" / "throughput"
_MB: Final = 1_000_000

Play = Callable[[Surroundings], Result]


@dataclass(frozen=True)
class Turn:
    """``case`` names what contenders of a comparison share; ``parameters`` are for the JSON."""

    case: str
    contender: str
    parameters: dict[str, Any]
    play: Play


def contenders(options: argparse.Namespace, *names: str) -> dict[str, Contender]:
    """The contenders of a scenario that the options leave."""
    known: dict[str, Callable[[], Contender]] = {
        "spark": PlainSpark,
        "mirror": lambda: Mirror(options.mirror_tasks),
        "cooperator": lambda: Ours(tasks=options.tasks),
        "consumer": CopyingConsumer,
    }
    return {name: known[name]() for name in names if name in options.contenders}


def loads(
    options: argparse.Namespace, sink: Sink, converters: Sequence[Converter] = ("bytes",)
) -> Iterator[Load]:
    """Lots of ``--records``, of fewer where these would be more than ``--max-mb``."""
    for converter in converters:
        for size_bytes in options.sizes:
            for partitions in options.partitions:
                rows = min(options.records, options.max_mb * _MB // size_bytes)
                warm = min(options.warm, options.max_mb * _MB // size_bytes)
                yield Load(sink, size_bytes, partitions, rows, warm, converter)


def copies(options: argparse.Namespace, sink: Sink, *names: str) -> Iterator[list[Turn]]:
    """The turns of each case: one for each contender."""
    for load in loads(options, sink):
        competing = list(contenders(options, *names).values())
        if sink == "postgres" and "copy" in options.contenders:
            competing.append(CopyOfFiles(Rows(load.size_bytes), load.warm, load.warm + load.rows))
        yield [_copy(each, load, _case(load), each.name, options) for each in competing]


def conversions(options: argparse.Namespace) -> Iterator[list[Turn]]:
    for sink in options.sinks:
        cases: dict[str, list[Turn]] = {}
        flawed: tuple[Converter, ...] = ("flawed json",) if sink == "kafka" else ()
        for load in loads(options, sink, ("bytes", "json", "json-schema", "avro", *flawed)):
            for name, contender in contenders(options, "spark", "cooperator").items():
                if name == "cooperator" or load.converter in ("bytes", "json"):
                    case = f"{'parquet' if sink == 'files' else 'Kafka'}, {_case(load)}"
                    label = f"{contender.name}, {load.converter}"
                    cases.setdefault(case, []).append(_copy(contender, load, case, label, options))
        yield from cases.values()


def trickles(options: argparse.Namespace) -> Iterator[list[Turn]]:
    trickle = Trickle(
        options.delay_partitions, options.rate, options.delay_bytes, options.delay_warm_s, options.seconds
    )
    case = f"{trickle.partitions} partitions, {trickle.rate:,} records/s of {trickle.size_bytes} B"

    def play(contender: Contender) -> Play:
        return lambda around: delay(around, contender, trickle, _limits(options))

    competing = contenders(options, "spark", "mirror", "cooperator").values()
    yield [Turn(case, each.name, asdict(trickle), play(each)) for each in competing]


def silences(options: argparse.Namespace) -> Iterator[list[Turn]]:
    units = options.units

    def play(contender: Contender) -> Play:
        return lambda around: idle(around, contender, units, options.seconds, _limits(options))

    competing = contenders(options, "spark", "mirror", "cooperator").values()
    yield [Turn(f"{units:,} units", each.name, {"units": units}, play(each)) for each in competing]


SCENARIOS: Final[dict[str, Callable[[argparse.Namespace], Iterator[list[Turn]]]]] = {
    "kafka": lambda options: copies(options, "kafka", "spark", "mirror", "cooperator"),
    "files": lambda options: copies(options, "files", "spark", "cooperator"),
    "converters": conversions,
    "postgres": lambda options: copies(options, "postgres", "consumer", "cooperator"),
    "delay": trickles,
    "idle": silences,
}


def run(scenario: str, options: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    """Play a scenario's turns, contender after contender, in each repetition beginning with another one.

    Results are written after each turn.
    """
    written: dict[str, Any] = {
        "scenario": scenario,
        "command": f"python -m benchmarks.throughput {shlex.join(sys.argv[1:])}",
        "started": _now(),
        "machine": machine(),
        "versions": versions(),
        "turns": [],
    }
    file = options.results / f"{scenario}.json"
    for turns in SCENARIOS[scenario](options):
        for repetition in range(options.repetitions):
            begin = repetition % len(turns) if turns else 0
            for turn in (*turns[begin:], *turns[:begin]):
                written["turns"].append(_played(turn, repetition, around))
                file.write_text(json.dumps(written, indent=1) + "\n")
    return written


def _played(turn: Turn, repetition: int, around: Surroundings) -> dict[str, Any]:
    about = {
        "case": turn.case,
        "contender": turn.contender,
        "repetition": repetition,
        "at": _now(),
        **turn.parameters,
    }
    try:
        about["result"] = turn.play(around)
    except (ContenderFailed, OSError, RuntimeError) as error:
        about["error"] = f"{type(error).__name__}: {error}"
        if not isinstance(error, ContenderFailed):
            traceback.print_exc()
    shown = json.dumps(about.get("result", about.get("error")))
    sys.stdout.write(f"{about['at'][11:19]} {turn.case}: {turn.contender}: {shown}\n")
    sys.stdout.flush()
    return about


def _copy(contender: Contender, load: Load, case: str, label: str, options: argparse.Namespace) -> Turn:
    return Turn(
        case, label, asdict(load), lambda around: throughput(around, contender, load, _limits(options))
    )


def _case(load: Load) -> str:
    return f"{load.rows:,} × {load.size_bytes:,} B, {load.partitions} partitions"


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(options.start_limit_s, options.work_limit_s)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_page(options: argparse.Namespace) -> int:
    """Write the page from what is in RESULTS. Refuses figures of a machine that was not idle."""
    files = {name: options.results / f"{name}.json" for name in SCENARIOS}
    runs = {name: json.loads(file.read_text()) for name, file in files.items() if file.is_file()}
    if not runs:
        sys.stderr.write(f"{options.results} has no figures: run a scenario first\n")
        return 1
    busy = disturbed(turn for written in runs.values() for turn in written["turns"])
    if busy and not options.although_busy:
        sys.stderr.write(
            f"during {len(busy)} turns others were at work on the machine: repeat these scenarios, or use "
            "--although-busy, which the page will say\n"
        )
        return 1
    options.page.write_text(document(runs, sections(options.results)))
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="SCENARIO")
    for name in (*SCENARIOS, "all"):
        _scenario_options(commands.add_parser(name, formatter_class=argparse.ArgumentDefaultsHelpFormatter))
    page = commands.add_parser("document")
    page.add_argument("--results", type=Path, default=RESULTS, help="where the scenarios wrote")
    page.add_argument("--page", type=Path, default=PAGE)
    page.add_argument("--although-busy", action="store_true", help="write it, with a warning")
    return parser


def _scenario_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--short", action="store_true", help="little data, one size, one repetition (options given here win)")
    add("--results", type=Path, default=RESULTS, help="where the figures are written")
    add("--directory", type=Path, help="where broker and contenders keep their files while it runs")
    add("--contenders", type=_words, default=_words("spark,mirror,cooperator,consumer,copy"))
    add("--repetitions", type=int, default=3)
    add("--records", type=int, default=1_000_000, help="of a measured lot")
    add("--warm", type=int, default=300_000, help="records of the first lot")
    add("--max-mb", type=int, default=1_000, help="the most that a lot is to have")
    add("--sizes", type=_numbers, default=[100, 500, 10_000], help="bytes of a value, 80 or more")
    add("--partitions", type=_numbers, default=[8, 100])
    add("--sinks", type=_words, default=["files", "kafka"], help="of converters")
    add("--tasks", type=int, default=1, help="tasksMax of ours")
    add("--mirror-tasks", type=int, default=2, help="tasks.max of MirrorSource")
    add("--delay-partitions", type=int, default=100)
    add("--rate", type=int, default=1_000, help="records a second")
    add("--delay-bytes", type=int, default=100)
    add("--delay-warm-s", type=float, default=30.0)
    add("--seconds", type=float, default=60.0, help="how long delays and silence are measured")
    add("--units", type=int, default=1_000)
    add("--start-limit-s", type=float, default=1_200.0)
    add("--work-limit-s", type=float, default=1_800.0)


SHORT: Final[dict[str, Any]] = {
    "repetitions": 1,
    "records": 200_000,
    "warm": 100_000,
    "sizes": [500],
    "partitions": [8],
    "sinks": ["files"],
    "delay_warm_s": 10.0,
    "seconds": 20.0,
    "units": 100,
    "start_limit_s": 300.0,
    "work_limit_s": 300.0,
}


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; with ``--short`` its values are the defaults."""
    options = parser().parse_args(arguments)
    if getattr(options, "short", False):
        changed = parser()
        for sub in changed._subparsers._group_actions[0].choices.values():  # type: ignore[union-attr]
            sub.set_defaults(**SHORT)
        options = changed.parse_args(arguments)
    return options


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(sys.argv[1:] if arguments is None else arguments)
    if options.command == "document":
        return write_page(options)
    # Otherwise contenders would outlive it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.results.mkdir(parents=True, exist_ok=True)
    names = list(SCENARIOS) if options.command == "all" else [options.command]
    with surroundings(options.directory, options.results / "failures") as around:
        for name in names:
            sys.stdout.write(f"\n{table(run(name, options, around))}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
