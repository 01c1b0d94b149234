"""Deaths, drains and dead machines, on real kubelets; measured by what the members wrote themselves."""

import time
from typing import Any

import pytest

from cooperator.model import PodIncarnation
from e2e.node_installation import NodeNamespace

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

SIX = tuple(f"a-{n}" for n in range(6))


def started(place: NodeNamespace, **spec: Any) -> dict[str, str]:
    """Three members on two nodes that run six tasks, settled."""
    place.operator()
    place.pool(replicas=3, **spec)
    place.connector("a", tasksMax=6)
    place.runs(*SIX, timeout_s=240)
    place.settled()
    return place.runs(*SIX)


def of(running: dict[str, str], *members: str) -> set[str]:
    return {task for task, at in running.items() if at in members}


def starts(place: NodeNamespace) -> dict[str, int]:
    count: dict[str, int] = {}
    for run in place.journal.runs():
        count[run.task] = count.get(run.task, 0) + 1
    return count


def note_ends(place: NodeNamespace, pod: str) -> None:
    """Record the end of the pod's previous incarnation from the kubelet's report."""
    status = place.pods()[pod]["status"]["containerStatuses"][0]
    for state in (status.get("state", {}), status.get("lastState", {})):
        if "terminated" in state:
            incarnation = PodIncarnation.parse(state["terminated"]["message"].partition("\n")[0])
            assert incarnation is not None
            place.journal.ended.setdefault(str(incarnation), time.time_ns() // 1_000_000)


def test_a_member_that_is_killed_gets_its_own_tasks_back_and_no_other_is_touched(
    place: NodeNamespace,
) -> None:
    before = started(place)
    count = starts(place)
    place.execute("lake-1", "kill", "-9", "--", "-1")
    place.eventually(lambda: restarts(place, "lake-1") == 1, 60)
    note_ends(place, "lake-1")
    own = of(before, "lake-1")
    place.eventually(lambda: all(starts(place)[task] == count[task] + 1 for task in own), 90)
    assert place.runs(*SIX) == before
    others = set(SIX) - own
    assert {task: starts(place)[task] for task in others} == {task: count[task] for task in others}


def restarts(place: NodeNamespace, pod: str) -> int:
    count: int = place.pods()[pod]["status"]["containerStatuses"][0]["restartCount"]
    return count


def test_a_drained_node_gives_its_tasks_away_first_and_its_members_come_back_elsewhere(
    place: NodeNamespace,
) -> None:
    before = started(place)
    node = place.node_of("lake-0")
    there = [name for name in ("lake-0", "lake-1", "lake-2") if place.node_of(name) == node]
    try:
        place.cluster.kubectl("cordon", node)
        for name in there:
            place.delete_pod(name)
        place.eventually(
            lambda: all(
                (pod := place.pods().get(name)) and pod["spec"].get("nodeName") not in (None, node)
                for name in there
            ),
            180,
        )
        place.settled()
    finally:
        place.cluster.kubectl("uncordon", node)
    for run in place.journal.runs():
        if run.task in of(before, *there) and run.member == before[run.task] and run.end_ms is None:
            assert place.runs(*SIX)[run.task] == run.member, "the drained members stopped in order"


def test_a_silent_kubelet_moves_nothing_and_a_dead_machine_moves_its_tasks(place: NodeNamespace) -> None:
    before = started(place, scheduledRebalanceMaxDelayMs=600_000)
    count = starts(place)
    # The operator is on the other one.
    node = place.nodes.nodes[1]
    name = node.name
    there = {pod for pod in ("lake-0", "lake-1", "lake-2") if place.node_of(pod) == name}
    assert there
    try:
        node.freeze()
        place.eventually(lambda: not node.is_ready(), 120, "Kubernetes takes the node for lost")
        assert place.runs(*SIX) == before, "its members are still in the group and run"
        assert starts(place) == count

        node.kill()
        dead_ms = time.time_ns() // 1_000_000
        for run in place.journal.runs():
            if run.member in there:
                place.journal.ended.setdefault(run.incarnation, dead_ms)
        taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        place.cluster.kubectl("taint", "node", name, taint)
        began = time.monotonic()
        after = place.runs(*SIX, timeout_s=120)
        assert not of(after, *there) or all(place.node_of(m) != name for m in after.values())
        assert time.monotonic() - began < 60, "the machine is proven dead, so there is no hold of ten minutes"
    finally:
        place.cluster.kubectl("taint", "node", name, "node.kubernetes.io/out-of-service-")
        node.up()
