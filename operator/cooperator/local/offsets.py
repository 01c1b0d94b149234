"""``cooperator local offsets list|alter|reset|migrate``: the source positions of a stopped connector."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cooperator.connectors.offset_operations import Subject, alter, listed, migrate, reset
from cooperator.connectors.offsets import Change, OffsetsError, Where, encode
from cooperator.connectors.options import OptionError
from cooperator.connectors.places import NoPlace, place_of
from cooperator.connectors.references import Resolver, UnresolvedReference
from cooperator.crd import Connector, Worker
from cooperator.host.at_rest import why_not_at_rest
from cooperator.local.daemon import ask_host
from cooperator.local.layout import ClusterError, StateDir
from cooperator.local.options import (
    DEFAULT_STATE,
    NamespaceOption,
    StateOption,
    errors_said,
    existing_state,
)
from cooperator.local.store import ManifestStore
from cooperator.model.text import hinted
from cooperator.terminal.console import Console, write, write_json
from cooperator.terminal.offsets import changes_text, read_entries

app = typer.Typer(no_args_is_help=True, help="List and change the source offsets of a connector.")

NameArgument = Annotated[str, typer.Argument(help="the connector's name")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")]


@app.command("list")
def list_(
    name: NameArgument, state: StateOption = DEFAULT_STATE, namespace: NamespaceOption = "default"
) -> None:
    """Print the offsets as Kafka Connect's REST API does; a running connector's are of its last batches."""
    with _errors_said():
        _, _, subject = _subject(state, namespace, name)
        write_json(encode(listed(subject)))


@app.command("alter")
def alter_(
    name: NameArgument,
    to: Annotated[str, typer.Option("--to", help="A file with offsets, as `list` prints them, or - .")],
    dry_run: DryRun = False,
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Move the partitions that the file names; an offset of null forgets a partition's. All others stay."""
    with _errors_said():
        wanted = read_entries(to)
        _change(state, namespace, name, dry_run, lambda subject: alter(subject, wanted, dry_run=dry_run))


@app.command("reset")
def reset_(
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option("--to", help="earliest, latest, or a file; without it: as if new."),
    ] = None,
    dry_run: DryRun = False,
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Forget everything, so that the connector starts as a new one; or move all positions to one end."""
    with _errors_said():
        if to is None or to in tuple(Where):
            where = None if to is None else Where(to)
            _change(state, namespace, name, dry_run, lambda subject: reset(subject, where, dry_run=dry_run))
        else:
            wanted = read_entries(to)
            _change(state, namespace, name, dry_run, lambda subject: alter(subject, wanted, dry_run=dry_run))


@app.command("migrate")
def migrate_(
    name: NameArgument,
    dry_run: DryRun = False,
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Take over the positions that an earlier release kept in checkpoints."""
    with _errors_said():
        _change(state, namespace, name, dry_run, lambda subject: migrate(subject, dry_run=dry_run))


def _change(
    state: Path, namespace: str, name: str, dry_run: bool, work: Callable[[Subject], Sequence[Change]]
) -> None:
    directory, connector, subject = _subject(state, namespace, name)
    view = ask_host(directory)
    about = (namespace, connector.spec.worker_ref.name)
    group: dict[str, object] = next((g for g in view["groups"] if (g["namespace"], g["worker"]) == about), {})
    tasks = [task for task in view["tasks"] if (task["namespace"], task["worker"]) == about]
    reason = why_not_at_rest(connector, {**group, "tasks": tasks})
    if reason:
        raise ClusterError(reason)
    found = work(subject)
    *lines, summary = changes_text(found, dry_run=dry_run)
    for line in lines:
        write(line)
    Console().say(summary)


def _subject(state: Path, namespace: str, name: str) -> tuple[StateDir, Connector, Subject]:
    directory = existing_state(state)
    stored = ManifestStore(directory, lambda: time.time_ns() // 1_000_000).read()
    connectors = {c.metadata.name: c for c in stored.connectors if c.metadata.namespace == namespace}
    connector = connectors.get(name)
    if connector is None:
        known = ", ".join(sorted(connectors)) or "none"
        remedy = hinted(name, connectors, f"known: {known}")
        raise ClusterError(f"there is no connector {name!r}; {remedy}")
    worker = next((w for w in stored.workers if _runs(w, connector)), None)
    if worker is None:
        raise ClusterError(f"connector {name}: there is no Worker {connector.spec.worker_ref.name!r}")
    ours = directory.worker(namespace, worker.metadata.name).checkpoints
    files = tuple(worker.spec.allowed_file_references)
    servers = worker.spec.bootstrap_servers or ask_host(directory)["bootstrap_servers"]
    resolver = Resolver(os.environ, frozenset(os.environ), files, servers)
    conf = replace(resolver, allowed_files=("/",)).resolve(worker.spec.spark.conf).config
    subject = Subject(
        name=name,
        class_name=connector.spec.class_,
        config={**connector.spec.config, "tasks.max": str(connector.spec.tasks_max)},
        group_id=worker.group_id,
        checkpoints=place_of(worker.spec.checkpoint_location or ours, conf, os.environ),
        resolver=resolver,
        conf=conf,
    )
    return directory, connector, subject


def _runs(worker: Worker, connector: Connector) -> bool:
    names = (worker.metadata.namespace, worker.metadata.name)
    return names == (connector.metadata.namespace, connector.spec.worker_ref.name)


@contextmanager
def _errors_said() -> Iterator[None]:
    with errors_said(Console()):
        try:
            yield
        except (NoPlace, OffsetsError, OptionError, UnresolvedReference, ConnectionError) as error:
            raise ClusterError(str(error)) from error
