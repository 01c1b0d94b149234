"""Questions about the state of queries by options, and answers as a table or as JSON."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from cooperator.connectors.state_query import MOST_ROWS, StateQuery, keys_of
from cooperator.model.visible import to_visible_json
from cooperator.terminal.tables import Row, table

_LONG: Final = 120
CUT: Final = "there is more: name a --key, --unit or --operator, or raise --limit"


class RowsFormat(StrEnum):
    TABLE = "table"
    JSON = "json"


KeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--key", "-k", help="COLUMN=VALUE of the state's key, such as user=ada; several: all of them."
    ),
]
UnitOption = Annotated[str, typer.Option("--unit", help="One of the connector's units; default: all.")]
OperatorOption = Annotated[
    int | None, typer.Option("--operator", help="The number of one operator; default: all.", min=0)
]
LimitOption = Annotated[
    int, typer.Option("--limit", help="The maximum number of rows.", min=1, max=MOST_ROWS)
]
FormatOption = Annotated[RowsFormat, typer.Option("--output", "-o")]


def asked(keys: Sequence[str] | None, unit: str, operator: int | None, limit: int) -> StateQuery:
    """Returns the question that these options ask. Raises ``StateError``."""
    return StateQuery(keys_of(keys or ()), unit, operator, limit)


def state_text(answer: Mapping[str, Any], output: RowsFormat) -> str:
    """Returns the rows of an answer, with the batch after which each was so, and where it is."""
    if output is RowsFormat.JSON:
        found = {name: answer[name] for name in ("rows", "cut")}
        return to_visible_json(found, indent=2)
    columns = {
        "UNIT": lambda row: row["unit"],
        "BATCH": lambda row: row["batch"],
        "OPERATOR": _operator,
        "KEY": lambda row: _shown(row, "key"),
        "VALUE": lambda row: _shown(row, "value"),
    }
    return table(answer["rows"], columns)


def _operator(row: Row) -> str:
    """Such as ``0 stateStoreSave``, or ``1 symmetricHashJoin.left``."""
    part = f".{row['part']}" if row["part"] else ""
    return f"{row['operator']} {row['kind']}{part}"


def _shown(row: Row, name: str) -> str:
    if f"{name}_chars" in row:
        return f"<{row[f'{name}_chars']:,} characters>"
    text = to_visible_json(row[name])
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
