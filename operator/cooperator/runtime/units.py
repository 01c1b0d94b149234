"""What a connector's instance decides: the configurations of its tasks, and what may never change.

The layout of a connector lies beside its checkpoints: the options that cannot change while these live,
and the units it began with. It is written once, by the first instance that finds units.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cooperator.runtime.connectors.base import Connector
from cooperator.runtime.options import (
    OptionError,
    Options,
    Problem,
    option_names,
    parse,
    with_defaults,
)
from cooperator.runtime.places import Place, put
from cooperator.runtime.references import contains_reference

_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """``fixed``: option to value, as text. ``first``: the units that were there at the beginning."""

    fixed: Mapping[str, str]
    first: frozenset[str]


def directory(checkpoints: Place, connector: str) -> Place:
    """Where the connector's checkpoints and its layout are; ValueError when the name is no file name."""
    return checkpoints / _safe("connector name", connector)


def layout_file(checkpoints: Place, connector: str) -> Place:
    return directory(checkpoints, connector) / "layout.json"


def checkpoint(checkpoints: Place, connector: str, unit: str) -> Place:
    return directory(checkpoints, connector) / _safe("unit", unit)


def _safe(what: str, name: str) -> str:
    if not _SAFE.match(name):
        raise ValueError(f"{what} {name!r}: use letters, digits, dot, underscore and dash")
    return name


def fixed_values(options: Options, written: Mapping[str, str]) -> dict[str, str]:
    """The options that cannot change later, with their defaults; references are kept unresolved."""

    def text(field: str, name: str) -> str:
        value = written.get(name, "")
        return value if contains_reference(value) else str(getattr(options, field))

    kept = option_names(type(options), "fixed")
    return {
        name: text(field, name)
        for field, info in type(options).model_fields.items()
        if (name := info.alias or field) in kept
    }


def fixed_changes(
    connector: Connector[Any], before: Mapping[str, str], after: Mapping[str, str]
) -> list[Problem]:
    """The fixed options that ``after`` changes, of a connector that may have checkpoints by ``before``: both
    as written, with ``connector.class``. ``connector``: of the class before. Errors are left to others."""
    if before["connector.class"] != after["connector.class"]:
        pairs = {"connector.class": (before["connector.class"], after["connector.class"])}
    else:
        try:
            old, new = (
                fixed_values(parse(connector.options, with_defaults(connector.options, config)), config)
                for config in (before, after)
            )
        except OptionError:
            return []
        pairs = {name: (old[name], value) for name, value in new.items()}
    remedy = "set it back; or stop the connector, reset its offsets (it begins anew then), and change it"
    return [
        Problem(name, value, f"is fixed while there are checkpoints: it is {was!r} now", remedy)
        for name, (was, value) in pairs.items()
        if was != value
    ]


def read_layout(checkpoints: Place, connector: str) -> Layout | None:
    """None when the connector has none yet."""
    try:
        content = json.loads(layout_file(checkpoints, connector).read_text())
    except FileNotFoundError:
        return None
    return Layout(dict(content["fixed"]), frozenset(content["first"]))


def settle_layout(
    checkpoints: Place, connector: str, fixed: Mapping[str, str], units: Sequence[str]
) -> Layout:
    """The connector's layout, written now if it has none; OptionError when a fixed option has changed."""
    layout = read_layout(checkpoints, connector)
    if layout is None:
        layout = Layout(fixed, frozenset(units))
        content = json.dumps({"fixed": dict(fixed), "first": sorted(units)})
        put(layout_file(checkpoints, connector), content.encode())
    remedy = "set it back, or stop the connector and reset its offsets (it begins anew then)"
    changed = [
        Problem(
            name, value, f"is fixed: it was {layout.fixed[name]!r} when the connector was created", remedy
        )
        for name, value in fixed.items()
        if layout.fixed.get(name, value) != value
    ]
    if changed:
        raise OptionError(changed)
    return layout


def task_configs(
    connector: Connector[Any],
    config: Mapping[str, str],
    units: Sequence[str],
    tasks_max: int,
    earlier: Sequence[Mapping[str, str]] = (),
) -> list[dict[str, str]]:
    """The configurations of tasks 0, 1, …: the connector's as written, less what concerns its instance
    alone, and each task's units. ``earlier``: those of before, whose grouping is kept where it
    can be. ValueError when a unit's id is no file name or comes twice."""
    if len(set(units)) != len(units) or not all(_SAFE.match(unit) for unit in units):
        raise ValueError(f"unit ids must be distinct file names, not {', '.join(units[:10])}")
    dropped = option_names(connector.options, "instance_only")
    common = {name: value for name, value in config.items() if name not in dropped}
    before = [[unit for unit in task.get("task.units", "").split(",") if unit] for task in earlier]
    groups = connector.groups(units, tasks_max, before)
    return [{**common, "task.units": ",".join(group)} for group in groups]
