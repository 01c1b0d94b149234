"""The strategies that find a target, one per file, and the names by which a policy chooses them.

What may live here: pure functions of a ``Problem``. Plug-ins are registered by the program at its start
(it reads the entry points of the group ``cooperator.assignors``), never by the planner.
"""

from typing import Final

from cooperator.model.similar import hinted
from cooperator.planner.assignors.layout import Range, Uniform
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.assignors.strict import Spread
from cooperator.planner.problem import Assignor

__all__ = ["DEFAULT", "choose", "names", "register"]

DEFAULT: Final = "Sticky"

_assignors: Final[dict[str, Assignor]] = {
    DEFAULT: Sticky(),
    "Uniform": Uniform(),
    "Range": Range(),
    "Spread": Spread(),
}


def register(name: str, assignor: Assignor) -> None:
    """Register ``assignor`` as ``name``. Raises ValueError if another class has that name."""
    known = _assignors.get(name)
    if known is not None and type(known) is not type(assignor):
        raise ValueError(f"assignor {name!r} is already {type(known).__qualname__}; choose another name")
    _assignors[name] = assignor


def names() -> tuple[str, ...]:
    """Return every name that a policy may choose."""
    return tuple(sorted(_assignors))


def choose(name: str, strict_spread: bool) -> tuple[Assignor, str]:
    """Return the assignor ``name`` and an empty warning; if it is not installed, ``Sticky`` and a warning.

    A member that leads while the operator is away may lack a plug-in, and must lead nevertheless.
    """
    if strict_spread and name == DEFAULT:
        name = "Spread"
    found = _assignors.get(name)
    if found is not None:
        return found, ""
    known = ", ".join(names())
    remedy = hinted(name, names(), f"{DEFAULT} is used")
    return _assignors[DEFAULT], f"assignor {name!r} is not installed here ({known} are); {remedy}"
