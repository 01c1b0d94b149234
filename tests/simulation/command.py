"""The command line of the simulation."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from cooperator.model import PolicyName
from tests.simulation import mutations, planted, ranges
from tests.simulation.reconciled_mutations import RECONCILED
from tests.simulation.run import NOTHING, Cuts, Outcome, run
from tests.simulation.shrink import shrink
from tests.simulation.story import line_of, replay, story

SAY_EVERY = 500
"""A long run reports its progress every so many seeds."""


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if a promise was broken, or a planted bug was not found."""
    if arguments[:1] == ["mutations"]:
        return _mutations(arguments[1:])
    options = _parser().parse_args(arguments)
    if options.replay is not None:
        cuts = Cuts(frozenset(options.without), frozenset(options.drop), options.until)
        lines = replay(options.replay, cuts, options.story, options.policy, options.reconciling)
        for line in lines:
            say(line)
        return 1 if lines[-1].startswith("broken") else 0
    seeds = range(options.start, options.start + options.seeds)
    if options.record is not None:
        return _recorded(seeds, options.jobs, options.record, options.for_s)
    return _seeds(seeds, options.jobs, options.policy, options.reconciling)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def command_of(
    seed: int,
    cuts: Cuts = NOTHING,
    policy: PolicyName = PolicyName.DEFAULT,
    reconciling: float = 0.0,
) -> str:
    """The command that replays exactly this history."""
    words = ["python -m tests.simulation --replay", str(seed)]
    words += ["--policy", policy] if policy is not PolicyName.DEFAULT else []
    words += ["--reconciling", str(reconciling)] if reconciling else []
    words += [word for kind in sorted(cuts.kinds) for word in ("--without", kind)]
    words += [word for index in sorted(cuts.faults) for word in ("--drop", str(index))]
    if cuts.until_ms is not None:
        words += ["--until", str(cuts.until_ms)]
    return " ".join(words)


def explain(seed: int, policy: PolicyName = PolicyName.DEFAULT, reconciling: float = 0.0) -> list[str]:
    """A failing seed, shrunk: what is broken, the story of its faults, and how to replay it."""
    outcome = run(seed, policy=policy, reconciling=reconciling)
    if outcome.broken is None:
        return [f"seed {seed} breaks nothing"]
    cuts, shortest = shrink(outcome)
    lines = [f"seed {seed}: {outcome.broken}", f"shrunk to {len(shortest.faults)} faults:"]
    lines += [line_of(line) for line in story(shortest) if line.what.startswith(("FAULT", "(over", "BROKEN"))]
    lines += [
        f"the whole history: {command_of(seed, NOTHING, policy, reconciling)}",
        f"the short one:     {command_of(seed, cuts, policy, reconciling)}",
    ]
    lines.append("add --story TASK or --story MEMBER to follow one of them")
    return lines


def _seeds(seeds: range, jobs: int, policy: PolicyName, reconciling: float) -> int:
    began = time.perf_counter()
    failed: list[int] = []
    rests: list[int] = []
    for count, (seed, broken, rest_ms) in enumerate(_outcomes(seeds, jobs, policy, reconciling), 1):
        if broken:
            failed.append(seed)
            say(f"seed {seed}: {broken}")
        else:
            rests.append(rest_ms)
        if count % SAY_EVERY == 0:
            say(f"up to seed {seed}: {len(failed)} failed")
    for seed in failed[:3]:
        for line in explain(seed, policy, reconciling):
            say(line)
    took_s = time.perf_counter() - began
    longest_s = max(rests, default=0) / 1000
    say(f"{len(seeds)} seeds in {took_s:.1f} s, {len(failed)} failed; longest way to rest: {longest_s:.1f} s")
    return 1 if failed else 0


