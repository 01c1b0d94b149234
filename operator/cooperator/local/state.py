"""``cooperator local state``: rows of the state of a connector's queries, by key; a member reads them."""

from typing import Final

from cooperator.connectors.state_query import StateError
from cooperator.local.daemon import tell_host
from cooperator.local.layout import ClusterError
from cooperator.local.offsets import NameArgument
from cooperator.local.options import DEFAULT_STATE, NamespaceOption, StateOption, errors_said, existing_state
from cooperator.terminal.console import Console, write
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

_PATIENCE_S: Final = 65.0
"""Each of two members may take half a minute."""


def state(
    name: NameArgument,
    key: KeyOption = None,
    unit: UnitOption = "",
    operator: OperatorOption = None,
    limit: LimitOption = 100,
    output: FormatOption = RowsFormat.TABLE,
    state_dir: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Print the state of a connector's queries after their newest finished batches, whoever runs them."""
    console = Console()
    with errors_said(console):
        try:
            query = asked(key, unit, operator, limit)
        except StateError as error:
            raise ClusterError(str(error)) from None
        body = {"namespace": namespace, "connector": name, "query": query.encode()}
        answer = tell_host(existing_state(state_dir), "/state", body, _PATIENCE_S)
        write(state_text(answer, output))
        if answer["cut"]:
            console.say(CUT)
