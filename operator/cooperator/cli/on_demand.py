"""Commands that are imported when they are called: a shell waits for each word that it completes, and each
process of a member, a leader or an operator starts with its own rooms only."""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module

import typer


def add_commands(
    app: typer.Typer, places: Mapping[str, str], words: Sequence[str], hidden: Collection[str] = ()
) -> None:
    """Add to ``app`` the command that ``words`` begin with, or all commands where they begin with none: help
    and errors name them all.

    ``places``: each command's name to ``module:what``, a function or a Typer. ``hidden``: those that help
    does not name.
    """
    for name in words[:1] if words and words[0] in places else places:
        module, _, what = places[name].partition(":")
        command = getattr(import_module(module), what)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, hidden=name in hidden)(command)
