"""``status``, ``top`` and ``get`` of both platforms count the same, whatever the tasks do."""

import io
import json
import random
import re
from typing import Any

import pytest
from rich.console import Console

from cooperator.cli.kubectl.seen import Seen
from cooperator.cli.kubectl.status_text import status_text
from cooperator.cli.kubectl.top import view_of as cluster_view
from cooperator.crd import Connector, Worker, parse
from cooperator.crd.manifests import to_manifest
from cooperator.host.status import WorkerFacts, connector_status, worker_status
from cooperator.local.store import Stored
from cooperator.local.view import state_view
from cooperator.terminal.tables import connectors_table, workers_table
from cooperator.terminal.top import picture

NOW = 1_700_000_000_000
MANIFESTS = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 1, runtime: spark}
"""
CONNECTOR = """
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: %s}
spec: {class: kafka-to-files, workerRef: {name: lake}, tasksMax: 300}
"""
STATES = ("RUNNING", "RUNNING", "RUNNING", "FAILED", "HELD", "UNASSIGNED", "STARTING", "PAUSED")


def task(connector: str, number: int, state: str, chance: random.Random) -> dict[str, Any]:
    report = {"rows_in": 1, "lag": chance.randrange(50), "rows_per_s": float(chance.randrange(9))}
    more = {"held_for": "lake-9", "held_until_ms": NOW + 9_000, "held_reason": "Departed"}
    return {
        "name": connector if number < 0 else f"{connector}-{number}",
        "connector": connector,
        "task": number,
        "state": "RUNNING" if number < 0 else state,
        "member": None if state in ("HELD", "UNASSIGNED") else "lake-0",
        "trace": "no disk" if state == "FAILED" else "",
        "at_ms": NOW - 1_000,
        "progress": json.dumps(report) if state == "RUNNING" and number >= 0 else "",
        **(more if state == "HELD" and number >= 0 else {}),
    }


def shown(view: dict[str, Any]) -> str:
    """The sums of a picture, without its time."""
    file = io.StringIO()
    Console(width=300, file=file).print(picture(view, ""))
    return file.getvalue().splitlines()[0].partition(", ")[2]


@pytest.mark.parametrize("seed", range(30))
def test_they_count_the_same(seed: int) -> None:
    chance = random.Random(seed)
    sizes = {
        name: chance.choice([0, 1, 7, 100, 101, 250]) for name in ("a", "b", "c")[: chance.randint(1, 3)]
    }
    worker, *connectors = parse(MANIFESTS + "".join(CONNECTOR % name for name in sizes), "t")
    assert isinstance(worker, Worker)
    tasks = [
        task(name, number, chance.choice(STATES), chance)
        for name, size in sizes.items()
        for number in range(-1, size)
    ]
    facts = WorkerFacts(
        leader={"leading": True, "known": True, "generation": 3, "tasks": tasks, "settled": True}
    )
    told = [each for each in connectors if isinstance(each, Connector)]
    bodies = [to_manifest(each, connector_status(each, (worker,), facts.leader, NOW)) for each in told]
    whole = to_manifest(worker, worker_status(worker, facts, NOW))

    own = [each for each in tasks if each["task"] >= 0]
    count = {state: sum(each["state"] == state for each in own) for state in set(STATES)}
    reports = [json.loads(each["progress"]) for each in own if each["progress"]]
    in_cluster = shown(cluster_view(Seen([whole], bodies), (), NOW, {}))
    here = shown(state_view(Stored((worker, *told)), {("default", "lake"): facts}, NOW))

    assert f"{count['RUNNING']} of {len(own)} tasks run" in in_cluster
    figures = r"(\d+ of \d+ tasks run|\d+ (?:FAILED|HELD)|[\d,]+ rows/s|[\d,]+ behind)"
    assert re.findall(figures, in_cluster) == re.findall(figures, here)
    if reports:
        assert f"{sum(report['lag'] for report in reports):,} behind" in in_cluster
        assert f"{round(sum(report['rows_per_s'] for report in reports)):,} rows/s" in in_cluster
    for state in ("FAILED", "HELD"):
        assert (f"{count[state]} {state}" in in_cluster) == bool(count[state])
    fraction = f"{count['RUNNING']}/{len(own)}"
    assert fraction in workers_table([whole], NOW)
    assert fraction in status_text(Seen([whole], bodies), NOW)
    assert whole["status"]["taskSummary"] == fraction
    assert whole["status"]["tasks"]["held"] == count["HELD"]
    for name, size in sizes.items():
        running = sum(each["connector"] == name and each["state"] == "RUNNING" for each in own)
        assert f"{running}/{size}" in connectors_table(
            [b for b in bodies if b["metadata"]["name"] == name], NOW
        )
