"""The program ``cooperator``, put together."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from cooperator.cli.on_demand import put_together
from cooperator.cli.plugins import PluginError, load_assignors
from cooperator.local.console import Console

_COMMANDS: Final = {
    "local": "cooperator.local.app:app",
    "demo": "cooperator.local.demo_command:demo",
    "worker": "cooperator.cli.worker:worker",
    "executor": "cooperator.cli.executor:executor",
    "leader": "cooperator.cli.leader:leader",
    "operator": "cooperator.cli.operator:operator",
    "crds": "cooperator.cli.crds:crds",
    "packages": "cooperator.cli.packages:packages",
    "simulate": "cooperator.cli.simulate:simulate",
    "plan": "cooperator.cli.plan:plan",
    "import": "cooperator.cli.import_command:import_",
}


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program that understands ``words``; without any, the whole of it."""
    about = "Streaming tasks, scheduled cooperatively through the Kafka group protocol."
    places = {} if words[:1] == ["kubectl"] else _COMMANDS
    app = put_together(about, places, words, _options, hidden=("executor",))
    if not (words and words[0] in _COMMANDS) and find_spec("kubernetes") is not None:
        from cooperator.cli.kubectl.app import program as kubectl

        app.add_typer(kubectl(words[1:]), name="kubectl")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("cooperator"))
        raise typer.Exit


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
    program(sys.argv[1:])(prog_name="cooperator")
