"""Nodes in two zones: each connector's tasks are in both."""

import pytest

from tests.harness.installation import Installation

pytestmark = pytest.mark.real

ZONE = {"lake-0": "east", "lake-1": "east", "lake-2": "west", "lake-3": "west"}
LABEL = "example.com/room"


def test_tasks_of_each_connector_are_spread_over_zones(installation: Installation) -> None:
    """Without known zones, both tasks of ``b`` may be in the same zone."""
    installation.kubelet.takes = lambda pod: False
    for zone in ("east", "west"):
        installation.another_kubelet(labels={LABEL: zone}, takes=lambda pod, zone=zone: ZONE.get(pod) == zone)
    installation.operator()
    installation.worker(replicas=4, zoneLabel=LABEL)
    installation.eventually(
        lambda: installation.condition("workers", "lake", "MembersReady")["status"] == "True", 90
    )
    for name in "abcd":
        installation.connector(name, tasksMax=2)
    tasks = [f"{name}-{number}" for name in "abcd" for number in (0, 1)]
    running = installation.runs(*tasks)
    for name in "abcd":
        at = [ZONE[running[f"{name}-{number}"]] for number in (0, 1)]
        assert sorted(at) == ["east", "west"], f"{name} is at {at}"
    per_member = [list(running.values()).count(member) for member in ZONE]
    assert per_member == [2, 2, 2, 2], "and balance is as it was"
