"""The strategies that find a target, one per file, and the names by which a policy chooses them.

Contents: pure functions of a ``Problem``. Plug-ins (the entry points of the group
``cooperator.assignors``) are found by the program and given to a
leader's ``Workspace``, never by the planner.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cooperator.model.text import hinted
from cooperator.planner.assignors.layout import Uniform
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.assignors.strict import Spread
from cooperator.planner.problem import Assignor

__all__ = ["BUILT_IN", "DEFAULT", "choose"]

DEFAULT: Final = "Sticky"

BUILT_IN: Final[Mapping[str, Assignor]] = MappingProxyType(
    {DEFAULT: Sticky(), "Uniform": Uniform(), "Spread": Spread()}
)


def choose(name: str, strict_spread: bool, installed: Mapping[str, Assignor]) -> tuple[Assignor, str]:
    """Return the assignor ``name`` and an empty warning; if it is not installed, ``Sticky`` and a warning.

    A member that leads while the operator is away may lack a plug-in, and must lead nevertheless.
    """
    if strict_spread and name == DEFAULT:
        name = "Spread"
    found = installed.get(name)
    if found is not None:
        return found, ""
    names = sorted(installed)
    known = ", ".join(names)
    remedy = hinted(name, names, f"{DEFAULT} is used")
    return installed[DEFAULT], f"assignor {name!r} is not installed here ({known} are); {remedy}"
