"""Every fault in turn, on a Worker with Spark under a constant flow of rows, and what each one costs.

The table is printed, and written as JSON with its bounds to the file in COOPERATOR_E2E_TABLE. With
COOPERATOR_E2E_PICTURE a Prometheus watches, and the dashboard is drawn into that file (SVG).
"""

import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cooperator.model import TaskId, TaskState
from e2e import dashboard
from e2e.flows import Flow
from e2e.measured import Cost, Fault, cost, spans, where
from e2e.node_installation import NodeNamespace
from e2e.observed import Observed
from e2e.prometheus import EVERY_S, Prometheus
from e2e.store import SECRET, Store
from tests.harness.scrapes import samples
from tests.kubernetes.images import WORKER

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

NEXT = f"{WORKER}-next"
TASKS = 6
HOLD_MS = 120_000
JVM_S = 45.0
"""The upper limit of a member's absence after a container restart, on two cores: Python, JVM and Spark."""
LEAVES = 4
"""The upper limit of an orderly departure's rounds: announce, release, take up elsewhere, leave."""
JOINS = 4
"""The upper limit of a new member's rounds: join, report warm, release elsewhere, take up."""
HAND_OVER_S = 10.0
"""From a task's end at one member to its start at another."""


class MeasuredWorker:
    """The Worker, its flow of rows, and the measured cost of each fault."""

    def __init__(self, place: NodeNamespace, seen: Observed, flow: Flow) -> None:
        self.place = place
        self._seen = seen
        self._flow = flow
        self.rows: list[dict[str, Any]] = []

    def replicas(self, count: int) -> None:
        self.place.cluster.kubectl("scale", "-n", self.place.namespace, "worker/lake", f"--replicas={count}")

    def on(self, *members: str) -> int:
        """Returns how many tasks run on these members."""
        return sum(member in members for member in where(self._seen.records).values())

    def members_on(self, node: str) -> list[str]:
        return [
            name
            for name, pod in self.place.pods().items()
            if name.startswith("lake-") and pod["spec"].get("nodeName") == node
        ]

    def calm(self, timeout_s: float = 300) -> None:
        """Wait until all tasks run on existing members, and rows arrive."""

        def at_rest() -> bool:
            worker = self.place.get("workers", "lake")
            for kind in ("Ready", "Settled"):
                conditions = worker.get("status", {}).get("conditions", ())
                found = next((each for each in conditions if each["type"] == kind), {"status": "Missing"})
                assert found["status"] == "True", found
                assert found["observedGeneration"] == worker["metadata"]["generation"], found
            running = where(self._seen.records)
            assert len(running) == TASKS, self._seen.states()
            assert set(running.values()) <= set(self.place.pods())
            return True

        self.place.eventually(at_rest, timeout_s, "all is calm")
        self._flow.goes_on(120)

    def suffer(
        self, name: str, do: Callable[[], Fault], bounds: Cost, *, after: Callable[[], None] = lambda: None
    ) -> None:
        """Cause a fault, wait until all is settled again, record its cost. ``after`` ends the fault
        itself."""
        generation = self._generation()
        before = where(self._seen.records)
        fault = do()
        lost = {task for task, member in before.items() if member in fault.departed}
        self.place.eventually(lambda: lost <= self._begun(fault.began_ms), 400, "the lost tasks run again")
        self.calm()
        found = cost(self._seen.records, fault, self._generation() - generation)
        after()
        self.rows.append({"fault": name, **asdict(found), "bounds": asdict(bounds)})
        sys.stderr.write(f"{name:<44} {found}\n")

    def _begun(self, since_ms: int) -> set[TaskId]:
        """The tasks that began to run since then."""
        incarnations = spans(self._seen.records)
        return {task for task, each in incarnations.items() if each and each[-1].since_ms > since_ms}

    def _generation(self) -> int:
        """The group's generation, as its leader knows it."""

        def asked() -> float:
            pods = self.place.pods()
            [operator] = {
                name
                for name, pod in pods.items()
                if name.startswith("cooperator-") and pod["status"]["phase"] == "Running"
            }
            # The API server also reaches pods that this machine cannot.
            path = f"/api/v1/namespaces/{self.place.namespace}/pods/{operator}:8080/proxy/metrics"
            found = samples(self.place.cluster.api.text(path))
            return next(value for (key, _), value in found.items() if key == "cooperator_worker_generation")

        return int(self.place.eventually(asked, 60))


@pytest.fixture
def store(place: NodeNamespace) -> Iterator[Store]:
    store = Store(place.nodes, place.namespace)
    store.give_to(place.namespace)
    yield store
    store.close()


@pytest.fixture
def picture() -> Path | None:
    """Where to draw the dashboard."""
    named = os.environ.get("COOPERATOR_E2E_PICTURE")
    return Path(named) if named else None


