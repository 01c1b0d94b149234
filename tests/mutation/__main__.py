"""The commands record, draw, run and report (see the package)."""

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.mutation.mutants import draw, room_of
from tests.mutation.plugin import Selection
from tests.mutation.probe import Slots
from tests.mutation.report import report
from tests.mutation.tree import Tree, adopt_orphans, serve_a_parent
from tests.mutation.verdicts import read_progress
from tests.mutation.work import ROOT, Work, try_mutant


def read_ids(path: Path) -> list[str]:
    """Reads a list, or what ``pytest --collect-only -q`` printed: without its summary."""
    lines = path.read_text().splitlines()
    return [line for line in lines if "::" in line or (line and " " not in line)]


def record(work: Work, options: argparse.Namespace, words: list[str]) -> int:
    stayed = read_ids(options.stayed)
    if options.before:
        members = Selection(stayed)
        left = [test for test in read_ids(options.before) if test not in members]
    else:
        left = read_ids(options.left)
    work.lines.mkdir(parents=True, exist_ok=True)
    for name, ids in (("stayed", stayed), ("left", left)):
        (work.folder / f"{name}.txt").write_text("".join(f"{test}\n" for test in ids))
    tree = Tree(work.project, work.recorded)
    files = (path.relative_to(tree.path).as_posix() for path in (tree.path / "operator").rglob("*.py"))
    sources = {file: (tree.path / file).read_text() for file in files if room_of(file)}
    (work.lines / "index").write_text(str(Slots.of_files(sources)))
    for path in work.lines.iterdir():
        if path not in (work.tests, work.lines / "index"):
            path.unlink()
    adopt_orphans()
    return tree.record([*stayed, *left], work.lines, words)


def draw_mutants(work: Work, options: argparse.Namespace) -> int:
    slots, left = work.slots(), Selection(work.group("left"))
    by_any = 0
    for test, _, lines in work.records():
        if test in left:
            by_any |= int.from_bytes(lines, "little")
    executed, sources = by_any.to_bytes(slots.size, "little"), work.sources()
    lines_of = {
        file: {line for line in range(source.count("\n") + 2) if executed[slots.first[file] + line]}
        for file, source in sources.items()
    }
    mutants = draw(sources, lines_of, options.seed, options.count)
    work.mutants.write_text(json.dumps([asdict(mutant) for mutant in mutants], indent=1))
    statements = sum(map(len, lines_of.values()))
    say(f"{len(mutants)} mutants in {statements} statements that are executed by tests which left")
    return 0


def run(work: Work, options: argparse.Namespace, words: list[str]) -> int:
    """Try the mutants, each in a tree of a worker; no mutant is begun after ``--minutes``."""
    mutants = work.drawn()
    tests = work.tests_by_mutant(mutants)
    until = time.monotonic() + options.minutes * 60
    attempt = partial(try_mutant, work, until, options.most_s, words)
    context = get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, initializer=serve_a_parent) as pool:
        waiting = {pool.submit(attempt, mutant, tests[mutant.digest]): mutant for mutant in mutants}
        for number, done in enumerate(as_completed(waiting), 1):
            mutant, seconds = waiting[done], done.result()
            say(
                f"{number} of {len(mutants)}: {mutant.file}:{mutant.line}, {mutant.operator}: {seconds:.0f} s"
            )
    return 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    own, _, words = ("\0".join(arguments)).partition("\0--\0")
    parser = argparse.ArgumentParser("python -m tests.mutation", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--project", type=Path, default=ROOT, help="the clone whose commit is tried")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser(
        "record", help="run all tests and record the statements that each executes"
    )
    recording.add_argument("--stayed", type=Path, required=True)
    left = recording.add_mutually_exclusive_group(required=True)
    left.add_argument("--left", type=Path)
    left.add_argument("--before", type=Path)
    drawing = commands.add_parser("draw", help="draw mutants in what tests that left execute")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--count", type=int, required=True)
    running = commands.add_parser("run", help="run tests against the mutants")
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--minutes", type=float, default=240, help="begin no mutant after that")
    running.add_argument(
        "--most-s", type=float, default=1200, help="recorded seconds of a mutant's tests, by group"
    )
    commands.add_parser("report", help="print the tables")
    options = parser.parse_args(own.split("\0"))
    work = Work(options.work, options.project)
    words_of_pytest = words.split("\0") if words else []
    match options.command:
        case "record":
            return record(work, options, words_of_pytest)
        case "draw":
            return draw_mutants(work, options)
        case "run":
            return run(work, options, words_of_pytest)
    mutants = work.drawn()
    for line in report(mutants, read_progress(work.results), work.tests_by_mutant(mutants)):
        say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
