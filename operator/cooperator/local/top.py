"""``cooperator local top``: the live view (``cooperator.terminal.top``) of a daemon's state."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cooperator.local.daemon import HostAway, ask_host
from cooperator.local.options import DEFAULT_STATE, StateOption, errors_said, existing_state
from cooperator.terminal.console import Console
from cooperator.terminal.top import NotAnswering, show


def top(
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", help="Seconds between two updates.", min=0.2, max=3600)
    ] = 1.0,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Watch members, tasks, holds, failures and rebalances until Ctrl-C."""
    with errors_said(Console()):
        directory = existing_state(state)

        def look() -> Mapping[str, Any]:
            try:
                return ask_host(directory)
            except HostAway as error:
                raise NotAnswering("the daemon does not answer") from error

        try:
            show(look, once, interval_s)
        except NotAnswering as error:
            raise HostAway from error
