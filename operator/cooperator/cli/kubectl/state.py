"""``kubectl cooperator state``: rows of the state of a connector's queries, by key.

The request goes the way of ``kubectl cooperator offsets``, with the same right.
"""

import typer

from cooperator.cli.kubectl.errors import CommandError, errors_said
from cooperator.cli.kubectl.options import ConnectorArgument, ContextOption, KubeconfigOption, NamespaceOption
from cooperator.cli.kubectl.requests import answered
from cooperator.connectors.state_query import StateError
from cooperator.controller.api.kubeconfig import connect
from cooperator.controller.offset_requests import STATE
from cooperator.terminal.console import say, write
from cooperator.terminal.state import (
    CUT,
    FormatOption,
    KeyOption,
    LimitOption,
    OperatorOption,
    RowsFormat,
    UnitOption,
    asked,
    state_text,
)


def state(
    connector: ConnectorArgument,
    key: KeyOption = None,
    unit: UnitOption = "",
    operator: OperatorOption = None,
    limit: LimitOption = 100,
    output: FormatOption = RowsFormat.TABLE,
    timeout_s: float = typer.Option(60.0, "--timeout", help="Seconds to wait for the operator.", min=1),
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Print the state of a connector's queries after their newest finished batches, whoever runs them."""
    with errors_said():
        try:
            query = asked(key, unit, operator, limit)
        except StateError as error:
            raise CommandError(str(error)) from None
        place = connect(namespace, context, kubeconfig)
        answer = answered(place, connector, {"do": STATE, "query": query.encode()}, timeout_s)
        write(state_text(answer, output))
        if answer["cut"]:
            say(CUT)