@pytest.fixture
def watched(place: NodeNamespace, picture: Path | None, tmp_path: Path) -> Iterator[Prometheus | None]:
    if picture is None:
        yield None
        return
    with Prometheus(place, tmp_path) as prometheus:
        yield prometheus


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.long(
    "e2e/test_departures.py::test_a_silent_kubelet_moves_nothing_and_a_dead_machine_moves_its_tasks"
)
def test_the_cost_of_each_fault(
    place: NodeNamespace, store: Store, watched: Prometheus | None, picture: Path | None
) -> None:
    place.operator(worker={"secrets": [SECRET]})
    worker = {"name": "worker", "envFrom": [{"secretRef": {"name": SECRET}}]}
    place.worker(
        replicas=3,
        imagePullPolicy="Never",
        scheduledRebalanceMaxDelayMs=HOLD_MS,
        checkpointLocation="s3a://lake/checkpoints",
        zoneLabel="kubernetes.io/hostname",
        spark={"heapMb": 512},
        template={"spec": {"containers": [worker]}},
    )
    with Flow(place, partitions=TASKS) as flow, place.observed() as seen:
        flow.connector(tasks=TASKS)
        lake = MeasuredWorker(place, seen, flow)
        lake.calm(400)
        pods_die(lake)
        scale(lake)
        nodes_die(lake)
        roll(lake)
        flow.complete(180)
        if watched is not None and picture is not None:
            show(watched, picture)
        deletion(lake, seen)
    tell(lake.rows)
    for row in lake.rows:
        for measure, bound in row["bounds"].items():
            assert row[measure] <= bound, row


def show(prometheus: Prometheus, file: Path) -> None:
    """Every panel shows data, every alert is evaluated, and none has fired for what heals by itself."""
    when = (prometheus.began_s, time.time(), EVERY_S)
    assert dashboard.draw(prometheus.over_time, *when, prometheus.namespace, file) == []
    assert {rule["health"] for rule in prometheus.rules()} == {"ok"}
    assert prometheus.fired() <= {"CooperatorRebalancesKeepComing"}


def pods_die(lake: MeasuredWorker) -> None:
    place = lake.place

    def killed() -> Fault:
        began = now_ms()
        place.execute("lake-1", "kill", "-9", "--", "-1")
        return Fault(began, {"lake-1": began})

    mine = lake.on("lake-1")
    lake.suffer("kill -9 of all in a pod", killed, Cost(3, 0, 0, mine * JVM_S))

    def deleted(**options: Any) -> Fault:
        began = now_ms()
        uid = place.pods()["lake-1"]["metadata"]["uid"]
        place.delete_pod("lake-1", **options)
        place.eventually(
            lambda: (pod := place.pods().get("lake-1")) and pod["metadata"]["uid"] != uid, 120, "a new pod"
        )
        return Fault(began, {"lake-1": None if not options else began}, for_balance=mine)

    mine = lake.on("lake-1")
    # The new member gets back as many tasks, maybe others, and starts them when its JVM is up.
    lake.suffer("a pod deleted", deleted, Cost(LEAVES + JOINS, 2 * mine, 0, mine * (HAND_OVER_S + JVM_S)))
    mine = lake.on("lake-1")
    lake.suffer(
        "a pod deleted by force",
        lambda: deleted(gracePeriodSeconds=0),
        Cost(LEAVES + JOINS, mine, 0, mine * (JVM_S + 40)),
    )


