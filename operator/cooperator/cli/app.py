"""The program ``cooperator``, put together."""

from importlib.metadata import version
from importlib.util import find_spec
from typing import Annotated

import typer

from cooperator.cli import crds, executor, import_command, leader, operator, packages, plan, simulate, worker
from cooperator.cli.plugins import PluginError, load_assignors
from cooperator.local.app import app as local_app
from cooperator.local.console import Console
from cooperator.local.demo_command import demo

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Streaming tasks, scheduled cooperatively through the Kafka group protocol.",
)
app.add_typer(local_app, name="local")
app.command()(demo)
app.command()(worker.worker)
app.command(hidden=True)(executor.executor)
app.command()(leader.leader)
app.command()(operator.operator)
app.command()(crds.crds)
app.command()(packages.packages)
app.command()(simulate.simulate)
app.command()(plan.plan)
app.command("import")(import_command.import_)
if find_spec("kubernetes") is not None:
    from cooperator.cli.kubectl.app import app as kubectl_app

    app.add_typer(kubectl_app, name="kubectl")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("cooperator"))
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command that the arguments name; ends the process."""
    try:
        load_assignors()
    except PluginError as error:
        Console().error(str(error))
        raise SystemExit(1) from None
    app(prog_name="cooperator")
