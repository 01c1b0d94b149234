"""``kubectl cooperator offsets list|alter|reset|migrate``: the source positions of a connector.

The request is an annotation of the Connector. The operator carries it out (``controller.offset_requests``).
The right to patch the Connector is all that it needs, and no access to Kafka from here.
"""

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from cooperator.cli.kubectl.errors import CommandError, errors_said
from cooperator.cli.kubectl.kafka import say
from cooperator.cli.kubectl.options import ConnectorArgument, ContextOption, KubeconfigOption, NamespaceOption
from cooperator.cli.kubectl.seen import Body, one
from cooperator.connectors.offsets import Change, OffsetsError, Where, encode
from cooperator.controller.api.client import CONNECTORS
from cooperator.controller.api.kubeconfig import ClusterAddress, connect
from cooperator.controller.names import OFFSETS_REQUEST, OFFSETS_RESULT
from cooperator.controller.offset_requests import FINAL, LIST, MOST_BYTES, RequestPhase, mark_of, read_result
from cooperator.rest.parts import ChangeVerb
from cooperator.terminal.offsets import changes_text, read_entries

app = typer.Typer(no_args_is_help=True, help="List and change the source offsets of a connector.")

_POLL_S: Final = 0.25

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
            answer = _answer(place, connector, {"do": LIST, "skip": len(found)}, timeout_s)
            found += answer["offsets"]
            if len(answer["offsets"]) >= answer["total"] or not answer["offsets"]:
                break
        typer.echo(json.dumps({"offsets": found}, indent=2, ensure_ascii=False))


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
    answer = _answer(place, connector, {**asked, "dryRun": dry_run}, timeout_s)
    changes = [Change(each["partition"], each["before"], each["after"]) for each in answer["changes"]]
    *lines, summary = changes_text(changes, dry_run=dry_run)
    for line in lines:
        typer.echo(line)
    if len(changes) < answer["total"]:
        say(f"only the first {len(changes)} of {answer['total']} positions are shown, for lack of room")
    say(summary)


def _answer(place: ClusterAddress, name: str, asked: dict[str, Any], timeout_s: float) -> Body:
    """Sends the request and returns its result. Raises CommandError, ApiError.

    The request is withdrawn if it has not begun in time, so that it is not carried out later.
    """
    body = one(place, CONNECTORS, name)
    text = json.dumps({"id": uuid.uuid4().hex, **asked}, ensure_ascii=False)
    if len(text.encode()) > MOST_BYTES:
        raise CommandError(
            f"the offsets have {len(text.encode()):,} bytes as a request, at most {MOST_BYTES:,} fit: "
            "send a part of them at a time"
        )
    before = _standing(body)
    _annotate(place, body, {OFFSETS_REQUEST: text})
    phase: RequestPhase | None = None
    answer: Body = {}
    deadline, said = time.monotonic() + timeout_s, ""
    try:
        while phase not in FINAL:
            if time.monotonic() > deadline:
                raise CommandError(_not_done(name, phase, str(answer.get("message", "")), timeout_s))
            time.sleep(_POLL_S)
            seen = place.api.get(CONNECTORS, place.namespace, name)["metadata"]
            found = read_result((seen.get("annotations") or {}).get(OFFSETS_RESULT))
            if found.get("request") == mark_of(text):
                phase, answer = RequestPhase(found["phase"]), dict(found)
            if phase is RequestPhase.WAITING and said != answer["message"]:
                said = answer["message"]
                say(f"waiting: {said}")
    finally:
        _annotate(place, body, before)
    if phase is not RequestPhase.DONE:
        raise CommandError(str(answer["message"]))
    return answer


def _standing(body: Body) -> dict[str, str | None]:
    """The annotations to restore after a request: those of an earlier one, such as a manifest's, if any.

    Raises CommandError if that one has not ended.
    """
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    text, answer = annotations.get(OFFSETS_REQUEST), read_result(annotations.get(OFFSETS_RESULT))
    if text is not None and not (answer.get("request") == mark_of(text) and answer["phase"] in FINAL):
        name, why = metadata["name"], answer.get("message") or "no operator has answered"
        raise CommandError(
            f"Connector {name} has a request about its offsets that has not ended ({why}): wait, or remove "
            f"it with `kubectl annotate -n {metadata['namespace']} connectors.cooperator.dev {name} "
            f"{OFFSETS_REQUEST}-`"
        )
    return {name: annotations.get(name) for name in (OFFSETS_REQUEST, OFFSETS_RESULT)}


def _not_done(name: str, phase: RequestPhase | None, message: str, timeout_s: float) -> str:
    if phase is RequestPhase.STARTED:
        return (
            f"the change of offsets of Connector {name} has begun, but has not ended within {timeout_s:g} s: "
            "list its offsets before you repeat it"
        )
    why = message or "no operator has answered: check that one runs and serves the Worker"
    return f"nothing was changed within {timeout_s:g} s: {why}"


def _annotate(place: ClusterAddress, body: Body, annotations: dict[str, str | None]) -> None:
    metadata = body["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
    place.api.merge(CONNECTORS, place.namespace, metadata["name"], patch)


@contextmanager
def _errors_said() -> Iterator[None]:
    with errors_said():
        try:
            yield
        except OffsetsError as error:
            raise CommandError(str(error)) from None
