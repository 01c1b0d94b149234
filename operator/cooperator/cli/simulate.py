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
) -> None:
    """Plan scenarios of joins, deaths and changes without a broker, and print what they cost."""
    from cooperator.simulate import run
    from cooperator.simulate.scenario import ScenarioError

    try:
        typer.echo(run(scenarios, policy, output))
    except (ScenarioError, OSError) as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
