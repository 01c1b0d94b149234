"""``cooperator local apply|delete|get|scale|kill|logs``: what users do with resources and members."""

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cooperator.crd import Resource, parse
from cooperator.local import processes, tables
from cooperator.local.cluster import ClusterError
from cooperator.local.console import Console
from cooperator.local.daemon import HostAway, ask_host, host_pid
from cooperator.local.follow import tail
from cooperator.local.layout import StateDir
from cooperator.local.members import Life, read_lives
from cooperator.local.notes import without_effect
from cooperator.local.options import (
    DEFAULT_STATE,
    NamespaceOption,
    StateOption,
    errors_said,
    existing_state,
)
from cooperator.local.store import Key, ManifestStore, anchored
from cooperator.local.view import unknown_view
from cooperator.local.watch import print_changes


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


_TABLES: Final[Mapping[str, Callable[[Sequence[tables.Row], int], str]]] = {
    "workers": tables.workers_table,
    "connectors": tables.connectors_table,
    "tasks": tables.tasks_table,
    "members": tables.members_table,
}
_KINDS: Final = {"worker": "Worker", "connector": "Connector"}


def apply(
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    files: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="A manifest, a directory of them, or - .")
    ] = None,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Create or change the Workers and Connectors of the manifests; all of them, or none."""
    console = Console()
    with errors_said(console):
        directory = existing_state(state)
        names = [*(files or ()), *(more or ())]
        if not names:
            raise ClusterError("name the manifests: -f FILE, -f DIRECTORY or -f -")
        resources = [resource for name in names for resource in _read(name)]
        if not resources:
            raise ClusterError(f"there is no resource in {', '.join(names)}")
        for key, change in _store(directory).apply(resources, ", ".join(names)):
            typer.echo(f"{key} {change.value}")
        for resource in resources:
            for note in without_effect(resource):
                console.say(f"{Key.of(resource)}: {note}")
        _say_if_down(directory, console)


def delete(
    kind: Annotated[str, typer.Argument(help="worker or connector")],
    names: Annotated[list[str], typer.Argument(metavar="NAME…")],
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Delete Workers or Connectors. Checkpoints stay: created anew under the same name, they go on."""
    console = Console()
    with errors_said(console):
        store = _store(existing_state(state))
        for name in names:
            key = _key(kind, namespace, name)
            if not store.delete(key):
                raise ClusterError(_unknown(store, key))
            typer.echo(f"{key} deleted")


