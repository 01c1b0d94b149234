"""``cooperator local up|down|host``; ``resource_commands`` has the commands for resources."""

import os
import sys
from typing import Annotated

import typer

from cooperator.local.daemon import host_command, host_pid
from cooperator.local.layout import read_cluster
from cooperator.local.lifecycle import bring_down, bring_up, delete_state
from cooperator.local.options import DEFAULT_STATE, StateOption, errors_said, state_dir
from cooperator.terminal.console import Console, confirm


def up(
    state: StateOption = DEFAULT_STATE,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="An existing Kafka, host:port[,host:port…]; without it a broker is started here."),
    ] = None,
) -> None:
    """Start the Kafka broker and the host daemon, and what was running before `down`."""
    console = Console()
    with errors_said(console):
        bring_up(state_dir(state), bootstrap_servers, console)


def down(
    state: StateOption = DEFAULT_STATE,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the state as well, after confirmation.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Stop members, leaders, daemon and broker. The state survives, and `up` continues from it."""
    console = Console()
    directory = state_dir(state)
    with errors_said(console):
        if read_cluster(directory) is None:
            console.say(f"nothing to do: there is no state directory {state}")
            return
        if delete and not yes:
            confirm(f"Remove {directory.root} with manifests, topics, checkpoints and logs?")
        bring_down(directory, console)
        if delete:
            delete_state(directory)
            console.say(f"removed {directory.root}")


def host(state: StateOption = DEFAULT_STATE) -> None:
    """Run the daemon in the foreground; `up` starts it."""
    from cooperator.local.host import AlreadyRunning, run_host

    directory = state_dir(state)
    try:
        with errors_said(Console()):
            is_exhausted = run_host(directory)
    except AlreadyRunning as error:
        Console().error(f"{error} (process {host_pid(directory)})")
        raise typer.Exit(1) from None
    if is_exhausted:
        # Nobody else would start it again. Threads that stand still end here.
        os.execv(sys.executable, host_command(directory))
    # Exit without waiting for threads that are blocked on a broker.
    os._exit(0)
