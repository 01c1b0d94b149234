"""The REST API with in-memory dictionaries in place of its backends."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cooperator.connectors.offsets import Change
from cooperator.crd import Connector
from cooperator.crd.connector import State
from cooperator.model import ClusterConfig, ConnectorConfig, TargetState
from cooperator.rest.answers import Answer, RequestRefused, Right
from cooperator.rest.front import Front, Request
from cooperator.rest.parts import Entries, OffsetChange
from cooperator.rest.spark import SparkMembers
from cooperator.rest.translate import flat
from cooperator.wire import RestartRecord

WORKER = ("default", "lake")
NOOP = {"connector.class": "noop", "tasks.max": "2", "units": "2"}
_STATES = {State.RUNNING: "RUNNING", State.PAUSED: "PAUSED", State.STOPPED: "STOPPED"}


@dataclass
class FakeConnectors:
    """Resources, some of which other tools manage."""

    found: dict[str, Connector] = field(default_factory=dict)
    managed: set[str] = field(default_factory=set)

    def all(self) -> Sequence[Connector]:
        return [c for c in self.found.values() if c.spec.worker_ref.name == WORKER[1]]

    def find(self, name: str) -> Connector | None:
        return next((c for c in self.all() if c.connector_name == name), None)

    def resource(self, name: str) -> Connector | None:
        return self.found.get(name)

    def create(self, connector: Connector) -> None:
        self.found[connector.metadata.name] = connector

    def change(self, before: Connector, after: Connector) -> None:
        if before.metadata.name in self.managed:
            raise RequestRefused(403, "helm manages spec.config")
        self.found[before.metadata.name] = after

    def delete(self, connector: Connector) -> None:
        del self.found[connector.metadata.name]


@dataclass
class FakeGroup:
    """One member, which runs every desired task at once. ``adopted`` has connectors of the config topic
    only."""

    connectors: FakeConnectors
    adopted: dict[str, dict[str, str]] = field(default_factory=dict)
    restarts: list[RestartRecord] = field(default_factory=list)
    leading: bool = True
    busy: set[str] = field(default_factory=set)
    """Connectors whose tasks do not stop."""

    def status(self) -> Mapping[str, Any]:
        tasks = []
        for connector in self.connectors.all():
            name, state = connector.connector_name, _STATES[connector.spec.state]
            numbers = [-1] if state == "STOPPED" else range(-1, connector.spec.tasks_max)
            for number in numbers:
                reported = {"name": f"{name}-{number}", "connector": name, "task": number, "trace": ""}
                shown = "RUNNING" if name in self.busy else state
                tasks.append({**reported, "state": shown, "member": "lake-0"})
        known = {
            c.connector_name: {"state": _TARGETS[c.spec.state].value, "regrouping": False}
            for c in self.connectors.all()
        }
        return {
            "leading": self.leading,
            "known": self.leading,
            "tasks": tasks,
            "members": [],
            "connectors": known,
        }

    def config(self) -> ClusterConfig:
        ours = {
            c.connector_name: ConnectorConfig(
                flat(c), _TARGETS[c.spec.state], tuple({"task": str(n)} for n in range(c.spec.tasks_max))
            )
            for c in self.connectors.all()
        }
        return ClusterConfig(1, {name: ConnectorConfig(c) for name, c in self.adopted.items()} | ours)

    def adopts(self) -> bool:
        return bool(self.adopted)

    def restart(self, record: RestartRecord) -> int:
        connector = self.config().connectors.get(record.connector)
        if not self.leading:
            return 409
        if connector is None or (record.task or 0) >= max(1, connector.task_count):
            return 404
        self.restarts.append(record)
        return 202

    def cluster_id(self) -> str:
        return "fake"


_TARGETS = {
    State.RUNNING: TargetState.STARTED,
    State.PAUSED: TargetState.PAUSED,
    State.STOPPED: TargetState.STOPPED,
}


@dataclass
class FakeOffsets:
    """Offsets by connector and partition."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    def listed(self, name: str, config: Mapping[str, str]) -> list[dict[str, Any]]:
        entries = self.kept.get(name, {}).items()
        return [{"partition": json.loads(partition), "offset": offset} for partition, offset in entries]

    def alter(self, name: str, config: Mapping[str, str], entries: Entries) -> str:
        kept = self.kept.setdefault(name, {})
        for partition, offset in entries:
            kept[json.dumps(partition, sort_keys=True)] = offset
            if offset is None:
                del kept[json.dumps(partition, sort_keys=True)]
        return "altered"

    def reset(self, name: str, config: Mapping[str, str]) -> str:
        self.kept.pop(name, None)
        return "reset"

    def changed(self, name: str, config: Mapping[str, str], asked: OffsetChange) -> list[Change]:
        raise NotImplementedError

    def migrate(self, name: str, config: Mapping[str, str]) -> str:
        return "migrated"


@dataclass
class FakeAccess:
    """``tokens`` maps callers to their rights; None allows everything to everybody."""

    tokens: Mapping[str, set[Right]] | None = None
    asked: list[Right] = field(default_factory=list)

    def permit(self, authorization: str, right: Right) -> None:
        self.asked.append(right)
        if self.tokens is None:
            return
        if authorization not in self.tokens:
            raise RequestRefused(401, "unknown")
        if right not in self.tokens[authorization]:
            raise RequestRefused(403, "not allowed")


class AnyName(SparkMembers):
    """Stock workers, whose connectors may have any name."""

    def wrong_name(self, name: str) -> str:
        return ""


class FakeFront:
    """The API and all of its backends."""

    def __init__(
        self, tokens: Mapping[str, set[Right]] | None = None, members: SparkMembers | None = None
    ) -> None:
        self.connectors = FakeConnectors()
        self.group = FakeGroup(self.connectors)
        self.offsets = FakeOffsets()
        self.access = FakeAccess(tokens)
        known = members or SparkMembers()
        self.front = Front(WORKER, self.connectors, self.group, known, self.offsets, self.access)

    def __call__(self, line: str, body: Any = None, authorization: str = "", **more: str) -> Answer:
        """``line`` is a method and a path with its query. A body that is not a text is sent as JSON."""
        method, _, target = line.partition(" ")
        path, _, query = target.partition("?")
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        return self.front.answer(Request(method, path, query, data, authorization=authorization, **more))

    def ok(self, line: str, body: Any = None, code: int = 200) -> Any:
        answer = self(line, body)
        assert answer.status == code, answer
        return answer.body

    def refused(self, line: str, body: Any = None, code: int = 400, **more: str) -> str:
        """The message of a refusal with ``code``."""
        answer = self(line, body, **more)
        assert answer.status == code, answer
        assert answer.body["error_code"] == code
        return str(answer.body["message"])

    def create(self, name: str = "a", **config: str) -> Any:
        return self.ok("POST /connectors", {"name": name, "config": {**NOOP, **config}}, 201)
