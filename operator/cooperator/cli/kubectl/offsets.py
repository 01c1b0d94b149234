"""``kubectl cooperator offsets list|alter|reset|migrate``: the source positions of a connector.

The request is an annotation of the Connector. The operator carries it out (``controller.offset_requests``).
The right to patch the Connector is all that it needs, and no access to Kafka from here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cooperator.cli.kubectl.errors import CommandError, errors_said
from cooperator.cli.kubectl.options import ConnectorArgument, ContextOption, KubeconfigOption, NamespaceOption
from cooperator.cli.kubectl.requests import answered
from cooperator.connectors.offsets import Change, OffsetsError, Where, encode
from cooperator.controller.api.kubeconfig import ClusterAddress, connect
from cooperator.controller.offset_requests import LIST
from cooperator.rest.parts import ChangeVerb
from cooperator.terminal.console import say, write, write_json
from cooperator.terminal.offsets import changes_text, read_entries

app = typer.Typer(no_args_is_help=True, help="List and change the source offsets of a connector.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")]
Timeout = Annotated[
    float, typer.Option("--timeout", help="Seconds to wait for the operator, and for tasks to stop.", min=1)
]


@app.command("list")
def list_(
    connector: ConnectorArgument,
    timeout_s: Timeout = 60.0,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Print the offsets as Kafka Connect's REST API does; a running connector's are of its last batches."""
    with _errors_said():
        place = connect(namespace, context, kubeconfig)
        found: list[Any] = []
        while True:
            answer = answered(place, connector, {"do": LIST, "skip": len(found)}, timeout_s)
            found += answer["offsets"]
            if len(answer["offsets"]) >= answer["total"] or not answer["offsets"]:
                break
        write_json({"offsets": found})


@app.command("alter")
def alter(
    connector: ConnectorArgument,
    to: Annotated[str, typer.Option("--to", help="A file with offsets, as `list` prints them, or - .")],
    dry_run: DryRun = False,
    timeout_s: Timeout = 60.0,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Move the partitions that the file names; an offset of null forgets a partition's. All others stay."""
    with _errors_said():
        asked = {"do": ChangeVerb.ALTER, **encode(read_entries(to))}
        _change(connect(namespace, context, kubeconfig), connector, asked, dry_run, timeout_s)


@app.command("reset")
def reset(
    connector: ConnectorArgument,
    to: Annotated[
        str | None,
        typer.Option("--to", help="earliest, latest, or a file; without it: as if new."),
    ] = None,
    dry_run: DryRun = False,
    timeout_s: Timeout = 60.0,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Forget everything, so that the connector starts as a new one; or move all positions to one end."""
    with _errors_said():
        asked: dict[str, Any] = {"do": ChangeVerb.RESET}
        if to in tuple(Where):
            asked["to"] = to
        elif to is not None:
            asked = {"do": ChangeVerb.ALTER, **encode(read_entries(to))}
        _change(connect(namespace, context, kubeconfig), connector, asked, dry_run, timeout_s)


@app.command("migrate")
def migrate(
    connector: ConnectorArgument,
    dry_run: DryRun = False,
    timeout_s: Timeout = 60.0,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Take over the positions that an earlier release kept in checkpoints."""
    with _errors_said():
        place = connect(namespace, context, kubeconfig)
        _change(place, connector, {"do": ChangeVerb.MIGRATE}, dry_run, timeout_s)


def _change(
    place: ClusterAddress, connector: str, asked: dict[str, Any], dry_run: bool, timeout_s: float
) -> None:
    answer = answered(place, connector, {**asked, "dryRun": dry_run}, timeout_s)
    changes = [Change(each["partition"], each["before"], each["after"]) for each in answer["changes"]]
    *lines, summary = changes_text(changes, dry_run=dry_run)
    for line in lines:
        write(line)
    if len(changes) < answer["total"]:
        say(f"only the first {len(changes)} of {answer['total']} positions are shown, for lack of room")
    say(summary)


@contextmanager
def _errors_said() -> Iterator[None]:
    with errors_said():
        try:
            yield
        except OffsetsError as error:
            raise CommandError(str(error)) from None
