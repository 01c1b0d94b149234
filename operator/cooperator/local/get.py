"""``cooperator local get``: lists resources, tasks and members with their states."""

import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from cooperator.local.daemon import HostAway, ask_host
from cooperator.local.layout import ClusterError, StateDir
from cooperator.local.options import DEFAULT_STATE, HOST_AWAY, StateOption, errors_said, existing_state
from cooperator.model.text import choice
from cooperator.terminal import tables
from cooperator.terminal.console import Console, write, write_json
from cooperator.terminal.watch import print_changes


class TableOrJson(StrEnum):
    TABLE = "table"
    JSON = "json"


_TABLES: Final[Mapping[str, Callable[[Sequence[tables.Row], int], str]]] = {
    "workers": tables.workers_table,
    "connectors": tables.connectors_table,
    "tasks": tables.tasks_table,
    "members": tables.members_table,
}


def get(
    kind: Annotated[str, typer.Argument(help="workers, connectors, tasks or members")],
    name: Annotated[str | None, typer.Argument()] = None,
    output: Annotated[TableOrJson, typer.Option("--output", "-o")] = TableOrJson.TABLE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep running, and print it again when it changes.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Show workers, connectors, tasks or members, and their states."""
    console = Console()
    with errors_said(console):
        directory = existing_state(state)
        plural = kind.lower() if kind.lower().endswith("s") else f"{kind.lower()}s"
        if plural not in _TABLES:
            raise ClusterError(f"unknown kind {kind!r}; {choice(kind, _TABLES)}")
        if watch and output is not TableOrJson.TABLE:
            raise ClusterError("--watch prints tables: leave out --output, or --watch")
        if watch:
            print_changes(lambda: _watched(directory, console, plural, name))
            return
        items, at_ms = _look(directory, console, plural, name)
        if output is TableOrJson.JSON:
            write_json(items[0] if name and len(items) == 1 else _list(items))
        elif items:
            write(_TABLES[plural](items, at_ms))
        else:
            console.say(f"no {plural} found")


def _watched(directory: StateDir, console: Console, plural: str, name: str | None) -> tuple[str, object]:
    """Returns the table, and a value that changes with it, except for the ages of events."""
    try:
        items, at_ms = _look(directory, console, plural, name)
    except HostAway:
        return HOST_AWAY, HOST_AWAY
    return _TABLES[plural](items, at_ms), _TABLES[plural](items, 0)


def _look(
    directory: StateDir, console: Console, plural: str, name: str | None
) -> tuple[list[Mapping[str, Any]], int]:
    """Returns the items of a kind, and the time (ms) of the view."""
    try:
        view = ask_host(directory)
    except HostAway:
        if plural in ("tasks", "members"):
            # They are not stored: without the daemon it is not even known whether there are any.
            raise
        from cooperator.local.store import ManifestStore
        from cooperator.local.view import unknown_view

        at_ms = time.time_ns() // 1_000_000
        view = unknown_view(ManifestStore(directory, lambda: at_ms).read(), at_ms)
        console.say("the host daemon does not run (`cooperator local up` starts it): states are unknown")
    if view.get("trouble"):
        console.error(f"the host daemon: {view['trouble']}")
    for problem in view["problems"]:
        console.error(f"a stored manifest cannot be read, nothing is changed until it is fixed: {problem}")
    items = [item for item in view[plural] if name is None or _named(plural, item, name)]
    if name is not None and not items:
        raise ClusterError(f"there is no {plural[:-1]} {name!r}")
    return items, view["at_ms"]


def _named(plural: str, item: Mapping[str, Any], name: str) -> bool:
    """Whether an item has that name; tasks and members also match the name of their connector or worker."""
    if plural in ("workers", "connectors"):
        return name in (item["metadata"]["name"], item["spec"].get("connectorName"))
    return name in (item["name"], item["worker"], item.get("connector"))


def _list(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}
