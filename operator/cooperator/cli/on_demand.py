"""Commands that are imported when they are called: shell completion stays fast, and a member, leader or
operator process loads only its own packages."""

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
    """A program with the command that ``words`` begin with. If they begin with none, it has all commands,
    which help and errors list.

    ``places`` maps each command's name to ``module:attribute``, a function or a Typer. ``options`` are those
    of the program itself. ``hidden`` are commands that help does not list.
    """
    app = typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False, help=help_
    )
    # With a callback, the first word is a command's name even if there is only one command.
    app.callback()(options)
    for name in words[:1] if words and words[0] in places else places:
        module, _, what = places[name].partition(":")
        command = getattr(import_module(module), what)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, hidden=name in hidden)(command)
    return app
