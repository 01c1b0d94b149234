"""Assignors of other packages: the entry points of the group ``cooperator.assignors``."""

from importlib.metadata import entry_points

GROUP = "cooperator.assignors"


class PluginError(Exception):
    """An installed assignor is unusable; the message names it and its package."""


def load_assignors() -> None:
    """Register every installed assignor with the planner. Raises PluginError."""
    for point in entry_points(group=GROUP):
        # Import late: most commands plan nothing, and most installations have no assignors.
        from cooperator.planner import assignors

        package = point.dist.name if point.dist is not None else "an unknown package"
        try:
            assignors.register(point.name, point.load()())
        except Exception as error:
            raise PluginError(
                f"assignor {point.name!r} of {package} ({point.value}) cannot be loaded: {error}; "
                f"fix or uninstall {package}"
            ) from error
