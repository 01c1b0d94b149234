"""``cooperator local apply|delete|scale|pause|resume|stop|start``: the commands for resources."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from cooperator.crd import Connector, Resource, parse, worker_found
from cooperator.crd.connector import State
from cooperator.host.verbs import PAUSE, RESUME, START, STOP, Verb, into
from cooperator.local.daemon import host_pid
from cooperator.local.layout import ClusterError, StateDir
from cooperator.local.options import (
    DEFAULT_STATE,
    NamespaceOption,
    StateOption,
    errors_said,
    existing_state,
)
from cooperator.local.store import Key, ManifestStore
from cooperator.model.text import choice, hinted
from cooperator.terminal.console import Console, write

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
        from cooperator.local.notes import without_effect

        names = [*(files or ()), *(more or ())]
        if not names:
            raise ClusterError("name the manifests: -f FILE, -f DIRECTORY or -f -")
        resources = [resource for name in names for resource in _read(name)]
        if not resources:
            raise ClusterError(
                f"no resource found in {', '.join(names)}; name files with Workers or Connectors"
            )
        store = _store(directory)
        for key, change in store.apply(resources, ", ".join(names)):
            write(f"{key} {change.value}")
        workers = store.read().workers
        for resource in resources:
            if isinstance(resource, Connector) and (warning := worker_found(resource, workers).message):
                console.say(f"{Key.of(resource)}: {warning}")
            for note in without_effect(resource):
                console.say(f"{Key.of(resource)}: {note}")
        _say_if_down(directory, console)


def delete(
    kind: Annotated[str, typer.Argument(help="worker or connector")],
    names: Annotated[list[str], typer.Argument(metavar="NAME…")],
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Delete Workers or Connectors. Checkpoints stay: resources of the same name continue from them."""
    console = Console()
    with errors_said(console):
        store = _store(existing_state(state))
        for name in names:
            key = _key(kind, namespace, name)
            if not store.delete(key):
                raise ClusterError(_unknown(store, key))
            write(f"{key} deleted")


def scale(
    kind: Annotated[str, typer.Argument(help="worker")],
    name: Annotated[str, typer.Argument()],
    replicas: Annotated[int, typer.Option(help="Number of members.")],
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
        write(f"{key} scaled from {before.spec.replicas} to {replicas}")
        _say_if_down(directory, console)


def _command(verb: Verb) -> Callable[..., None]:
    def command(
        connectors: Annotated[list[str], typer.Argument(metavar="CONNECTOR…")],
        state: StateOption = DEFAULT_STATE,
        namespace: NamespaceOption = "default",
    ) -> None:
        console = Console()
        with errors_said(console):
            directory = existing_state(state)
            store = _store(directory)

            def key(name: str) -> Key:
                return Key("Connector", namespace, name)

            def state_of(name: str) -> State:
                found = [c for c in store.read().connectors if Key.of(c) == key(name)]
                if not found:
                    raise ClusterError(_unknown(store, key(name)))
                return found[0].spec.state

            def set_state(name: str) -> None:
                if not store.set_state(key(name), verb.state):
                    raise ClusterError(_unknown(store, key(name)))

            for sentence in into(
                verb.state, namespace, connectors, state_of, lambda before: before, set_state
            ):
                write(sentence)
            _say_if_down(directory, console)

    command.__doc__ = verb.about
    return command


pause, resume, stop, start = map(_command, (PAUSE, RESUME, STOP, START))


def _store(state: StateDir) -> ManifestStore:
    return ManifestStore(state, lambda: time.time_ns() // 1_000_000)


def _read(name: str) -> list[Resource]:
    """Returns the resources of a file, a directory or (``-``) standard input."""
    from cooperator.local.admission import anchored

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
        raise ClusterError(f"unknown kind {kind!r}; {choice(kind, _KINDS)}")
    return Key(known, namespace, name)


def _unknown(store: ManifestStore, key: Key) -> str:
    names = [Key.of(r).name for r in store.read().resources if Key.of(r)[:2] == key[:2]]
    known = hinted(key.name, names, f"known: {', '.join(names) or 'none'}")
    return f"there is no {key.kind.lower()} {key.name!r}; {known}"


def _say_if_down(state: StateDir, console: Console) -> None:
    if host_pid(state) is None:
        console.say("stored; nothing runs until `cooperator local up`")
