"""Commands that are imported when they are called: a shell waits for each word that it completes, and each
process of a member, a leader or an operator starts with its own rooms only."""

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module

import typer


def _nothing() -> None: ...


def put_together(
    help_: str,
    places: Mapping[str, str],
    words: Sequence[str],
    options: Callable[..., None] = _nothing,
    hidden: Collection[str] = (),
) -> typer.Typer:
    """A program with the command that ``words`` begin with, or with all commands where they begin with none:
    help and errors name them all.

    ``places``: each command's name to ``module:what``, a function or a Typer. ``options``: those of the
    program itself. ``hidden``: commands that help does not name.
    """
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False, help=help_
    )
    # A callback makes the first word a command's name even where there is one command only.
    app.callback()(options)
    for name in words[:1] if words and words[0] in places else places:
        module, _, what = places[name].partition(":")
        command = getattr(import_module(module), what)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, hidden=name in hidden)(command)
    return app
