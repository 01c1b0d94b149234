"""Real kubelets: our images run as strictly as Kubernetes can demand, and nodes end as machines do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import runs
from tests.harness.searched import processes
from tests.harness.support import eventually
from tests.kubernetes.fixtures import make_namespace
from tests.kubernetes.images import BUSYBOX, OPERATOR, WORKER
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.slots import Slot, cgroup_folders

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def pod(name: str, image: str, *arguments: str, node: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that the level "restricted" accepts, with a root file system that it cannot write."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "args": list(arguments),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }


class Namespace:
    """One namespace of a cluster with nodes."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = make_namespace(cluster.plane, name, "restricted")
        self.pods = f"/api/v1/namespaces/{name}/pods"

    def run(self, manifest: dict[str, Any]) -> str:
        """Make the pod; its name."""
        self.cluster.plane.api.post(self.pods, manifest)
        name: str = manifest["metadata"]["name"]
        return name

    def phase(self, name: str) -> str:
        phase: str = self.cluster.plane.api.get(f"{self.pods}/{name}")["status"]["phase"]
        return phase

    def wait_for(self, name: str, phase: str, timeout_s: float = 300) -> None:
        try:
            eventually(lambda: self.phase(name) == phase, timeout_s, f"{name} {phase}")
        except AssertionError as failure:
            failure.add_note(self.cluster.plane.kubectl("describe", "pod", "-n", self.name, name))
            raise

    def logs(self, name: str) -> str:
        return self.cluster.plane.kubectl("logs", "-n", self.name, name)


@pytest.fixture
def place(two_nodes: Cluster, unique: str) -> Namespace:
    return Namespace(two_nodes, unique)


@pytest.mark.parametrize("image", [WORKER, OPERATOR])
@pytest.mark.long(
    "e2e/test_departures.py::test_a_member_that_is_killed_gets_its_own_tasks_back_and_no_other_is_touched"
)
def test_our_images_run_without_any_privilege(place: Namespace, image: str) -> None:
    name = place.run(pod("help", image, "--help"))
    place.wait_for(name, "Succeeded")
    assert "cooperatively through the Kafka group protocol" in place.logs(name)


@pytest.mark.long(
    "e2e/test_release.py::test_a_release_is_upgraded_removed_and_brought_back_and_no_task_notices"
)
def test_the_worker_finds_its_java_and_its_jars_without_a_network(place: Namespace) -> None:
    asks = (
        "from cooperator.artifacts import find_java, resolve; import os, pyspark; "
        "assert all(jar.is_file() for bundle in ('spark-kafka', 'postgresql') for jar in resolve(bundle)); "
        "print(find_java(), os.getuid(), pyspark.__version__)"
    )
    manifest = pod("asks", WORKER)
    manifest["spec"]["containers"][0]["command"] = ["tini", "--", "python", "-c", asks]
    name = place.run(manifest)
    place.wait_for(name, "Succeeded")
    java, uid, _ = place.logs(name).split()
    assert java.endswith("bin/java")
    assert uid == "10001"


@pytest.mark.long(
    "e2e/test_release.py::test_a_release_is_upgraded_removed_and_brought_back_and_no_task_notices"
)
def test_a_pod_reaches_the_api_server_by_what_is_mounted_into_it(place: Namespace) -> None:
    asks = (
        "import kubernetes; kubernetes.config.load_incluster_config(); "
        "print(kubernetes.client.VersionApi().get_code().git_version)"
    )
    manifest = pod("asks", OPERATOR)
    manifest["spec"]["containers"][0]["command"] = ["tini", "--", "python", "-c", asks]
    name = place.run(manifest)
    place.wait_for(name, "Succeeded")
    assert place.logs(name).startswith("v1.")


@pytest.mark.long(
    "e2e/test_departures.py::"
    "test_a_drained_node_gives_its_tasks_away_first_and_its_members_come_back_elsewhere"
)
def test_pods_of_two_nodes_reach_each_other(place: Namespace) -> None:
    first, second = place.cluster.nodes[:2]
    serves = place.run(pod("serves", BUSYBOX, "httpd", "-f", "-p", "8080", "-h", "/bin", node=first.name))
    place.wait_for(serves, "Running")
    address = place.cluster.plane.api.get(f"{place.pods}/{serves}")["status"]["podIP"]
    ask = f"printf 'GET /none HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 20 {address} 8080"
    asks = place.run(pod("asks", BUSYBOX, "sh", "-c", ask, node=second.name))
    place.wait_for(asks, "Succeeded")
    assert "404 Not Found" in place.logs(asks)


