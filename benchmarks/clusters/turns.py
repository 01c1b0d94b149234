"""Turns: each contender runs on one broker in fresh processes, one after the other, and its figures are
written as soon as its turn is over."""

import itertools
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import typer

from benchmarks.clusters.contenders import CONTENDERS, Cluster, Load
from benchmarks.clusters.timeline import Cost, costs, doubled, rounds
from benchmarks.pipelines.surroundings import machine, versions
from cooperator.local.broker import EmbeddedBroker
from tests.harness.connect_worker import write_worker_classes

_NOT_SHOWN: Final = (
    "--results",
    "--page",
    "--contenders",
    "--repetitions",
    "--members",
    "--deaths",
    "--takeovers",
    "--blocks",
    "--heartbeat-ms",
)
"""Options with a value that the command of a page lacks: paths of this machine, and what turns tell."""


@dataclass(frozen=True)
class Sizes:
    """The extent of a run. ``away_s``: the length of a worker's absence. ``calm_s``: the pause without a
    start or stop that ends each part."""

    connectors: int = 90
    tasks: int = 10
    repetitions: int = 3
    seed: int = 1
    away_s: float = 60.0
    calm_s: float = 10.0
    contenders: tuple[str, ...] = tuple(CONTENDERS)


Contenders = Mapping[str, Callable[[str, str, Path, Load], Cluster]]
Play = Callable[[Cluster, Sizes], dict[str, Any]]
Run = dict[str, Any]


def measure(
    name: str,
    play: Play,
    sizes: Sizes,
    results: Path,
    load: Load,
    contenders: Contenders = CONTENDERS,
    merge: bool = False,
) -> None:
    """Let the contenders take turns, and write every turn to ``results`` as soon as it is over.

    ``merge`` adds the turns to those of an earlier run. Raises typer.BadParameter if that run had other sizes
    or another load.
    """
    # Otherwise contenders would outlive it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    results.mkdir(parents=True, exist_ok=True)
    file = results / f"{name}.json"
    run: dict[str, Any] = {**head(), "sizes": asdict(sizes), "load": asdict(load), "turns": []}
    if merge and file.exists():
        run = merged(json.loads(file.read_text()), run)
    random = Random(sizes.seed)
    with _broker() as (broker, root):
        write_worker_classes(broker.bootstrap_servers, root)
        for number in range(sizes.repetitions):
            for contender in random.sample(sizes.contenders, len(sizes.contenders)):
                began = time.monotonic()
                directory = root / f"{contender.replace(' ', '-')}-{number}"
                cluster = contenders[contender](contender, broker.bootstrap_servers, directory, load)
                try:
                    cluster.start()
                    found = play(cluster, sizes)
                    found["doubled"] = doubled(cluster.journal.poll().lines)
                except (AssertionError, RuntimeError, OSError) as error:
                    found = {"failed": f"{type(error).__name__}: {error}"}
                    shutil.copytree(directory, results / "failures" / directory.name, dirs_exist_ok=True)
                finally:
                    cluster.stop()
                took_s = round(time.monotonic() - began, 1)
                run = with_turn(run, contender, {"took_s": took_s, **found})
                file.write_text(json.dumps(run, indent=1))
                typer.echo(f"{contender}, turn {number + 1}: {took_s:.0f} s {_said(found)}")


def merged(earlier: Run, run: Run) -> Run:
    """The earlier run, to which turns of ``run`` can be added.

    Raises typer.BadParameter if their figures cannot be compared.
    """
    for part in ("sizes", "load"):
        of_turns = {"contenders": 0, "repetitions": 0}
        before, now = ({**each[part], **of_turns} for each in (earlier, run))
        if before != now:
            raise typer.BadParameter(
                f"--merge: the earlier run has other {part}, {before}; use other --results"
            )
    return earlier


def with_turn(run: Run, contender: str, found: Run) -> Run:
    """``run`` with one more turn of ``contender``; its sizes and its command tell of all turns."""
    repetition = sum(turn["contender"] == contender for turn in run["turns"])
    turns = [*run["turns"], {"contender": contender, "repetition": repetition, **found}]
    names = list(dict.fromkeys(turn["contender"] for turn in turns))
    repetitions = max(turn["repetition"] for turn in turns) + 1
    return {
        **run,
        "sizes": {**run["sizes"], "contenders": names, "repetitions": repetitions},
        "turns": turns,
    }


def command_of(words: Sequence[str]) -> str:
    """The command of a page, from the words of this machine's one."""
    shown, skips = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        if not skips and word != "--merge" and name not in _NOT_SHOWN:
            shown.append(word)
        skips = name in _NOT_SHOWN and not equals
    return " ".join(["python -m benchmarks.article", *shown])


def head() -> dict[str, Any]:
    """The beginning of a file of figures."""
    return {
        "begun": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_of(sys.argv[1:]),
        "machine": machine(),
        "versions": versions(),
    }


def costs_of(cluster: Cluster, since_ms: float) -> list[Cost]:
    """The rounds of ``cluster`` since then, from the log of its broker."""
    log = cluster.directory.parent / "broker" / "broker.log"
    files = [path for path in (log.with_name("broker.log.1"), log) if path.exists()]
    lines = itertools.chain.from_iterable(path.read_text(errors="replace").splitlines() for path in files)
    found = [each for each in rounds(lines, cluster.group_id) if each.begin_ms >= since_ms]
    return costs(found, cluster.journal.poll().lines)


def _said(found: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value}" for name, value in found.items() if isinstance(value, int | float | str)
    )


@contextmanager
def _broker() -> Iterator[tuple[EmbeddedBroker, Path]]:
    root = Path(tempfile.mkdtemp(prefix="cooperator-article-"))
    # A broker for tests is small; here it must not be what bounds the contenders.
    broker = EmbeddedBroker(root / "broker", java_options=("-Xmx1g", "-XX:TieredStopAtLevel=4"))
    try:
        # On a busy machine this takes minutes.
        broker.start(timeout_s=300)
        yield broker, root
    finally:
        broker.kill()
        shutil.rmtree(root, ignore_errors=True)
