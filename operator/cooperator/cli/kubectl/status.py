"""``kubectl cooperator status``: a Worker, or all of a namespace, at one glance."""

import time
from collections.abc import Sequence
from typing import Any

from cooperator.cli.kubectl.errors import errors_said
from cooperator.cli.kubectl.options import (
    AllNamespacesOption,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    OutputFormat,
    OutputOption,
    SomeWorkerArgument,
)
from cooperator.cli.kubectl.seen import Body, see
from cooperator.cli.kubectl.status_text import status_text
from cooperator.controller.api.kubeconfig import connect
from cooperator.crd.yamldoc import visible_yaml
from cooperator.model.visible import to_visible_json
from cooperator.terminal.console import write


def status(
    worker: SomeWorkerArgument = None,
    namespace: NamespaceOption = None,
    everywhere: AllNamespacesOption = False,
    output: OutputOption = OutputFormat.TEXT,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show members, held tasks with their deadlines, problems, and the last rebalance.

    -o json|yaml: the objects as the API server has them: the named Worker, else a List of Workers.
    """
    with errors_said():
        place = connect(namespace, context, kubeconfig)
        seen = see(place, worker, everywhere and worker is None)
        if output is OutputFormat.TEXT:
            write(status_text(seen, time.time_ns() // 1_000_000))
        else:
            write(dumped(seen.workers[0] if worker else _list(seen.workers), output), end="")


def dumped(value: Any, output: OutputFormat) -> str:
    """The value as text, with a final newline."""
    if output is OutputFormat.JSON:
        return to_visible_json(value, indent=2) + "\n"
    return visible_yaml([value])


def _list(items: Sequence[Body]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
