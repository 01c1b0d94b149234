"""Options of all commands, with kubectl's names; words that are completed from the cluster."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cooperator.cli.kubectl import words

NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", help="Namespace; default: the context's.", autocompletion=words.namespaces
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig.", autocompletion=words.contexts)
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="Path of the kubeconfig; default: the variable KUBECONFIG, or ~/.kube/config.",
        dir_okay=False,
    ),
]
AllNamespacesOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces; overrides --namespace.")
]
WorkerArgument = Annotated[str, typer.Argument(metavar="WORKER", autocompletion=words.workers)]
SomeWorkerArgument = Annotated[
    str | None,
    typer.Argument(metavar="[WORKER]", help="Name of a Worker; default: all.", autocompletion=words.workers),
]
ConnectorArgument = Annotated[str, typer.Argument(metavar="CONNECTOR", autocompletion=words.connectors)]
ConnectorsArgument = Annotated[
    list[str], typer.Argument(metavar="CONNECTOR…", autocompletion=words.connectors)
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="a task such as orders-0; a connector's name alone means its instance",
        autocompletion=words.tasks,
    ),
]


class OutputFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o")]
