"""Measures the CPU time of each command of ``cooperator local`` that changes or shows resources.

    python -m benchmarks.commands --repetitions 6

Each command runs beside a daemon with a Worker without members. CPU time is about what a user of an idle
machine waits. Other processes slow a process down, and none makes it faster: the shortest time counts, and
the time of the libraries alone, which every command imports, tells how busy the machine was.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import typer

from cooperator.local.layout import StateDir
from tests.harness.answers import COMMANDS, call, daemon

LIBRARIES = "import dataclasses, json, pydantic, rich.console, typer, yaml"


def measure(state: StateDir, command: str, repetitions: int) -> Iterator[float]:
    for number in range(repetitions):
        if command == "delete" and number:
            call(state, "apply")
        yield call(state, command)[0]


def main(repetitions: int = 6) -> None:
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder)) as state:
        taken = {
            "importing the libraries alone": [call(state, "get", LIBRARIES)[0] for _ in range(repetitions)],
            **{f"`{name}`": [*measure(state, name, repetitions)] for name in COMMANDS},
        }
    typer.echo(f"| CPU seconds of {repetitions} calls | shortest | median | longest |\n|---|---:|---:|---:|")
    for name, seconds in taken.items():
        typer.echo(f"| {name} | {min(seconds):.2f} | {median(seconds):.2f} | {max(seconds):.2f} |")


if __name__ == "__main__":
    typer.run(main)
