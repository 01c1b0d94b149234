"""A spot notice on a real node, and the end of its machine half a minute later.

``tests/controller/test_interruptions.py`` has notices and events without nodes; every run drains a node in
``test_departures.py``.
"""

import time

import pytest

from e2e.node_installation import NodeNamespace
from e2e.test_departures import SIX, of, started, starts
from tests.harness.support import slow

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    slow("env -u CI pytest e2e/test_interruptions.py"),
]

NOTICE = "aws-node-termination-handler/spot-itn"
KILLED_AFTER_S = 30
HAND_OVER_MS = 10_000
"""More than a stop, two rounds and a start take on a busy machine, and less than a session or a lease."""


@pytest.mark.parametrize("number", range(20))
def test_a_machine_that_ends_after_its_notice_costs_each_task_one_hand_over(
    place: NodeNamespace, number: int
) -> None:
    before = started(place, scheduledRebalanceMaxDelayMs=600_000)
    count = starts(place)
    # The operator is on the other one.
    node = place.nodes.nodes[1]
    there = {pod for pod in ("lake-0", "lake-1", "lake-2") if place.node_of(pod) == node.name}
    moving = of(before, *there)
    assert moving
    try:
        noticed_s = time.monotonic()
        place.cluster.kubectl("taint", "node", node.name, f"{NOTICE}={number}:NoSchedule")
        place.eventually(
            lambda: not of(place.journal.running(), *there) and set(place.journal.running()) == set(SIX),
            KILLED_AFTER_S,
            "all tasks run elsewhere before the machine ends",
        )
        place.eventually(lambda: time.monotonic() > noticed_s + KILLED_AFTER_S, KILLED_AFTER_S + 5)
        node.kill()
        after = place.runs(*SIX)
        assert not of(after, *there)
        # The end of the machine is no news: nothing starts again, and nothing waits for it.
        assert starts(place) == {task: count[task] + (task in moving) for task in SIX}
        for task in moving:
            old, new = [run for run in place.journal.runs() if run.task == task][-2:]
            assert old.end_ms is not None
            assert 0 <= new.start_ms - old.end_ms < HAND_OVER_MS
        notes = [event["note"] for event in events(place) if event["reason"] == "Interrupted"]
        assert len(notes) == len(there & set(before.values())), notes
        assert all("handed over" in note and "held" not in note for note in notes), notes
    finally:
        place.cluster.kubectl("taint", "node", node.name, f"{NOTICE}-")
        node.up()


def events(place: NodeNamespace) -> list[dict[str, str]]:
    path = f"/apis/events.k8s.io/v1/namespaces/{place.namespace}/events"
    found: list[dict[str, str]] = place.cluster.api.get(path)["items"]
    return found
