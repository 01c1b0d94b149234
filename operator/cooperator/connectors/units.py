"""The decisions of a connector's instance: the configurations of its tasks, and what must never change.

The layout of a connector is stored beside its checkpoints: the options that cannot change as long as these
exist, and the initial units. It is written once, by the first instance that finds units.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cooperator.connectors.base import Connector
from cooperator.connectors.options import (
    OptionError,
    Options,
    Problem,
    option_names,
    parse,
    with_defaults,
)
from cooperator.connectors.places import Place, create
from cooperator.connectors.references import contains_reference

PASSED_OVER = ("_", ".")
"""Names of files and directories that begin so are passed over by most readers."""
_SAFE = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]+\Z")
"""Each name that a topic may have, and so none that is another directory's."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of these checkpoints: a group, and the id of its Kafka cluster; empty where it is not
    known."""

    group_id: str
    cluster_id: str = ""

    def __str__(self) -> str:
        return f"the group {self.group_id}" + (
            f" in the Kafka cluster {self.cluster_id}" if self.cluster_id else ""
        )

    def may_be(self, other: "Owner") -> bool:
        return all(
            "" in pair or len(set(pair)) == 1
            for pair in ((self.group_id, other.group_id), (self.cluster_id, other.cluster_id))
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """``fixed`` maps options to values, as text. ``first`` holds the initial units."""

    fixed: Mapping[str, str]
    first: frozenset[str]
    owner: Owner = Owner("")

    def check_owner(self, checkpoints: Place, connector: str, owner: Owner) -> None:
        """Raises ``OptionError`` when the checkpoints belong to another group's connector."""
        if not self.owner.may_be(owner):
            problem = f"has checkpoints of connector {connector} of {self.owner} already"
            remedy = f"give the Worker of {owner} another spec.checkpointLocation, or rename the Connector"
            raise OptionError([Problem("spec.checkpointLocation", str(checkpoints), problem, remedy)])

    def check_fixed(self, fixed: Mapping[str, str]) -> None:
        """Raises ``OptionError`` when one of these options has another value here."""
        remedy = "change it back, or stop the connector and reset its offsets (it then starts over)"
        changed = [
            Problem(
                name, value, f"is fixed: it was {self.fixed[name]!r} when the connector was created", remedy
            )
            for name, value in fixed.items()
            if self.fixed.get(name, value) != value
        ]
        if changed:
            raise OptionError(changed)

    def encode(self) -> bytes:
        content = {
            "group_id": self.owner.group_id,
            "cluster_id": self.owner.cluster_id,
            "fixed": dict(self.fixed),
            "first": sorted(self.first),
        }
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, text: bytes) -> "Layout":
        content = json.loads(text)
        owner = Owner(content.get("group_id", ""), content.get("cluster_id", ""))
        return cls(dict(content["fixed"]), frozenset(content["first"]), owner)


def directory(checkpoints: Place, connector: str) -> Place:
    """Returns the place of the connector's checkpoints and layout; raises ``ValueError`` for a bad name."""
    return checkpoints / _safe("connector name", connector)


def layout_file(checkpoints: Place, connector: str) -> Place:
    return directory(checkpoints, connector) / "layout.json"


def checkpoint(checkpoints: Place, connector: str, unit: str) -> Place:
    """Returns the place of a unit's checkpoint. A unit whose id is no file name has never had one."""
    if not is_unit_id(unit):
        raise ValueError(f"unit {unit!r}: use printable characters other than commas and slashes")
    named = unit if _SAFE.match(unit) else f"unit-{hashlib.sha256(unit.encode()).hexdigest()}"
    return directory(checkpoints, connector) / named


def is_unit_id(name: str) -> bool:
    """Whether lists of units, which commas separate, and keys of Kafka, which slashes do, can have it."""
    is_text = bool(name) and name.isprintable() and name == name.strip()
    return is_text and not set(",/") & set(name) and name not in (".", "..")


def _safe(what: str, name: str) -> str:
    if not _SAFE.match(name):
        raise ValueError(f"{what} {name!r}: use letters, digits, dot, underscore and dash")
    return name


def fixed_values(options: Options, written: Mapping[str, str]) -> dict[str, str]:
    """Returns the options that cannot change later, with their defaults; references are kept unresolved."""

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
    """Returns the fixed options that ``after`` changes; there may be checkpoints of ``before``.

    Both configurations are as written, with ``connector.class``. ``connector`` is of the class before.
    Invalid options are not reported here.
    """
    if before["connector.class"] != after["connector.class"]:
        pairs = {"connector.class": (before["connector.class"], after["connector.class"])}
    else:
        try:
            old, new = (
                fixed_values(
                    parse(connector.options, with_defaults(connector.options, config), running=True), config
                )
                for config in (before, after)
            )
        except OptionError:
            return []
        pairs = {name: (old[name], value) for name, value in new.items()}
    remedy = "change it back; or stop the connector, reset its offsets (it then starts over), and change it"
    return [
        Problem(name, value, f"is fixed while checkpoints or positions exist: it is {was!r} now", remedy)
        for name, (was, value) in pairs.items()
        if was != value
    ]


def read_layout(checkpoints: Place, connector: str) -> Layout | None:
    """Returns the connector's layout; None when it has none yet."""
    try:
        return Layout.decode(layout_file(checkpoints, connector).read_bytes())
    except FileNotFoundError:
        return None


def settle_layout(
    checkpoints: Place, connector: str, owner: Owner, fixed: Mapping[str, str], units: Sequence[str]
) -> Layout:
    """Returns the connector's layout, and creates it if there is none: of concurrent calls one succeeds.

    Raises ``OptionError`` when a fixed option has changed, or the layout is another group's.
    """
    layout = read_layout(checkpoints, connector)
    if layout is None:
        layout = Layout(fixed, frozenset(units), owner)
        if not create(layout_file(checkpoints, connector), layout.encode()):
            # Another group, or another instance of this connector, was first. None: it was reset since.
            layout = read_layout(checkpoints, connector) or layout
    layout.check_owner(checkpoints, connector, owner)
    layout.check_fixed(fixed)
    return layout


def task_configs(
    connector: Connector[Any],
    config: Mapping[str, str],
    units: Sequence[str],
    tasks_max: int,
    earlier: Sequence[Mapping[str, str]] = (),
) -> list[dict[str, str]]:
    """Returns the configurations of tasks 0, 1, …

    Each is the connector's configuration as written, without options that concern only its instance, plus the
    task's units.

    ``earlier`` holds the previous configurations, whose grouping is kept where possible. Raises
    ``ValueError`` when a unit's id is not valid or occurs twice.
    """
    if len(set(units)) != len(units) or not all(map(is_unit_id, units)):
        raise ValueError(f"unit ids must be distinct names without commas, not {', '.join(units[:10])}")
    dropped = option_names(connector.options, "instance_only")
    common = {name: value for name, value in config.items() if name not in dropped}
    before = [[unit for unit in task.get("task.units", "").split(",") if unit] for task in earlier]
    groups = connector.groups(units, tasks_max, before)
    return [{**common, "task.units": ",".join(group)} for group in groups]
