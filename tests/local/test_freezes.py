"""A connector that freezes one member after the other is quarantined."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.lifecycle import kill_everything
from tests.harness.support import eventually
from tests.local.command_line import Local

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
spec:
  replicas: 2
  scheduledRebalanceMaxDelayMs: 2000
  leaseMs: 10000
  sessionTimeoutMs: 6000
  heartbeatIntervalMs: 500
  rebalanceTimeoutMs: 4000
"""
CONNECTOR = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: WHICH}
spec: {workerRef: {name: NAME}, class: noop, tasksMax: 2, config: {units: 2, freezes: "WHERE"}}
"""


@pytest.fixture
def running(tmp_path: Path, broker: EmbeddedBroker, where: str) -> Iterator[Local]:
    local = Local(tmp_path, f"ice-{where}-{os.getpid()}")
    try:
        local("up", "--bootstrap-servers", broker.bootstrap_servers)
        yield local
    finally:
        kill_everything(local.state)


@pytest.mark.long(
    "tests/local/test_local.py::"
    "test_a_task_whose_start_kills_its_member_is_taken_out_until_its_connector_is_changed"
)
@pytest.mark.parametrize("where", ["units", "start"])
def test_it_is_quarantined_after_its_second_member_and_its_neighbour_runs(running: Local, where: str) -> None:
    def tasks(connector: str) -> list[dict[str, Any]]:
        return [task for task in running.ask("tasks") if task["connector"] == connector]

    def calm() -> bool:
        return [task["state"] for task in tasks("calm")] == ["RUNNING"] * 3

    running.apply(WORKER, CONNECTOR.replace("WHICH", "calm").replace("WHERE", "never"))
    eventually(calm, 60)
    began_s = time.monotonic()
    # A task that has run for a minute is not suspected.
    eventually(lambda: time.monotonic() - began_s > 62, 70)
    before = {name: each.incarnation for name, each in running.incarnations().items()}
    running.apply(CONNECTOR.replace("WHICH", "ice").replace("WHERE", where))
    eventually(lambda: "PoisonTask" in {task.get("reason") for task in tasks("ice")}, 200, "it is taken out")
    eventually(calm, 60, "the other one runs")
    [connector] = (c for c in running.get("connectors") if c["metadata"]["name"] == "ice")
    conditions = {each["type"]: each for each in connector["status"]["conditions"]}
    assert conditions["Stalled"]["status"] == "True"
    assert "restart it" in conditions["Stalled"]["message"]
    now = {name: each.incarnation for name, each in running.incarnations().items()}
    assert now != before, "members were ended by their watchdogs"

    running("delete", "connector", "ice")
    eventually(lambda: not tasks("ice"), 60)
    eventually(calm, 10)


@pytest.mark.long(
    "tests/agent/test_frozen_members.py::test_the_task_whose_thread_keeps_the_interpreter_lock_is_named"
)
@pytest.mark.parametrize("where", ["later"])
def test_a_task_that_freezes_long_after_its_start_is_named_by_the_watchdog(
    running: Local, where: str
) -> None:
    def tasks(connector: str) -> list[dict[str, Any]]:
        return [task for task in running.ask("tasks") if task["connector"] == connector]

    one = CONNECTOR.replace("tasksMax: 2, config: {units: 2", "tasksMax: 1, config: {units: 1")
    running.apply(WORKER, CONNECTOR.replace("WHICH", "calm").replace("WHERE", "never"))
    running.apply(one.replace("WHICH", "ice").replace("WHERE", where))
    eventually(lambda: [t.get("reason") for t in tasks("ice") if t["task"] == 0] == ["PoisonTask"], 300)
    eventually(lambda: [task["state"] for task in tasks("calm")] == ["RUNNING"] * 3, 60)
    assert not any(task.get("reason") for task in tasks("calm")), (
        "those that were new with it are not accused"
    )
