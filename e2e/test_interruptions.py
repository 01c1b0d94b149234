"""Spot notices on a real node, each followed by the end of its machine half a minute later, while rows flow.

``tests/controller/test_interruptions.py`` has notices and events without nodes. COOPERATOR_INTERRUPTIONS
is the number of notices.
"""

import os
import sys
import time

import pytest

from cooperator.model import TaskId
from e2e.flows import Flow
from e2e.measured import spans, where
from e2e.node_installation import NodeNamespace
from e2e.observed import Observed

COUNT = int(os.environ.get("COOPERATOR_INTERRUPTIONS", "20"))

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600 + 180 * COUNT),
    pytest.mark.long(
        "e2e/test_departures.py::"
        "test_a_drained_node_gives_its_tasks_away_first_and_its_members_come_back_elsewhere"
    ),
]

NOTICE = "aws-node-termination-handler/spot-itn"
TASKS = 6
MEMBERS = ("lake-0", "lake-1", "lake-2")
KILLED_AFTER_S = 30
HAND_OVER_MS = 10_000
"""More than a stop, two rounds and a start take on a busy machine, and less than a session or a lease."""


class InterruptedWorker:
    """A Worker whose members on the second node get notices; the operator is on the first one."""

    def __init__(self, place: NodeNamespace, seen: Observed, flow: Flow) -> None:
        self._place = place
        self._seen = seen
        self._flow = flow
        self._node = place.nodes.nodes[1]

    def at_rest(self) -> None:
        """Wait until all tasks run, and rows arrive."""
        self._place.settled()
        self._place.eventually(lambda: len(where(self._seen.records)) == TASKS, 120, "all tasks run")
        self._flow.goes_on(120)

    def members_there(self) -> set[str]:
        pods = self._place.pods()
        return {name for name in MEMBERS if name in pods and self._place.node_of(name) == self._node.name}

    def has_tasks_there(self) -> None:
        """Wait until a member on the second node runs tasks; one moves there if none is there."""
        if not self.members_there():
            other = self._place.nodes.nodes[0].name
            self._place.cluster.kubectl("cordon", other)
            try:
                self._place.delete_pod(MEMBERS[-1])
                self._place.eventually(lambda: self.members_there() == {MEMBERS[-1]}, 120)
            finally:
                self._place.cluster.kubectl("uncordon", other)
        # A new member gets tasks when its JVM is up.
        self._place.eventually(lambda: self.members_there() & {*where(self._seen.records).values()}, 120)
        self.at_rest()

    def interrupted(self, number: int) -> dict[TaskId, int]:
        """Returns for how many ms each task was unassigned, at most, of those that ran on the machine."""
        place, node, there = self._place, self._node, self.members_there()
        moving = {task for task, member in where(self._seen.records).items() if member in there}
        assert moving
        noticed = time.time_ns() // 1_000_000
        place.cluster.kubectl("taint", "node", node.name, f"{NOTICE}={number}:NoSchedule")
        try:
            place.eventually(
                lambda: (
                    all(spans(self._seen.records)[task][-1].since_ms > noticed for task in moving)
                    and len(where(self._seen.records)) == TASKS
                ),
                KILLED_AFTER_S,
                "all tasks run elsewhere before the machine ends",
            )
            place.eventually(
                lambda: time.time_ns() // 1_000_000 > noticed + 1_000 * KILLED_AFTER_S, KILLED_AFTER_S + 5
            )
            node.kill()
            self._flow.goes_on()
        finally:
            place.cluster.kubectl("taint", "node", node.name, f"{NOTICE}-")
            node.up()
        self.at_rest()
        return {task: self._unassigned_ms(task, noticed) for task in moving}

    def _unassigned_ms(self, task: TaskId, since_ms: int) -> int:
        runs = spans(self._seen.records)[task]
        first = max(number for number, run in enumerate(runs) if run.since_ms <= since_ms)
        gaps = []
        for one, other in zip(runs[first:], runs[first + 1 :], strict=False):
            assert one.until_ms is not None, f"{task} has ended without a report: {one}"
            gaps.append(other.since_ms - one.until_ms)
        return max(gaps)


def test_a_machine_that_ends_after_its_notice_costs_each_task_one_hand_over(place: NodeNamespace) -> None:
    place.operator()
    place.pool(replicas=3, inline=False, spark={"heapMb": 512}, scheduledRebalanceMaxDelayMs=600_000)
    with Flow(place, partitions=TASKS) as flow, place.observed() as seen:
        flow.connector(tasks=TASKS)
        lake = InterruptedWorker(place, seen, flow)
        lake.at_rest()
        for number in range(COUNT):
            lake.has_tasks_there()
            before = len(interruptions(place))
            unassigned = lake.interrupted(number)
            sys.stderr.write(
                f"notice {number + 1}: {max(unassigned.values())} ms at most, of {len(unassigned)} tasks\n"
            )
            assert max(unassigned.values()) < HAND_OVER_MS, unassigned
            notes = interruptions(place)[before:]
            assert notes
            assert all("handed over" in note and "held" not in note for note in notes), notes
        # Rows of all notices: none is missing, none is there twice.
        flow.complete(180)


def interruptions(place: NodeNamespace) -> list[str]:
    """The texts of the events that say what interruptions have cost, oldest first."""
    path = f"/apis/events.k8s.io/v1/namespaces/{place.namespace}/events"
    found = [each for each in place.cluster.api.get(path)["items"] if each["reason"] == "Interrupted"]
    return [each["note"] for each in sorted(found, key=lambda each: each["metadata"]["creationTimestamp"])]