def _recorded(seeds: range, jobs: int, record: Path, for_s: float) -> int:
    """Run what of ``seeds`` this code has not run yet, in pieces, until ``for_s`` are over."""
    until_s, code = time.monotonic() + for_s, ranges.code()
    done = ranges.read(record, code)
    failed = sum(piece.failed for piece in done)
    for piece in ranges.left(seeds, done):
        if time.monotonic() >= until_s:
            break
        broken = [(s, what) for s, what, _ in _outcomes(piece, jobs, PolicyName.DEFAULT, 0.0) if what]
        for seed, what in broken:
            say(f"seed {seed}: {what}")
        ranges.note(record, ranges.Piece(code, piece.start, piece.stop, len(broken)))
        failed += len(broken)
    to_do = sum(map(len, ranges.left(seeds, ranges.read(record, code))))
    say(
        f"code {code}: {len(seeds) - to_do} of {len(seeds)} seeds have run, {failed} failed, {to_do} are left"
    )
    return 1 if failed else 0


def _mutations(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation mutations", description=mutations.__doc__
    )
    parser.add_argument("names", nargs="*", help="which ones; all if none is named")
    parser.add_argument("--limit", type=int, default=planted.LIMIT, help="seeds to try for each")
    parser.add_argument("--jobs", type=int, default=1, help="processes to look for them in")
    parser.add_argument("--record", type=Path, metavar="FILE", help="skip what FILE has, and add to it")
    options = parser.parse_args(arguments)
    assert set(RECONCILED) <= {mutation.name for mutation in planted.ALL}
    record: Path = options.record or Path(os.devnull)
    said_before = record.read_text().splitlines() if record.exists() else []
    done = {line.partition(":")[0] for line in said_before}
    names = [n for n in options.names or [each.name for each in planted.ALL] if n not in done]
    missed = 0
    with get_context("spawn").Pool(options.jobs) as pool:
        for said, found in pool.imap(_sought, [(name, options.limit) for name in names]):
            say(said)
            with record.open("a") as notes:
                notes.write(f"{said}\n")
            missed += not found
    say(f"{len(names)} planted bugs, {missed} not found")
    return 1 if missed else 0


def _sought(wanted: tuple[str, int]) -> tuple[str, bool]:
    name, limit = wanted
    mutation = next(mutation for mutation in planted.ALL if mutation.name == name)
    found = planted.find(mutation, limit)
    if found is None:
        return f"{name}: NOT FOUND within {limit} seeds: {mutation.bug}", False
    count, outcome = found
    how = str(outcome.broken).splitlines()[0][:150]
    return f"{name}: found after {count} seeds: {how}", True


Summary = tuple[int, str, int]


def _summary(policy: PolicyName, reconciling: float, seed: int) -> Summary:
    outcome: Outcome = run(seed, policy=policy, reconciling=reconciling)
    return seed, str(outcome.broken or ""), outcome.rest_after_ms


def _outcomes(seeds: Iterable[int], jobs: int, policy: PolicyName, reconciling: float) -> Iterator[Summary]:
    summary = partial(_summary, policy, reconciling)
    if jobs <= 1:
        yield from map(summary, seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(summary, seeds, chunksize=4)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many histories to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="skip what this code has run by FILE, and note what runs"
    )
    parser.add_argument(
        "--for-s", type=float, default=1e9, help="with --record: begin no piece after this (s)"
    )
    parser.add_argument(
        "--policy", type=PolicyName, default=PolicyName.DEFAULT, help="the Worker's: Default or Eager"
    )
    parser.add_argument(
        "--reconciling",
        type=float,
        default=0.0,
        help="the share of our incarnations that offer reconciliation without rounds",
    )
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one history and tell its story")
    parser.add_argument("--story", metavar="TASK", help="with --replay: of this task or member only")
    parser.add_argument("--without", action="append", default=[], metavar="KIND", help="no faults of a kind")
    parser.add_argument("--drop", action="append", type=int, default=[], metavar="N", help="not fault N")
    parser.add_argument("--until", type=int, metavar="MS", help="faults end here")
    return parser
