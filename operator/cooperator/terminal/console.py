"""Progress output of commands: a live status on a terminal, a line per step elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console as RichConsole
from rich.markup import escape


class Console:
    """Prints progress to stderr, so that a command's results can be piped."""

    def __init__(self) -> None:
        self._rich = RichConsole(stderr=True, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Shows a running step, with details meanwhile, and then its result and duration."""
        began = time.monotonic()
        last = ""
        if not self._rich.is_terminal:
            self.say(f"{text} …")

        def detail(more: str) -> None:
            nonlocal last
            last = more
            if status is not None:
                status.update(f"{escape(text)}: {escape(more)}")

        status = self._rich.status(escape(text)) if self._rich.is_terminal else None
        try:
            if status is None:
                yield detail
            else:
                with status:
                    yield detail
        except BaseException:
            self._rich.print(f"[red]✗[/] {escape(text)}")
            raise
        seconds = time.monotonic() - began
        what = f"{text}: {last}" if last else text
        self._rich.print(f"[green]✓[/] {escape(what)} [dim]({seconds:.1f} s)[/]")

    def say(self, text: str) -> None:
        self._rich.print(escape(text))

    def error(self, text: str) -> None:
        self._rich.print(f"[red]error:[/] {escape(text)}")