def scale(
    kind: Annotated[str, typer.Argument(help="worker")],
    name: Annotated[str, typer.Argument()],
    replicas: Annotated[int, typer.Option(help="How many members.")],
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Change the number of members of a Worker. Tasks of leaving members move first."""
    console = Console()
    with errors_said(console):
        directory = existing_state(state)
        store = _store(directory)
        key = _key(kind, namespace, name)
        if key.kind != "Worker":
            raise ClusterError("only a worker can be scaled; a connector has tasksMax in its manifest")
        before = store.scale(key, replicas)
        if before is None:
            raise ClusterError(_unknown(store, key))
        typer.echo(f"{key} scaled from {before.spec.replicas} to {replicas}")
        _say_if_down(directory, console)


def get(
    kind: Annotated[str, typer.Argument(help="workers, connectors, tasks or members")],
    name: Annotated[str | None, typer.Argument()] = None,
    output: Annotated[Output, typer.Option("--output", "-o")] = Output.TABLE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on, and print it when it changes.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Show what there is and how it is."""
    console = Console()
    with errors_said(console):
        directory = existing_state(state)
        plural = kind.lower() if kind.lower().endswith("s") else f"{kind.lower()}s"
        if plural not in _TABLES:
            raise ClusterError(f"there are no {kind!r}: choose of {', '.join(_TABLES)}")
        if watch and output is not Output.TABLE:
            raise ClusterError("--watch prints tables: leave out --output, or --watch")
        if watch:
            print_changes(lambda: _TABLES[plural](*_look(directory, console, plural, name)))
            return
        items, at_ms = _look(directory, console, plural, name)
        if output is Output.JSON:
            typer.echo(json.dumps(items[0] if name and len(items) == 1 else _list(items), indent=2))
        elif items:
            typer.echo(_TABLES[plural](items, at_ms))
        else:
            console.say(f"there are no {plural}")


def kill(
    member: Annotated[str, typer.Argument(help="the member's name, such as lake-0")],
    signal_name: Annotated[str, typer.Option("--signal", "-s", help="KILL, TERM, STOP, CONT, …")] = "KILL",
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Send a signal to all processes of a member, as a crash would end it."""
    console = Console()
    with errors_said(console):
        life = _member(existing_state(state), member)
        number = getattr(signal, f"SIG{signal_name.upper().removeprefix('SIG')}", None)
        if not isinstance(number, signal.Signals):
            raise ClusterError(f"there is no signal {signal_name!r}: KILL, TERM, INT, STOP, CONT, …")
        if life.pid is None or not processes.signal_group(life.pid, life.incarnation, number):
            raise ClusterError(f"{member} does not run")
        typer.echo(f"{member} (process group {life.pid}) got {number.name}")


def logs(
    what: Annotated[str, typer.Argument(help="a member's name, host or broker")] = "host",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written next.")] = False,
    lines: Annotated[int, typer.Option("--tail", help="How many lines to begin with; -1: all.")] = 200,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Print the log of a member, of the host daemon or of the broker."""
    with errors_said(Console()):
        path = _log(existing_state(state), what)
        if not path.exists():
            raise ClusterError(f"{what} has written nothing yet ({path})")
        try:
            for line in tail(path, lines, follow):
                sys.stdout.write(line)
                sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _look(
    directory: StateDir, console: Console, plural: str, name: str | None
) -> tuple[list[Mapping[str, Any]], int]:
    """What there is of a kind, and the time (ms) to which that applies."""
    try:
        view = ask_host(directory)
    except HostAway:
        view = unknown_view(_store(directory).read(), time.time_ns() // 1_000_000)
        console.say("the host daemon does not run (`cooperator local up` starts it): states are unknown")
    for problem in view["problems"]:
        console.error(f"a stored manifest cannot be read, nothing is changed until it is mended: {problem}")
    items = [item for item in view[plural] if name is None or _named(plural, item, name)]
    if name is not None and not items:
        raise ClusterError(f"there is no {plural[:-1]} {name!r}")
    return items, view["at_ms"]


def _store(state: StateDir) -> ManifestStore:
    return ManifestStore(state.manifests, lambda: time.time_ns() // 1_000_000)


def _read(name: str) -> list[Resource]:
    """The resources of a file, a directory or (``-``) standard input."""
    if name == "-":
        return list(anchored(parse(sys.stdin.read(), "standard input"), Path.cwd()))
    path = Path(name)
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
        return [resource for file in inside for resource in _read(str(file))]
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ClusterError(f"{name} cannot be read: {reason}") from None
    return list(anchored(parse(text, name), path.absolute().parent))


def _key(kind: str, namespace: str, name: str) -> Key:
    known = _KINDS.get(kind.lower().removesuffix("s"))
    if known is None:
        raise ClusterError(f"there is no kind {kind!r}: choose of {', '.join(_KINDS)}")
    return Key(known, namespace, name)


def _unknown(store: ManifestStore, key: Key) -> str:
    names = [Key.of(r).name for r in store.read().resources if Key.of(r)[:2] == key[:2]]
    return f"there is no {key.kind.lower()} {key.name!r}; known: {', '.join(names) or 'none'}"


def _named(plural: str, item: Mapping[str, Any], name: str) -> bool:
    """Of tasks and members also all that belong to a connector or worker of that name."""
    if plural in ("workers", "connectors"):
        return bool(item["metadata"]["name"] == name)
    return name in (item["name"], item["worker"], item.get("connector"))


def _list(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _lives(state: StateDir) -> list[tuple[Path, Life]]:
    return [
        (folder / life.identity, life)
        for folder in sorted(state.workers.glob("*/members"))
        for life in read_lives(folder)
    ]


def _member(state: StateDir, name: str) -> Life:
    lives = [life for _, life in _lives(state)]
    found = [life for life in lives if life.identity == name and not life.ended]
    if len(found) == 1:
        return found[0]
    living = ", ".join(life.identity for life in lives if not life.ended) or "none"
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
    folders = [folder for folder, life in _lives(state) if life.identity == what]
    if not folders:
        members = ", ".join(life.identity for _, life in _lives(state))
        raise ClusterError(
            f"there is no log of {what!r}: choose host, broker or a member ({members or 'none yet'})"
        )
    return folders[0] / "member.log"


def _say_if_down(state: StateDir, console: Console) -> None:
    if host_pid(state) is None:
        console.say("stored; nothing runs until `cooperator local up`")
