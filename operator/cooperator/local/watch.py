"""Something that is looked at again and again: in place on a terminal, one after another elsewhere."""

import time
from collections.abc import Callable
from typing import Final

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

_INTERVAL_S: Final = 1.0


def print_changes(look: Callable[[], str], pause: Callable[[], None] | None = None) -> None:
    """Print what ``look`` gives whenever it is another text, until Ctrl-C. ``pause``: between two looks."""
    wait = pause or (lambda: time.sleep(_INTERVAL_S))
    console = Console(highlight=False)
    shown = None
    try:
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                while True:
                    live.update(Text(look(), no_wrap=True, overflow="ellipsis"), refresh=True)
                    wait()
        while True:
            text = look()
            if text != shown:
                typer.echo(text if shown is None else f"\n{text}")
                shown = text
            wait()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
