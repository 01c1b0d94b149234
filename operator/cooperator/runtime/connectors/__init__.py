"""The connectors: the plug-in interface (``base``, ``spark``), how classes are found, the built-in ones.

What may live here: one connector a file, and what several of them share. May use confluent-kafka (for
transactional sinks and for looking at topics); imports pyspark only inside functions.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from cooperator.runtime.connectors.base import Connector, Delivered
from cooperator.runtime.options import OptionError, Problem, check, option_names, parse, with_defaults

GROUP = "cooperator.connectors"


@cache
def _installed() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def known_classes() -> list[str]:
    """The connector classes that are installed here, sorted."""
    return sorted(_installed())


@cache
def find(class_name: str) -> Connector[Any]:
    """The connector of that class; OptionError naming the known ones when there is none."""
    entry = _installed().get(class_name)
    if entry is None:
        raise OptionError([_unusable(class_name, "is not a class that is installed here")])
    connector = entry.load()()
    if not isinstance(connector, Connector):
        raise OptionError([_unusable(class_name, f"{entry.value} is no subclass of Connector")])
    return connector


def _unusable(class_name: str, problem: str) -> Problem:
    known = ", ".join(known_classes())
    return Problem("connector.class", class_name, problem, f"use one of: {known}")


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
