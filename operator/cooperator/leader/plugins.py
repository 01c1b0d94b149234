"""Assignors of other packages: the entry points of the group ``cooperator.assignors``."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cooperator.planner.problem import Assignor

GROUP = "cooperator.assignors"


class PluginError(Exception):
    """An installed assignor is unusable; the message names it and its package."""


def installed_assignors() -> "Mapping[str, Assignor]":
    """Return all assignors that a policy may choose here, by name. Raises PluginError."""
    from cooperator.planner.assignors import BUILT_IN

    return {**BUILT_IN, **plugged_in_assignors()}


def plugged_in_assignors() -> "dict[str, Assignor]":
    """Return the assignors of other packages, by name. Raises PluginError."""
    found: dict[str, Assignor] = {}
    for point in entry_points(group=GROUP):
        # Import late: most commands plan nothing, and most installations have no assignors.
        from cooperator.planner.assignors import BUILT_IN

        package = point.dist.name if point.dist is not None else "an unknown package"
        try:
            assignor = point.load()()
            known = BUILT_IN.get(point.name) or found.get(point.name)
            if known is not None and type(known) is not type(assignor):
                raise ValueError(f"the name is that of {type(known).__qualname__}; choose another name")
        except Exception as error:
            raise PluginError(
                f"assignor {point.name!r} of {package} ({point.value}) cannot be loaded: {error}; "
                f"fix or uninstall {package}"
            ) from error
        found[point.name] = assignor
    return found
