"""Stock Kafka Connect workers as restricted pods of real nodes: started, killed, deleted."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cooperator.artifacts import resolve
from e2e.node_installation import NodeNamespace
from tests.harness.stock_connectors import plugin_path
from tests.harness.support import eventually
from tests.kubernetes.images import WORKER

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

TASKS = ("a-0", "a-1", "a-2", "a-3", "a-instance")
START = """\
#!/bin/bash
# As Kafka's own script of that name: by the same variables of the environment.
mkdir -p "$LOG_DIR"
exec java $KAFKA_HEAP_OPTS "-Dkafka.logs.dir=$LOG_DIR" $KAFKA_LOG4J_OPTS -cp "$(dirname "$0")/../libs/*" \\
  $KAFKA_OPTS org.apache.kafka.connect.cli.ConnectDistributed "$@"
"""


def kafka_home(folder: Path) -> None:
    """Kafka in the layout of its releases, for workers in an image that has Java and bash."""
    (folder / "libs").mkdir(parents=True)
    for jar in resolve("kafka"):
        shutil.copy(jar, folder / "libs")
    shutil.copytree(plugin_path(), folder / "plugins")
    script = folder / "bin" / "connect-distributed.sh"
    script.parent.mkdir()
    script.write_text(START)
    script.chmod(0o755)


def uid(place: NodeNamespace, pod: str) -> str:
    found: str = place.pods()[pod]["metadata"]["uid"]
    return found


def stopped_by(place: NodeNamespace, incarnation: str) -> set[str]:
    return {
        run.task for run in place.journal.runs() if run.incarnation == incarnation and run.end_ms is not None
    }


@pytest.mark.long("tests/controller/test_connect.py::test_a_worker_that_is_killed_gets_exactly_its_own_back")
def test_stock_workers_run_as_pods_and_each_gets_its_own_tasks_back(place: NodeNamespace) -> None:
    kafka_home(place.shared / "kafka")
    place.operator()
    place.worker(
        replicas=2,
        runtime="connect",
        image=WORKER,
        imagePullPolicy="Never",
        zoneLabel="kubernetes.io/hostname",
        connect={
            "command": "/checkpoints/kafka/bin/connect-distributed.sh",
            "heapMb": 192,
            # The kubelet expands these two; the tests' connectors sign their journal with them.
            "jvmOptions": ["-Dcooperator.identity=$(POD_NAME)", "-Dcooperator.incarnation=$(POD_UID)"],
            "pluginPath": ["/checkpoints/kafka/plugins"],
            "config": {"offset.storage.partitions": 1},
            "logLevels": {"org.apache.kafka.connect": "INFO"},
        },
        template={
            "spec": {
                "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
                "containers": [
                    {"name": "worker", "volumeMounts": [{"name": "shared", "mountPath": "/checkpoints"}]}
                ],
            }
        },
    )
    place.connector(
        "a",
        **{"class": "cooperator.stock.SequenceSource"},
        tasksMax=4,
        config={"topic": f"numbers-{place.namespace}", "journal": place.journal_path},
    )
    place.runs(*TASKS, timeout_s=240)
    place.settled()
    before = place.runs(*TASKS)
    assert place.node_of("lake-0") != place.node_of("lake-1"), "they are spread over the nodes"
    own = {task for task, at in before.items() if at == "lake-1"}
    assert own, before

    # The worker is killed: a new pod of the same name gets exactly what it had.
    first, other = uid(place, "lake-1"), uid(place, "lake-0")
    moved_first = stopped_by(place, other)
    subprocess.run(["pkill", "-9", "-f", f"cooperator.incarnation={first}"], check=True)
    eventually(lambda: place.pods().get("lake-1", {}).get("metadata", {}).get("uid", first) != first, 120)
    second = uid(place, "lake-1")
    place.journal.ended[first] = max(run.last_ms for run in place.journal.runs() if run.incarnation == first)
    eventually(lambda: {r.task for r in place.journal.runs() if r.incarnation == second} >= own, 240)
    assert place.runs(*TASKS, timeout_s=60) == before
    assert uid(place, "lake-0") == other
    assert stopped_by(place, other) == moved_first, "no other task was touched"

    # The pod is deleted: its tasks are handed over before the worker is told to end.
    place.settled()
    place.cluster.kubectl("delete", "pod", "-n", place.namespace, "lake-1", "--wait=false")
    eventually(lambda: own <= stopped_by(place, second), 120, "it has let go of all")
    eventually(lambda: place.pods().get("lake-1", {}).get("metadata", {}).get("uid", second) != second, 120)
    eventually(lambda: "lake-1" in place.runs(*TASKS).values(), 240, "its next incarnation takes its tasks")
    assert uid(place, "lake-0") == other
