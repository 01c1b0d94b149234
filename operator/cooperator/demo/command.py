"""The command ``cooperator demo``."""

from pathlib import Path
from typing import Annotated

import typer

from cooperator.local.options import DEFAULT_STATE, errors_said
from cooperator.terminal.console import Console, Screen


def demo(
    directory: Annotated[
        Path,
        typer.Option("--directory", help="Directory of the demo; files of an earlier demo are removed."),
    ] = DEFAULT_STATE / "demo",
) -> None:
    """Run the demo on real input: files to Kafka to parquet on three members, one of which is killed."""
    from cooperator.demo.run import DemoFailed, run_demo

    console = Console()
    screen = Screen()
    with errors_said(console):
        try:
            code = run_demo(directory, console, screen)
        except DemoFailed as error:
            console.error(str(error))
            code = 1
        except KeyboardInterrupt:
            console.error("interrupted; all processes have ended")
            code = 130
    raise typer.Exit(code)
