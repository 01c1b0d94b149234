"""Local mode knows a connector by its resource, and its group by its name in Kafka."""

from pathlib import Path
from typing import Any, cast

from cooperator.crd import parse
from cooperator.host.status import WorkerFacts
from cooperator.host.worker_loop import WorkerLoop
from cooperator.local.host import Host
from cooperator.local.layout import LocalCluster, StateDir
from cooperator.local.platform import LocalPlatform
from cooperator.local.store import Stored
from cooperator.local.view import state_view
from cooperator.wire import RestartRecord

PIPES = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: pipes}
spec: {runtime: connect}
"""
ORDERS = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: orders, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {workerRef: {name: pipes}, class: a.B, connectorName: My Orders}
"""
LATER = ORDERS.replace("name: orders", "name: again").replace("00:00:00Z", "00:00:01Z")
"""A second one of that name, as it can come to be by hand."""
STORED = Stored(tuple(resource for text in (PIPES, ORDERS, LATER) for resource in parse(text, "test")))


class RecordingLoop:
    """A Worker's loop that notes what it is told to restart."""

    def __init__(self) -> None:
        self.records: list[RestartRecord] = []

    def restart(self, record: RestartRecord) -> int:
        self.records.append(record)
        return 202


def test_a_restart_reaches_the_group_under_the_name_in_kafka(tmp_path: Path) -> None:
    host, loop = Host(StateDir(tmp_path), LocalCluster("id", "127.0.0.1:1")), RecordingLoop()
    host._stored = STORED
    host._workers = {("default", "pipes"): cast(WorkerLoop[LocalPlatform], loop)}
    assert host._restart("default", RestartRecord("orders", task=1)) == (202, "")
    assert loop.records == [RestartRecord("My Orders", task=1)]


def test_running_tasks_are_shown_by_their_own_connector_only() -> None:
    def item(number: int, **more: Any) -> dict[str, Any]:
        loop = {"name": f"My Orders-{number}", "connector": "My Orders", "task": number, "trace": ""}
        return {**loop, "state": "RUNNING", "member": "w", "progress": "", "at_ms": 1, **more}

    leader = {
        "leading": True,
        "known": True,
        "generation": 1,
        "members": [],
        "tasks": [item(-1), item(0)],
        "conditions": [],
    }
    view = state_view(STORED, {("default", "pipes"): WorkerFacts(leader=leader)}, 1_000)
    shown = {each["metadata"]["name"]: each["status"] for each in view["connectors"]}
    assert (shown["orders"]["state"], shown["orders"]["taskSummary"]) == ("RUNNING", "1/1")
    assert shown["again"]["taskSummary"] == "0/0"
    stalled = {each["type"]: each for each in shown["again"]["conditions"]}["Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "InvalidSpec")
    assert "already the name in Kafka of Connector orders of Worker pipes" in stalled["message"]
