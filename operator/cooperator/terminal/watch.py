"""Repeated output: in place on a terminal, one after another elsewhere."""

import time
from collections.abc import Callable
from typing import Final

import typer
from rich.live import Live
from rich.text import Text

from cooperator.terminal.console import Screen, write

_INTERVAL_S: Final = 1.0


def print_changes(look: Callable[[], tuple[str, object]], pause: Callable[[], None] | None = None) -> None:
    """Prints the result of ``look`` whenever it has changed, until Ctrl-C. ``pause`` waits between two calls.

    ``look`` returns a text, and a value that differs when the text is worth printing again. On a terminal,
    where the text is replaced in place, every text is printed.
    """
    wait = pause or (lambda: time.sleep(_INTERVAL_S))
    console = Screen()
    shown: object = None
    try:
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                while True:
                    live.update(Text(look()[0], no_wrap=True, overflow="ellipsis"), refresh=True)
                    wait()
        while True:
            text, state = look()
            if state != shown:
                write(text if shown is None else f"\n{text}")
                shown = state
            wait()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
