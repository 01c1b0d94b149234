"""``cooperator simulate``."""

from pathlib import Path
from typing import Annotated

import typer

from cooperator.local.console import Console
from cooperator.model import PolicyName


def simulate(
    scenarios: Annotated[Path, typer.Argument(help="A file of scenarios, one JSON object a line.")],
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
    told: Annotated[
        bool,
        typer.Option(
            "--told/--untold", help="Whether the operator knows which pods were ordered to come or go."
        ),
    ] = True,
) -> None:
    """Plan scenarios of joins, deaths and changes without a broker, and print what they cost."""
    from cooperator.simulate import run, run_comparison, run_story
    from cooperator.simulate.scenario import ScenarioError

    try:
        if compare:
            typer.echo(run_comparison(scenarios), nl=False)
        elif story is not None:
            typer.echo(run_story(scenarios, story, policy, told))
        else:
            typer.echo(run(scenarios, policy, output, told))
    except (ScenarioError, OSError) as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
