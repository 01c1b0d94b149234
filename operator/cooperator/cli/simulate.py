"""``cooperator simulate``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cooperator.model import PolicyName
from cooperator.terminal.console import Console, write


class SimulatedPolicy(StrEnum):
    """The policies of Workers, and Kafka Streams' rule for comparison."""

    DEFAULT = "Default"
    KIP415 = "Kip415"
    EAGER = "Eager"
    STREAMS = "Streams"


def _example(wanted: bool) -> None:
    if wanted:
        from cooperator.scenarios.scenario import EXAMPLE

        write(EXAMPLE, end="")
        raise typer.Exit


def simulate(
    scenarios: Annotated[
        Path,
        typer.Argument(
            help=(
                "File of scenarios, one JSON object per line: initial connectors and members, and events. "
                "--example prints two; docs/scenarios.md describes every field and event."
            )
        ),
    ],
    policy: Annotated[
        SimulatedPolicy,
        typer.Option(
            help=(
                "Scheduling policy. Streams is Default with Kafka Streams' rule for tasks with state: "
                "2 warm-ups, and a look at them every 10 minutes."
            )
        ),
    ] = SimulatedPolicy.DEFAULT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for rounds and metrics, as JSON lines.")
    ] = None,
    story: Annotated[
        str | None, typer.Option(metavar="TASK", help="Tell what happens to one task, such as orders-0.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare Kafka and Default, as a Markdown document.")
    ] = False,
    informed: Annotated[
        bool,
        typer.Option(
            "--informed/--uninformed",
            help="Whether the operator knows which pods were ordered to start or stop.",
        ),
    ] = True,
    example: Annotated[
        bool,
        typer.Option("--example", callback=_example, is_eager=True, help="Print example scenarios."),
    ] = False,
) -> None:
    """Simulate scenarios of joins, departures and changes without a broker, and print their costs."""
    from cooperator.scenarios import run, run_comparison, run_story
    from cooperator.scenarios.scenario import ScenarioError

    probing = policy is SimulatedPolicy.STREAMS
    planned_by = PolicyName.DEFAULT if probing else PolicyName(policy.value)
    try:
        if compare:
            write(run_comparison(scenarios), end="")
        elif story is not None:
            write(run_story(scenarios, story, planned_by, informed, probing))
        else:
            write(run(scenarios, planned_by, output, informed, probing))
    except (ScenarioError, OSError) as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
