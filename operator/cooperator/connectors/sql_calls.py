"""The calls of functions in a SELECT, and whether each is allowed: for both checks. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic_core import PydanticCustomError

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_bounds import Argument
from cooperator.connectors.sql_functions import FUNCTIONS, FunctionKind

_REMEDY: Final = "use functions of Spark that open nothing: see docs/security.md"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call as a parser has read it.

    ``name`` has the parts of a qualified name, joined by dots.
    """

    name: str
    arguments: tuple[Argument, ...] = ()
    is_named: bool = False


def forbidden(name: str) -> PydanticCustomError:
    """Returns the problem of a function that no transform may call."""
    known = FUNCTIONS.get(name.lower())
    why = f", which {known.reason}" if known is not None and known.reason else ""
    return refuse(f"calls {name.lower()}{why}", _REMEDY)


def check_calls(calls: Iterable[FunctionCall]) -> None:
    """Raises ``refuse(…)`` for the first call that is forbidden, unknown, or not bounded by its literals."""
    for call in calls:
        name = call.name.lower()
        function = FUNCTIONS.get(name) if name.isascii() else None
        if function is None or function.kind is FunctionKind.FORBIDDEN:
            raise forbidden(call.name)
        if function.check is None:
            continue
        if call.is_named:
            raise refuse(f"calls {name} with named arguments", "write its arguments in order")
        problem = function.check(call.arguments)
        if problem:
            raise refuse(f"calls {name}, which {problem}", f"bound {function.reason or 'it'} by a literal")
