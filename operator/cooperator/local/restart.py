"""``cooperator local restart``: restarts a connector, or a part of it."""

from typing import Annotated

import typer

from cooperator.local.daemon import tell_host
from cooperator.local.layout import ClusterError
from cooperator.local.options import (
    DEFAULT_STATE,
    NamespaceOption,
    StateOption,
    errors_said,
    existing_state,
)
from cooperator.model import INSTANCE
from cooperator.terminal.console import Console, write


def restart(
    connector: Annotated[str, typer.Argument(help="the connector's name")],
    task: Annotated[
        int | None,
        typer.Option(help="Only restart this task, given by its number; -1: the connector's instance."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only restart failed tasks.")] = False,
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Restart a connector with all of its tasks, one task, or its failed tasks. No task moves."""
    with errors_said(Console()):
        directory = existing_state(state)
        if task is not None and failed:
            raise ClusterError("--task and --failed are mutually exclusive: use one of them")
        if task is not None and task < INSTANCE:
            raise ClusterError(f"--task is {task}: give the number of a task, or -1 for the instance")
        body = {
            "namespace": namespace,
            "connector": connector,
            "task": task,
            "include_tasks": task is None,
            # For one task, this makes a stock worker restart as little as possible.
            "only_failed": failed or task is not None,
        }
        tell_host(directory, "/restart", body)
        of = "" if task is None else f", task {task}" if task >= 0 else ", its instance"
        write(f"Connector {connector}{of}: {'failed tasks restart' if failed else 'restarts'}")
