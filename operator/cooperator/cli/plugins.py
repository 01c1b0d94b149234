"""Assignors that other packages bring: the entry points of the group ``cooperator.assignors``."""

from importlib.metadata import entry_points

from cooperator.planner import assignors

GROUP = "cooperator.assignors"


class PluginError(Exception):
    """An installed assignor that cannot be used; the message names it and its package."""


def load_assignors() -> None:
    """Make every installed assignor known to the planner. Raises PluginError."""
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist is not None else "an unknown package"
        try:
            assignors.register(point.name, point.load()())
        except Exception as error:
            raise PluginError(
                f"assignor {point.name!r} of {package} ({point.value}) cannot be loaded: {error}; "
                f"mend or uninstall {package}"
            ) from error
