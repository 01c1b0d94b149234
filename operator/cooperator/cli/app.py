"""The program ``cooperator``, assembled from its commands."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Final

import typer

from cooperator.cli.on_demand import put_together
from cooperator.terminal.console import Console, run, write

_COMMANDS: Final = {
    "demo": "cooperator.demo.command:demo",
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

_LONG_LOCAL: Final = frozenset({"up", "down", "host", "plan"})
"""The commands of ``local`` that start processes, are one, or plan (with plug-ins)."""

_GROUPS: Final = {"local": "cooperator.cli.local", "kubectl": "cooperator.cli.kubectl.app"}


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program with the commands that ``words`` need, or with all commands for no words."""
    about = "Streaming tasks, scheduled cooperatively through the Kafka group protocol."
    first, rest = (words[0], words[1:]) if words else ("", ())
    app = put_together(about, {} if first in _GROUPS else _COMMANDS, words, _options, hidden=("executor",))
    is_whole = first not in {*_COMMANDS, *_GROUPS}
    for name, module in _GROUPS.items():
        if name == first or (is_whole and (name != "kubectl" or find_spec("kubernetes") is not None)):
            group = import_module(module).program(rest if name == first else ())
            app.add_typer(group, name=name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write(version("cooperator"))
        raise typer.Exit


def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command that the arguments name; ends the process."""
    words = sys.argv[1:]
    if is_short(words):
        # pydantic would look through all installed packages for plug-ins.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    else:
        _check_plugins()
    run(program(words), "cooperator")


def is_short(words: Sequence[str]) -> bool:
    """Whether the command only reads and writes the state of ``cooperator local``: it plans nothing and
    starts no process, and users wait for its answer.
    """
    return words[:1] == ["local"] and len(words) > 1 and words[1] not in _LONG_LOCAL


def _check_plugins() -> None:
    from cooperator.leader.plugins import PluginError, plugged_in_assignors

    try:
        plugged_in_assignors()
    except PluginError as error:
        Console().error(str(error))
        raise SystemExit(1) from None
