"""The only way to a terminal: results to stdout, progress and errors to stderr, and screens that are drawn.

All text that passes here is escaped (``model.visible``): names, messages and data of users cannot move the
cursor, set titles or colours, or use rich's markup. No other module of the commands writes by itself, which
``tests/terminal/test_boundary.py`` checks.
"""

import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

import typer
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from cooperator.model.visible import to_visible_json, visible_line, visible_text


def write(text: str, end: str = "\n") -> None:
    """Writes a result to stdout, at once. Lines and tabs of ``text`` stay."""
    typer.echo(f"{visible_text(text)}{end}", nl=False)


def write_json(value: object) -> None:
    """Writes a value as JSON to stdout; programs read the same value."""
    typer.echo(to_visible_json(value, indent=2))


def say(text: str) -> None:
    """Writes a line to stderr, apart from the results."""
    typer.echo(visible_text(text), err=True)


def confirm(question: str) -> None:
    """Asks for a yes. Raises ``typer.Abort`` for anything else."""
    typer.confirm(visible_line(question), abort=True)


class Screen(RichConsole):
    """rich's console for a terminal's picture: no markup, and all text that it draws is escaped."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False, **more: Any) -> None:
        super().__init__(
            **more, stderr=stderr, soft_wrap=soft_wrap, markup=False, highlight=False, emoji=False
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible_text(text), style, control)


class Console:
    """Prints progress to stderr, so that a command's results can be piped."""

    def __init__(self) -> None:
        self._screen = Screen(stderr=True, soft_wrap=True)

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Shows a running step, with details meanwhile, and then its result and duration."""
        began = time.monotonic()
        last = ""
        if not self._screen.is_terminal:
            self.say(f"{text} …")

        def detail(more: str) -> None:
            nonlocal last
            last = more
            if status is not None:
                status.update(Text(visible_line(f"{text}: {more}")))

        status = self._screen.status(Text(visible_line(text))) if self._screen.is_terminal else None
        try:
            if status is None:
                yield detail
            else:
                with status:
                    yield detail
        except BaseException:
            self._print(("✗", "red"), f" {text}")
            raise
        seconds = time.monotonic() - began
        what = f"{text}: {last}" if last else text
        self._print(("✓", "green"), f" {what} ", (f"({seconds:.1f} s)", "dim"))

    def say(self, text: str) -> None:
        self._print(text)

    def error(self, text: str) -> None:
        self._print(("error:", "red"), f" {text}")

    def _print(self, *parts: str | tuple[str, str]) -> None:
        # Text drops some characters; they are to be seen.
        shown = (visible_text(part) if isinstance(part, str) else part for part in parts)
        self._screen.print(Text.assemble(*shown))


def run(program: typer.Typer, name: str) -> NoReturn:
    """Runs a program with the arguments of this process, and ends the process. Errors in arguments and
    exceptions, which typer would print as they are, are escaped, too."""
    sys.excepthook = _show_uncaught
    try:
        # Not program(…), which would have typer draw tracebacks.
        code = typer.main.get_command(program).main(prog_name=name, standalone_mode=False)
    except typer.Abort:
        say("Aborted.")
        code = 1
    except Exception as error:
        # A ClickException of the click that typer has in it, which has no public name.
        if not hasattr(error, "format_message"):
            raise
        if context := getattr(error, "ctx", None):
            say(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n")
        Console().error(error.format_message())
        code = getattr(error, "exit_code", 1)
    raise SystemExit(code if isinstance(code, int) else 0)


def _show_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    say("".join(traceback.format_exception(kind, error, trace)).rstrip())
