"""The connectors: the plug-in interface (``base``, ``spark``), class lookup, and the built-in classes.

This package holds one module per connector, and the modules that several of them share. It may use
confluent-kafka (for transactional sinks and for inspecting topics); it imports pyspark only inside functions.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from cooperator.connectors.base import Connector, Delivered
from cooperator.connectors.options import (
    OptionError,
    Options,
    Problem,
    check,
    parse,
    with_defaults,
)
from cooperator.connectors.references import contains_reference
from cooperator.model.text import did_you_mean, otherwise

GROUP = "cooperator.connectors"


_PLUGINS = "docs/plugins.md"
_FIX_CLASS = "use absolute paths, or report it to the author of the class"


@cache
def _installed() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Maps each class to its entry points; more than one means that installed packages conflict."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        others = found.get(entry.name, ())
        if entry.value not in {other.value for other in others}:
            found[entry.name] = (*others, entry)
    return found


def known_classes() -> list[str]:
    """Returns the installed connector classes, sorted."""
    return sorted(_installed())


@cache
def find(class_name: str) -> Connector[Any]:
    """Returns the connector of that class.

    Raises ``OptionError`` when the class is not installed, is installed more than once, or cannot be used;
    the error names the packages and the remedy.
    """
    entries = _installed().get(class_name, ())
    if not entries:
        # Plug-ins' class names resemble the built-in ones by design.
        hint = did_you_mean(class_name, known_classes(), cutoff=0.8)
        wanted = otherwise(hint, "install")
        remedy = (
            f"{wanted} the plug-in that provides it, here and on every member of its Worker ({_PLUGINS}); "
            f"installed are: {', '.join(known_classes())}"
        )
        raise _unusable(class_name, "is not an installed class", remedy)
    if len(entries) > 1:
        packages = " and ".join(sorted(_described(entry) for entry in entries))
        raise _unusable(class_name, f"is provided by {packages}", "uninstall all but one of them")
    [entry] = entries
    remedy = f"fix or uninstall {_package(entry)}"
    try:
        connector = entry.load()()
    except Exception as error:
        problem = f"cannot be loaded from {_described(entry)}: {type(error).__name__}: {error}"
        raise _unusable(class_name, problem, remedy) from error
    if not isinstance(connector, Connector):
        raise _unusable(class_name, f"{_described(entry)} is not a subclass of Connector", remedy)
    options = getattr(connector, "options", None)
    if not (isinstance(options, type) and issubclass(options, Options)):
        problem = f"{_described(entry)} has no attribute ``options`` that is a subclass of Options"
        raise _unusable(class_name, problem, remedy)
    return connector


def _unusable(class_name: str, problem: str, remedy: str) -> OptionError:
    return OptionError([Problem("connector.class", class_name, problem, remedy)])


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _described(entry: EntryPoint) -> str:
    return f"{_package(entry)} ({entry.value})"


def validate(class_name: str, config: Mapping[str, str]) -> list[Problem]:
    """Returns the problems in a connector's configuration that can be found without running it.

    ``config`` is the flat map of the config log (``connector.class`` may be left out). Values that hold
    references are not checked. An empty list means that the configuration can be applied.
    """
    try:
        connector = find(class_name)
    except OptionError as error:
        return list(error.problems)
    return check(connector.options, {**config, "connector.class": class_name})


def delivery(class_name: str, config: Mapping[str, str]) -> Delivered | None:
    """Returns the delivery guarantee of the connector's sink under this configuration (``${…}`` unresolved).

    Returns None when it cannot be determined: the class is not installed here, or the configuration is
    invalid.
    """
    try:
        connector = find(class_name)
        written = with_defaults(connector.options, {**config, "connector.class": class_name})
        return connector.delivery(parse(connector.options, written, running=True))
    except Exception:
        # An exception of a connector class affects only the Connectors of that class; applying one reports
        # it.
        return None


def needs_checkpoints(class_name: str, config: Mapping[str, str]) -> bool:
    """Whether the connector depends on checkpoints that all members share; False if it cannot be determined:
    the class is not installed here, or the configuration is invalid."""
    try:
        connector = find(class_name)
        written = with_defaults(connector.options, {**config, "connector.class": class_name})
        return connector.needs_checkpoints(parse(connector.options, written, running=True))
    except Exception:
        return False


def outputs(class_name: str, config: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the directories, as configured, that the connector's file sinks use exclusively.

    Leaves out those that cannot be determined: the class is not installed here, the configuration is invalid,
    or the directory contains a reference.
    """
    try:
        connector = find(class_name)
        written = with_defaults(connector.options, {**config, "connector.class": class_name})
        found = tuple(connector.outputs(parse(connector.options, written, running=True)))
    except Exception:
        return ()
    return tuple(directory for directory in found if not contains_reference(directory))


def anchor(class_name: str, config: Mapping[str, str], base: Path) -> dict[str, str]:
    """Returns ``config`` with relative local paths made absolute against ``base`` (a manifest's directory).

    URIs, references and everything else stay as they are.
    """
    options = find(class_name).options
    try:
        return options.anchored(config, base)
    except Exception as error:
        raise _unusable(class_name, f"cannot resolve paths ({type(error).__name__})", _FIX_CLASS) from error
