"""``cooperator simulate``."""

from pathlib import Path
from typing import Annotated

import typer

from cooperator.model import PolicyName
from cooperator.terminal.console import Console


def _example(wanted: bool) -> None:
    if wanted:
        from cooperator.scenarios.scenario import EXAMPLE

        typer.echo(EXAMPLE, nl=False)
        raise typer.Exit


def simulate(
    scenarios: Annotated[
        Path,
        typer.Argument(
            help="A file of scenarios, one JSON object a line: connectors and members at the start, and what "
            "happens to them. --example prints two; docs/scenarios.md describes every field and event."
        ),
    ],
    policy: Annotated[PolicyName, typer.Option(help="How to plan.")] = PolicyName.DEFAULT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Rounds and metrics, as lines.")
    ] = None,
    story: Annotated[
        str | None, typer.Option(metavar="TASK", help="Tell what happens to one task, such as orders-0.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Kafka beside Default, as a document in Markdown.")
    ] = False,
    informed: Annotated[
        bool,
        typer.Option(
            "--informed/--uninformed",
            help="Whether the operator knows which pods were ordered to come or go.",
        ),
    ] = True,
    example: Annotated[
        bool,
        typer.Option("--example", callback=_example, is_eager=True, help="Print scenarios to begin with."),
    ] = False,
) -> None:
    """Plan scenarios of joins, deaths and changes without a broker, and print what they cost."""
    from cooperator.scenarios import run, run_comparison, run_story
    from cooperator.scenarios.scenario import ScenarioError

    try:
        if compare:
            typer.echo(run_comparison(scenarios), nl=False)
        elif story is not None:
            typer.echo(run_story(scenarios, story, policy, informed))
        else:
            typer.echo(run(scenarios, policy, output, informed))
    except (ScenarioError, OSError) as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
