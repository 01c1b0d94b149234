"""``cooperator local kill|logs``: the commands for members."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from cooperator.local import processes
from cooperator.local.layout import ClusterError, StateDir
from cooperator.local.members import ProcessIncarnation, note_signal, read_incarnations
from cooperator.local.options import DEFAULT_STATE, StateOption, errors_said, existing_state
from cooperator.terminal.console import Console, write
from cooperator.terminal.follow import tail


def kill(
    member: Annotated[str, typer.Argument(help="the member's name, such as lake-0")],
    signal_name: Annotated[str, typer.Option("--signal", "-s", help="KILL, TERM, STOP, CONT, …")] = "KILL",
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Send a signal to all processes of a member: SIGKILL, the default, as in a crash, which no task is
    blamed for."""
    console = Console()
    with errors_said(console):
        folder, process = _member(existing_state(state), member)
        number = getattr(signal, f"SIG{signal_name.upper().removeprefix('SIG')}", None)
        if not isinstance(number, signal.Signals):
            raise ClusterError(f"unknown signal {signal_name!r}; use one of KILL, TERM, INT, STOP, CONT, …")
        note_signal(folder, process.incarnation, number)
        if process.pid is None or not processes.signal_group(process.pid, process.incarnation, number):
            raise ClusterError(f"{member} does not run")
        write(f"{member} (process group {process.pid}) got {number.name}")


def logs(
    what: Annotated[str, typer.Argument(help="a member's name, host or broker")] = "host",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log.")] = False,
    lines: Annotated[int, typer.Option("--tail", help="Number of lines to start with; -1: all.")] = 200,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Print the log of a member, of the host daemon or of the broker."""
    with errors_said(Console()):
        path = _log(existing_state(state), what)
        if not path.exists():
            raise ClusterError(f"{what} has written nothing yet ({path})")
        try:
            for line in tail(path, lines, follow):
                write(line, end="")
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _incarnations(state: StateDir) -> list[tuple[Path, ProcessIncarnation]]:
    return [
        (folder / process.identity, process)
        for folder in sorted(state.workers.glob("*/members"))
        for process in read_incarnations(folder)
    ]


def _member(state: StateDir, name: str) -> tuple[Path, ProcessIncarnation]:
    living_ones = [(folder, process) for folder, process in _incarnations(state) if not process.ended]
    found = [each for each in living_ones if each[1].identity == name]
    if len(found) == 1:
        return found[0]
    living = ", ".join(process.identity for _, process in living_ones) or "none"
    raise ClusterError(
        f"there is no member {name!r}; those that run: {living}"
        if not found
        else f"members of two namespaces are called {name!r}: rename one of their Workers"
    )


def _log(state: StateDir, what: str) -> Path:
    if what == "host":
        return state.host_log
    if what == "broker":
        return state.broker / "broker.log"
    folders = [folder for folder, process in _incarnations(state) if process.identity == what]
    if not folders:
        members = ", ".join(process.identity for _, process in _incarnations(state))
        raise ClusterError(f"unknown log {what!r}; use host, broker or a member ({members or 'none yet'})")
    return folders[0] / "member.log"
