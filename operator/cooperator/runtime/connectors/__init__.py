"""The connectors: the plug-in interface (``base``, ``spark``), how classes are found, the built-in ones.

What may live here: one connector a file, and what several of them share. May use confluent-kafka (for
transactional sinks and for looking at topics); imports pyspark only inside functions.
"""

import difflib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from cooperator.runtime.connectors.base import Connector, Delivered
from cooperator.runtime.options import (
    OptionError,
    Options,
    Problem,
    check,
    option_names,
    parse,
    with_defaults,
)

GROUP = "cooperator.connectors"


_PLUGINS = "docs/plugins.md"


@cache
def _installed() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Class to what declares it: one entry point, unless packages are in each other's way."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        others = found.get(entry.name, ())
        if entry.value not in {other.value for other in others}:
            found[entry.name] = (*others, entry)
    return found


def known_classes() -> list[str]:
    """The connector classes that are installed here, sorted."""
    return sorted(_installed())


@cache
def find(class_name: str) -> Connector[Any]:
    """The connector of that class. OptionError when there is none, or more than one, or one that cannot be
    used; it names the packages and the remedy."""
    entries = _installed().get(class_name, ())
    if not entries:
        near = difflib.get_close_matches(class_name, known_classes(), n=1, cutoff=0.8)
        wanted = f"did you mean {near[0]!r}? Otherwise install" if near else "install"
        remedy = (
            f"{wanted} the plug-in that brings it, here and on every member of its Worker ({_PLUGINS}); "
            f"installed are: {', '.join(known_classes())}"
        )
        raise _unusable(class_name, "is not a class that is installed here", remedy)
    if len(entries) > 1:
        packages = " and ".join(sorted(_described(entry) for entry in entries))
        raise _unusable(class_name, f"is brought by {packages}", "uninstall all but one of them")
    [entry] = entries
    remedy = f"mend or uninstall {_package(entry)}"
    try:
        connector = entry.load()()
    except Exception as error:
        problem = f"cannot be loaded from {_described(entry)}: {type(error).__name__}: {error}"
        raise _unusable(class_name, problem, remedy) from error
    if not isinstance(connector, Connector):
        raise _unusable(class_name, f"{_described(entry)} is no subclass of Connector", remedy)
    options = getattr(connector, "options", None)
    if not (isinstance(options, type) and issubclass(options, Options)):
        problem = f"{_described(entry)} has no attribute options that is a subclass of Options"
        raise _unusable(class_name, problem, remedy)
    return connector


def _unusable(class_name: str, problem: str, remedy: str) -> OptionError:
    return OptionError([Problem("connector.class", class_name, problem, remedy)])


def _package(entry: EntryPoint) -> str:
    return "an unknown package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def _described(entry: EntryPoint) -> str:
    return f"{_package(entry)} ({entry.value})"


def validate(class_name: str, config: Mapping[str, str]) -> list[Problem]:
    """What is wrong with a connector's configuration, as far as it can be told without running it.

    ``config`` is the flat map of the config log (``connector.class`` may be left out); values that
    hold references are not looked at. An empty list means that it can be applied.
    """
    try:
        connector = find(class_name)
    except OptionError as error:
        return list(error.problems)
    return check(connector.options, {**config, "connector.class": class_name})


def delivery(class_name: str, config: Mapping[str, str]) -> Delivered | None:
    """What the connector promises for its sink under this configuration (``${…}`` unresolved); None when
    that cannot be told: the class is not installed here, or the configuration is in error."""
    try:
        connector = find(class_name)
        written = with_defaults(connector.options, {**config, "connector.class": class_name})
        return connector.delivery(parse(connector.options, written))
    except OptionError:
        return None


def anchor(class_name: str, config: Mapping[str, str], base: Path) -> dict[str, str]:
    """``config`` with local paths that were written relative to ``base`` (a manifest's directory) made
    absolute. URIs, references and everything else stay as they are."""
    paths = option_names(find(class_name).options, "local_path")

    def anchored(name: str, value: str) -> str:
        is_relative = value and not value.startswith("/") and "://" not in value and "${" not in value
        return str((base / value).resolve()) if name in paths and is_relative else value

    return {name: anchored(name, value) for name, value in config.items()}