@pytest.mark.long(
    "e2e/test_departures.py::test_a_silent_kubelet_moves_nothing_and_a_dead_machine_moves_its_tasks"
)
def test_a_node_that_does_not_answer_is_seen_and_comes_back(place: Namespace) -> None:
    node = place.cluster.nodes[1]
    running = place.run(pod("stays", BUSYBOX, "sleep", "3600", node=node.name))
    place.wait_for(running, "Running")
    node.freeze()
    try:
        eventually(lambda: not node.is_ready(), 90)
    finally:
        node.thaw()
    eventually(node.is_ready, 60)
    assert place.phase(running) == "Running"


@pytest.mark.long(
    "e2e/test_departures.py::test_a_silent_kubelet_moves_nothing_and_a_dead_machine_moves_its_tasks"
)
def test_a_node_that_was_killed_comes_back_empty(two_nodes: Cluster, place: Namespace) -> None:
    node = two_nodes.add_node()
    try:
        lost = place.run(pod("lost", BUSYBOX, "sleep", "3600", node=node.name))
        place.wait_for(lost, "Running")
        node.kill()
        eventually(lambda: not node.is_ready(), 90)
        # Nobody has told Kubernetes that the container is gone.
        assert place.phase(lost) == "Running"
        node.up()
        assert node.is_ready()
    finally:
        node.down()
        two_nodes.nodes.remove(node)


RUN = """
import sys
from tests.harness.runs import begin_run
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.test_nodes import Namespace, pod

begin_run()
with Cluster.start(nodes=2, services=False) as cluster:
    place = Namespace(cluster, "left")
    for node in cluster.nodes:
        place.wait_for(place.run(pod(node.name, BUSYBOX, "sleep", "3600", node=node.name)), "Running")
    print(cluster.slot.number, flush=True)
    sys.stdin.read()
"""
"""A test run with a cluster of its own; pods run on each node."""


def on_this_machine(slot: Slot) -> dict[str, set[str]]:
    """All that bears the slot's names, by what no later holder's has: the next one may come at any time."""
    words = {path.split("/")[2]: text for path, text in processes().items() if " /proc/" in path}
    pids = [int(pid) for pid, text in words.items() if f"{slot.folder}/".encode() in text]
    networks = [path for path in Path("/sys/class/net").iterdir() if path.name.startswith(slot.bridge)]
    return {
        "processes": {process.id for pid in pids if (process := runs.RunProcess.find(pid)) is not None},
        "mounts": {line for line in Path("/proc/self/mountinfo").open() if f"{slot.folder}/" in line},
        "devices": {f"{path.name} {(path / 'ifindex').read_text()}" for path in networks},
        "control groups": {f"{folder} {folder.stat().st_ino}" for folder in cgroup_folders(slot.cgroup)},
        # Their targets have the ids of pods.
        "links to logs": {
            target
            for path in Path("/var/log/containers").glob("*.log")
            if f"{slot.folder}/" in (target := str(path.readlink()))
        },
        "files": {str(path) for path in slot.folder.glob("of-the-killed-run")},
    }


def left_of(slot: Slot, before: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns what was there before and still is. Raises AssertionError if something goes just now."""
    try:
        now = on_this_machine(slot)
    except OSError as error:
        raise AssertionError(f"something goes just now: {error}") from None
    return {kind: both for kind, things in before.items() if (both := things & now[kind])}


@pytest.mark.long("tests/kubernetes/test_killed_slots.py::test_the_slot_of_a_killed_holder_is_cleared")
def test_nothing_of_a_cluster_outlives_a_killed_run() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=Path(__file__).parents[2],
        # A run of its own, not a part of this one.
        env={name: value for name, value in os.environ.items() if name != runs.VARIABLE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        number = run.stdout.readline()
        assert number, "the run ended before its pods ran; see its error above"
        slot = Slot(int(number))
        (slot.folder / "of-the-killed-run").touch()
        there = on_this_machine(slot)
        assert all(there.values()), there
        run.kill()
        run.wait()

        def gone() -> bool:
            left = left_of(slot, there)
            assert not left, left
            return True

        eventually(gone, 300, f"nothing of slot {slot.number} stays")
