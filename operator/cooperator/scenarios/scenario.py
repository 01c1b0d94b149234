"""Scenarios as JSON lines: a group's initial state, and the events that follow (``docs/scenarios.md``).

The fields are ``id, name, protocol, scheduled_rebalance_max_delay_ms, rejoin_ms, config0, workers0, events``;
everything else in a line is ignored. Event types beyond Kafka's vectors: ``drain`` (the pod announces its
departure), ``vanish`` (it is gone, without a proof of its end), ``cordon``, ``uncordon`` and ``expect``
(the pods that should exist).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.model import TaskId
from cooperator.model.text import choice

QUIET = frozenset({"freeze", "fail_next"})
"""Types of events that do not trigger a round."""

NEEDS = {
    "join": ("pod",),
    "leave": ("pod",),
    "kick": ("pod",),
    "rejoin_running": ("pod",),
    "join_with": ("pod", "connectors", "tasks"),
    "freeze": ("pod",),
    "fail_next": ("pods",),
    "set": ("connector", "tasks"),
    "delete": ("connector",),
    "rebalance": (),
    "drain": ("pod",),
    "vanish": ("pod",),
    "cordon": ("pod",),
    "uncordon": ("pod",),
    "expect": ("pods",),
}
"""The required fields of each event type, besides ``time_ms``."""

LEARN_BYTES_PER_S: Final = 50_000_000

EXAMPLE: Final = (
    '{"name": "a member dies and is back a minute later", "scheduled_rebalance_max_delay_ms": 300000, '
    '"rejoin_ms": 1000, "config0": {"orders": 4, "clicks": 2}, "workers0": ["w00", "w01", "w02"], "events": ['
    '{"time_ms": 60000, "type": "leave", "pod": "w01"}, {"time_ms": 120000, "type": "join", "pod": "w01"}]}\n'
    '{"name": "a member is drained and leaves", "scheduled_rebalance_max_delay_ms": 300000, '
    '"rejoin_ms": 1000, "config0": {"orders": 4}, "workers0": ["w00", "w01"], "events": ['
    '{"time_ms": 60000, "type": "drain", "pod": "w01"}, {"time_ms": 90000, "type": "leave", "pod": "w01"}]}\n'
)


class ScenarioError(ValueError):
    """A scenario that cannot be run; the message names the line, the field and the expected value."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at ``time_ms``. ``raw`` is the event as it stands in the scenario."""

    time_ms: int
    type: str
    raw: Mapping[str, Any]
    pod: int = -1
    pods: tuple[int, ...] = ()
    connector: str = ""
    count: int = 0
    items: tuple[TaskId, ...] = ()
    dead: bool = False

    @property
    def subject(self) -> str:
        """The pods or the connector of the event, as text for users."""
        return self.connector or ",".join(f"w{pod:02d}" for pod in (self.pods or (self.pod,)) if pod >= 0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """``workers0``: the pods that exist at the start, in the order in which they join. ``names``: names of
    pods that are not named after their numbers. ``state``: bytes of each task's state, by connector; members
    learn it, or read it when they start cold, at ``learn_bytes_per_s``."""

    id: str
    name: str
    protocol: str
    max_delay_ms: int
    rejoin_ms: int
    config0: Mapping[str, int]
    workers0: tuple[int, ...]
    events: tuple[Event, ...] = field(default_factory=tuple)
    names: Mapping[int, str] = field(default_factory=dict)
    state: Mapping[str, int] = field(default_factory=dict)
    learn_bytes_per_s: int = LEARN_BYTES_PER_S


def read_scenarios(path: Path) -> Iterator[Scenario]:
    """Yield the scenarios of a file, in order. Raises ScenarioError, OSError."""
    with path.open(encoding="utf-8") as lines:
        yield from parse_scenarios(lines, str(path))


def parse_scenarios(lines: Iterable[str], source: str) -> Iterator[Scenario]:
    """Yield the scenarios of ``lines``; empty lines are skipped. Raises ScenarioError."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{source}:{number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ScenarioError(f"{where}: not valid JSON: {error}") from error
        if not isinstance(value, dict):
            raise ScenarioError(f"{where}: a scenario must be a JSON object, not {type(value).__name__}")
        yield _scenario(value, where)


def _scenario(value: Mapping[str, Any], where: str) -> Scenario:
    config = _field(value, "config0", dict, where)
    events = _field(value, "events", list, where)
    parsed = [_event(event, f"{where}: events[{i}]") for i, event in enumerate(events)]
    return Scenario(
        id=str(value.get("id", "")),
        name=str(value.get("name", value.get("id", ""))),
        protocol=str(value.get("protocol", "sessioned")),
        max_delay_ms=_count(value, "scheduled_rebalance_max_delay_ms", where),
        rejoin_ms=_count(value, "rejoin_ms", where),
        config0={name: _count(config, name, f"{where}: config0") for name in config},
        workers0=tuple(_pod(pod, f"{where}: workers0") for pod in _field(value, "workers0", list, where)),
        events=tuple(sorted(parsed, key=lambda event: event.time_ms)),
        **_state(value, where),
    )


def _state(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The optional fields of tasks with state."""
    found: dict[str, Any] = {}
    if "state" in value:
        state = _field(value, "state", dict, where)
        found["state"] = {name: _count(state, name, f"{where}: state") for name in state}
    if "learn_bytes_per_s" in value:
        found["learn_bytes_per_s"] = _count(value, "learn_bytes_per_s", where)
        if not found["learn_bytes_per_s"]:
            raise ScenarioError(f"{where}: learn_bytes_per_s is 0, but must be at least 1")
    return found


def _event(value: object, where: str) -> Event:
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: an event must be a JSON object, not {value!r}")
    kind = _field(value, "type", str, where)
    if kind not in NEEDS:
        raise ScenarioError(f"{where}: unknown type {kind!r}; {choice(kind, sorted(NEEDS))}")
    for name in NEEDS[kind]:
        if name not in value:
            raise ScenarioError(f"{where}: {name} is missing; an event of type {kind} needs it")
    items: tuple[TaskId, ...] = ()
    if kind == "join_with":
        names = _field(value, "tasks", list, where)
        instances = (TaskId(str(name), -1) for name in _field(value, "connectors", list, where))
        items = (*instances, *(_task(name, f"{where}: tasks") for name in names))
    return Event(
        time_ms=_count(value, "time_ms", where),
        type=kind,
        raw=value,
        pod=_pod(value["pod"], f"{where}: pod") if "pod" in value else -1,
        pods=tuple(_pod(pod, f"{where}: pods") for pod in value.get("pods", ())),
        connector=str(value.get("connector", "")),
        count=_count(value, "tasks", where) if kind == "set" else 0,
        items=items,
        dead=bool(value.get("dead", False)),
    )


def _field(value: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    found = value.get(name)
    if not isinstance(found, kind):
        raise ScenarioError(f"{where}: {name} is {found!r}, but must be of type {kind.__name__}")
    return found


def _count(value: Mapping[str, Any], name: str, where: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ScenarioError(f"{where}: {name} is {found!r}, but must be at least 0")
    return found


def _pod(value: object, where: str) -> int:
    """Parse a pod, given as a number or a name: 2 and "w02" are the same."""
    number = value
    if isinstance(value, str) and value[:1] == "w" and value[1:].isdecimal():
        number = int(value[1:])
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ScenarioError(f'{where}: {value!r} is not a pod; use a number or a name such as "w02"')
    return number


def parse_task(name: str) -> TaskId | None:
    """Parse a task name like ``orders-0``; None if it is not one."""
    connector, dash, number = name.rpartition("-")
    return TaskId(connector, int(number)) if dash and number.isdecimal() else None


def _task(value: object, where: str) -> TaskId:
    task = parse_task(str(value))
    if task is None:
        raise ScenarioError(f'{where}: {value!r} is not a task; use a name such as "connector1-0"')
    return task