def scale(lake: MeasuredWorker) -> None:
    def to(count: int, *gone: str) -> Fault:
        began = now_ms()
        lake.replicas(count)
        lake.place.eventually(
            lambda: sum(name.startswith("lake-") for name in lake.place.pods()) == count, 240, f"{count} pods"
        )
        return Fault(began, dict.fromkeys(gone), for_balance=0 if gone else TASKS // 2)

    # Nothing is revoked for a new member until its JVM is up.
    lake.suffer("scaled from 3 to 5", lambda: to(5), Cost(2 * JOINS, 3, 0, 3 * HAND_OVER_S))
    gone = ("lake-2", "lake-3", "lake-4")
    mine = lake.on(*gone)
    lake.suffer(
        "scaled from 5 to 2", lambda: to(2, *gone), Cost(LEAVES + len(gone), mine, 0, mine * HAND_OVER_S)
    )
    lake.suffer("scaled from 2 to 3", lambda: to(3), Cost(JOINS, 2, 0, 2 * HAND_OVER_S))


def nodes_die(lake: MeasuredWorker) -> None:
    place, plane = lake.place, lake.place.cluster
    node = place.nodes.nodes[1]

    def drained() -> Fault:
        began = now_ms()
        there = lake.members_on(node.name)
        assert there
        plane.kubectl(
            *("drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s"),
            *("--pod-selector", "cooperator.dev/worker"),
        )
        # They come back one after the other, and then each gets its part.
        return Fault(began, dict.fromkeys(there), for_balance=TASKS)

    mine, there = lake.on(*lake.members_on(node.name)), len(lake.members_on(node.name))
    lake.suffer(
        "a node drained",
        drained,
        Cost(there * (LEAVES + JOINS), TASKS, 0, mine * (HAND_OVER_S + JVM_S)),
        after=lambda: plane.kubectl("uncordon", node.name) and None,
    )
    # All members are on the other node now; one of them comes back.
    home = next(name for name in ("lake-2", "lake-1") if name in place.pods())
    lake.suffer(
        "a pod moved to the empty node",
        lambda: move_to(lake, home, node.name),
        Cost(LEAVES + JOINS, 4, 0, 4 * JVM_S),
    )

    def frozen() -> Fault:
        began = now_ms()
        node.freeze()
        place.eventually(lambda: not node.is_ready(), 120, "Kubernetes takes the node for lost")
        return Fault(began, {})

    lake.suffer("a node's kubelet frozen", frozen, Cost(0, 0, 0, 0.0), after=node.thaw)
    place.eventually(node.is_ready, 120)
    lake.calm()

    def killed() -> Fault:
        there = lake.members_on(node.name)
        assert there
        began = now_ms()
        node.kill()
        place.eventually(lambda: not node.is_ready(), 120)
        plane.kubectl("taint", "node", node.name, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
        return Fault(began, dict.fromkeys(there, began), for_balance=TASKS // 2)

    def back() -> None:
        plane.kubectl("taint", "node", node.name, "node.kubernetes.io/out-of-service-")
        node.up()
        tag_next(place)

    mine = lake.on(*lake.members_on(node.name))
    lake.suffer("a node dead", killed, Cost(2 * (1 + JOINS), 2 * mine, 0, mine * (60 + JVM_S)), after=back)
    lake.calm()


def move_to(lake: MeasuredWorker, pod: str, node: str) -> Fault:
    """Delete the pod while the other nodes are cordoned."""
    place = lake.place
    began = now_ms()
    others = [each.name for each in place.nodes.nodes if each.name != node]
    uid = place.pods()[pod]["metadata"]["uid"]
    for other in others:
        place.cluster.kubectl("cordon", other)
    try:
        place.delete_pod(pod)
        place.eventually(
            lambda: (
                (found := place.pods().get(pod))
                and found["metadata"]["uid"] != uid
                and found["spec"].get("nodeName") == node
            ),
            180,
        )
    finally:
        for other in others:
            place.cluster.kubectl("uncordon", other)
    return Fault(began, {pod: None}, for_balance=TASKS // 2)


def tag_next(place: NodeNamespace) -> None:
    for node in place.nodes.nodes:
        node.tag(WORKER, NEXT)


def images(place: NodeNamespace, members: Collection[str]) -> list[str]:
    """The images of those members' pods; "" for a missing pod."""
    pods = place.pods()
    return [pods[name]["spec"]["containers"][0]["image"] if name in pods else "" for name in members]


def roll(lake: MeasuredWorker) -> None:
    place = lake.place
    members = ("lake-0", "lake-1", "lake-2")

    def rolled(image: str, meanwhile: Callable[[], None] = lambda: None) -> Fault:
        began = now_ms()
        patch = json.dumps({"spec": {"image": image}})
        place.cluster.kubectl(*("patch", "-n", place.namespace, "worker/lake", "--type=merge", "-p", patch))
        meanwhile()

        place.eventually(lambda: set(images(place, members)) == {image}, 600, "all have the new image")
        return Fault(began, dict.fromkeys(members))

    def restarted() -> None:
        place.eventually(lambda: WORKER in images(place, members), 180, "the first one is replaced")
        place.cluster.kubectl("rollout", "restart", "-n", place.namespace, "deployment/cooperator")
        place.cluster.kubectl(
            "rollout", "status", "-n", place.namespace, "deployment/cooperator", "--timeout=180s"
        )

    tag_next(place)
    bounds = Cost(len(members) * (LEAVES + JOINS), 0, 0, TASKS * JVM_S)
    lake.suffer("the image of all pods rolled", lambda: rolled(NEXT), bounds)
    lake.suffer("rolled, the operator restarted meanwhile", lambda: rolled(WORKER, restarted), bounds)


def deletion(lake: MeasuredWorker, seen: Observed) -> None:
    """Delete in the order of the documentation, and check that nothing is left."""
    place = lake.place
    place.delete("connectors", "copy")
    place.eventually(lambda: place.is_gone("connectors", "copy"), 120)
    assert set(seen.states().values()) == {TaskState.UNASSIGNED}, "its tasks stopped in order"
    place.delete("workers", "lake")
    place.eventually(lambda: place.is_gone("workers", "lake"), 180)
    place.eventually(lambda: not [name for name in place.pods() if name.startswith("lake")], 120)
    place.helm.uninstall("cooperator")
    place.eventually(lambda: not place.pods(), 120)


def tell(rows: list[dict[str, Any]]) -> None:
    measures = ("rebalances", "moves", "needless", "unassigned_task_s")
    lines = [f"\n{'':<44}" + "".join(f"{each:>20}" for each in measures)]
    for row in rows:
        cells = "".join(f"{row[each]:>9g} of {row['bounds'][each]:<7g}" for each in measures)
        lines.append(f"{row['fault']:<44}{cells}")
    sys.stderr.write("\n".join(lines) + "\n")
    if path := os.environ.get("COOPERATOR_E2E_TABLE"):
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")
