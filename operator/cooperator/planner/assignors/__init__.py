"""The strategies that find a target: one a file, and the names by which a policy chooses them.

What may live here: pure functions of a ``Problem``. A plug-in is registered by the program that is started
(it reads the entry points of the group ``cooperator.assignors``), never by the planner.
"""

from typing import Final

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
    """Make ``assignor`` known under ``name``. Raises ValueError if the name is taken by another class."""
    known = _assignors.get(name)
    if known is not None and type(known) is not type(assignor):
        raise ValueError(f"assignor {name!r} is already {type(known).__qualname__}; choose another name")
    _assignors[name] = assignor


def names() -> tuple[str, ...]:
    """Every name that a policy may choose."""
    return tuple(sorted(_assignors))


def choose(name: str, strict_spread: bool) -> tuple[Assignor, str]:
    """The assignor of that name; with a warning, and ``Sticky``, where it is not installed.

    A member that leads while the operator is away may lack a plug-in. It must lead nevertheless.
    """
    if strict_spread and name == DEFAULT:
        name = "Spread"
    found = _assignors.get(name)
    if found is not None:
        return found, ""
    known = ", ".join(names())
    return _assignors[DEFAULT], f"assignor {name!r} is not installed here ({known} are); {DEFAULT} is used"
