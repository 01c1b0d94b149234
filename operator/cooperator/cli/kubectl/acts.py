"""``kubectl cooperator restart|pause|resume|stop|start``: each changes a single field of a Connector."""

import uuid
from collections.abc import Callable
from typing import Annotated, Any

import typer

from cooperator.cli.kubectl.errors import CommandError, errors_said
from cooperator.cli.kubectl.options import (
    ConnectorArgument,
    ConnectorsArgument,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
)
from cooperator.cli.kubectl.seen import Body, one, status_of
from cooperator.controller.api.client import CONNECTORS
from cooperator.controller.api.kubeconfig import ClusterAddress, connect
from cooperator.controller.names import RESTART
from cooperator.controller.restarts import DONE
from cooperator.crd.connector import State
from cooperator.host.verbs import PAUSE, RESUME, START, STOP, Verb, into
from cooperator.terminal.console import write


def restart(
    connector: ConnectorArgument,
    task: Annotated[
        int | None,
        typer.Option(help="Only restart this task, given by its number; -1: the connector's instance."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only restart failed tasks.")] = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Restart a connector with all of its tasks, one task, or its failed tasks. No task moves."""
    with errors_said():
        if task is not None and failed:
            raise CommandError("--task and --failed are mutually exclusive: use one of them")
        place = connect(namespace, context, kubeconfig)
        body = one(place, CONNECTORS, connector)
        _check(body, task)
        what = "failed" if failed else "tasks" if task is None else "connector" if task < 0 else str(task)
        value = f"{what}#{uuid.uuid4().hex[:12]}"
        _merge(place, connector, {"metadata": {"annotations": {RESTART: value}}})
        of = "" if task is None else f", task {task}" if task >= 0 else ", its instance"
        does = "failed tasks restart" if failed else "restarts"
        write(f"Connector {place.namespace}/{connector}{of}: {does}")


def _check(body: Body, task: int | None) -> None:
    name = body["metadata"]["name"]
    if DONE not in (body["metadata"].get("annotations") or {}):
        raise CommandError(
            f"no operator has observed Connector {name} yet, so it cannot be restarted: check `kubectl "
            "cooperator status`"
        )
    count = (status_of(body).get("tasks") or {}).get("desired", 0)
    if task is not None and not -1 <= task < count:
        numbers = f"0 to {count - 1}" if count else "none yet"
        raise CommandError(f"--task {task}: Connector {name} has no such task; its numbers are {numbers}")


def _command(verb: Verb) -> Callable[..., None]:
    def command(
        connectors: ConnectorsArgument,
        namespace: NamespaceOption = None,
        context: ContextOption = None,
        kubeconfig: KubeconfigOption = None,
    ) -> None:
        with errors_said():
            place = connect(namespace, context, kubeconfig)
            sentences = into(
                verb.state,
                place.namespace,
                connectors,
                find=lambda name: one(place, CONNECTORS, name),
                state_of=lambda body: State(body["spec"].get("state", State.RUNNING.value)),
                write=lambda name: _merge(place, name, {"spec": {"state": verb.state.value}}),
            )
            for sentence in sentences:
                write(sentence)

    command.__doc__ = verb.about
    return command


pause, resume, stop, start = map(_command, (PAUSE, RESUME, STOP, START))


def _merge(place: ClusterAddress, connector: str, patch: dict[str, Any]) -> None:
    place.api.merge(CONNECTORS, place.namespace, connector, patch)
