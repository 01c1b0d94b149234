"""A Worker and its Connectors on a real API server: applied, running, changed, gone."""

from typing import Any

import pytest

from tests.harness.api_proxy import Request
from tests.harness.installation import RESOURCES, Installation
from tests.kubernetes.api import ApiError

pytestmark = pytest.mark.real

ALL = ("a-0", "a-1", "a-2")


def test_what_is_applied_runs_and_says_so(installation: Installation) -> None:
    installation.operator()
    installation.worker(replicas=3)
    installation.connector("a", tasksMax=3)
    installation.runs(*ALL)
    installation.settled()
    running = installation.runs(*ALL)
    assert set(running.values()) == {"lake-0", "lake-1", "lake-2"}

    def is_said() -> bool:
        status = installation.get("workers", "lake")["status"]
        assert (status["replicas"], status["readyReplicas"]) == (3, 3)
        assert status["tasks"] == {"desired": 3, "running": 3, "held": 0, "failed": 0}
        connector = installation.get("connectors", "a")["status"]
        assert connector["state"] == "RUNNING"
        tasks = (entry for entry in connector["taskStatuses"] if entry["id"] >= 0)
        said = {f"a-{entry['id']}": entry["member"] for entry in tasks}
        assert said == running
        return True

    installation.eventually(is_said)


def test_a_misspelt_worker_is_corrected_and_kept_once_tasks_may_have_started(
    installation: Installation,
) -> None:
    installation.operator(proxied=True)
    assert installation.proxy is not None
    installation.worker(replicas=1)
    installation.connector("a", worker="laek", tasksMax=2)
    missing = installation.eventually(
        lambda: (c := installation.condition("connectors", "a", "WorkerFound"))["status"] == "False" and c
    )
    assert "did you mean 'lake'?" in missing["message"]
    assert "boundWorker" not in installation.get("connectors", "a")["status"]

    refused: list[Request] = []

    def binding(request: Request) -> bool:
        is_status = request.is_write and request.path.endswith("/connectors/a/status")
        if is_status:
            refused.append(request)
        return is_status

    installation.proxy.refuses = binding
    installation.connector("a", worker="lake", tasksMax=2)
    installation.eventually(lambda: installation.condition("workers", "lake", "Leading")["status"] == "True")
    before = len(refused)
    installation.eventually(lambda: len(refused) > before + 3, what="the operator tries to note the binding")
    assert installation.journal.runs() == [], "nothing is started before it is noted"
    installation.proxy.refuses = lambda request: False
    installation.runs("a-0", "a-1")

    assert installation.get("connectors", "a")["status"]["boundWorker"] == "lake"
    with pytest.raises(ApiError, match=r"spec\.workerRef\.name cannot be changed"):
        installation.cluster.api.patch(
            f"{RESOURCES}/{installation.namespace}/connectors/a", {"spec": {"workerRef": {"name": "pond"}}}
        )
    installation.delete("workers", "lake")
    installation.eventually(
        lambda: installation.condition("connectors", "a", "WorkerFound")["status"] == "False", 120
    )
    assert installation.get("connectors", "a")["status"]["boundWorker"] == "lake", (
        "its progress is there still"
    )


def test_members_are_pods_that_the_worker_owns(installation: Installation) -> None:
    installation.operator()
    installation.worker(replicas=2)
    pods = installation.eventually(lambda: (found := installation.pods()) and len(found) == 2 and found)
    worker = installation.get("workers", "lake")
    for name, pod in pods.items():
        assert name in ("lake-0", "lake-1")
        [owner] = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            "Worker",
            worker["metadata"]["uid"],
            True,
        )
        assert pod["spec"]["terminationGracePeriodSeconds"] == 90
        assert pod["spec"]["automountServiceAccountToken"] is False
    assert installation.cluster.api.exists(f"/api/v1/namespaces/{installation.namespace}/services/lake")
    assert installation.cluster.api.exists(
        f"/apis/policy/v1/namespaces/{installation.namespace}/poddisruptionbudgets/lake"
    )


def test_a_deleted_connector_has_stopped_when_it_is_gone(installation: Installation) -> None:
    installation.operator()
    installation.worker(replicas=2)
    installation.connector("a", tasksMax=2)
    installation.connector("b", tasksMax=2)
    installation.runs("a-0", "a-1", "b-0", "b-1")
    installation.settled()
    before = installation.runs("a-0", "a-1", "b-0", "b-1")
    installation.delete("connectors", "a")
    installation.eventually(lambda: installation.is_gone("connectors", "a"))
    assert set(installation.journal.running()) == {"b-0", "b-1"}
    assert {task: before[task] for task in ("b-0", "b-1")} == installation.runs("b-0", "b-1")

    # One that is let go runs on, though nobody may have looked between the change and the deletion.
    installation.connector("b", tasksMax=2, deletionPolicy="Orphan")
    installation.delete("connectors", "b")
    installation.eventually(lambda: installation.is_gone("connectors", "b"))
    installation.eventually(lambda: [each["name"] for each in adopted(installation)] == ["b"])
    assert {task: before[task] for task in ("b-0", "b-1")} == installation.runs("b-0", "b-1")


def adopted(installation: Installation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = installation.get("workers", "lake")["status"]["adopted"]
    return found


def test_a_deleted_worker_leaves_nothing_running(installation: Installation) -> None:
    installation.operator()
    installation.worker(replicas=2)
    installation.connector("a", tasksMax=2)
    installation.runs("a-0", "a-1")
    installation.settled()
    installation.delete("workers", "lake")
    installation.eventually(lambda: installation.is_gone("workers", "lake"))
    assert installation.journal.running() == {}
    installation.eventually(lambda: not installation.pods())
    found = installation.eventually(
        lambda: (
            (c := installation.condition("connectors", "a", "WorkerFound")) and c["status"] == "False" and c
        )
    )
    assert "lake" in found["message"]


def test_what_cannot_be_read_is_said_and_what_ran_goes_on(installation: Installation) -> None:
    installation.operator()
    installation.worker(replicas=1)
    installation.connector("a", tasksMax=1)
    installation.runs("a-0")
    installation.settled()
    before = installation.runs("a-0")
    installation.connector("a", tasksMax=1, config={"a": {"nested": 1}})
    refused = installation.eventually(
        lambda: (c := installation.condition("connectors", "a", "Stalled")) and c["status"] == "True" and c
    )
    assert "spec.config.a" in refused["message"]
    assert installation.runs("a-0") == before
    installation.connector("a", tasksMax=2)
    installation.runs("a-0", "a-1")
    installation.eventually(lambda: installation.condition("connectors", "a", "Stalled")["status"] == "False")


def test_what_somebody_else_owns_is_neither_taken_over_nor_deleted_and_other_namespaces_are_not_read(
    installation: Installation,
) -> None:
    metadata = {"name": "lake", "namespace": installation.namespace}
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
    }
    installation.cluster.apply(theirs)
    where = f"/api/v1/namespaces/{installation.namespace}/services/lake"
    installation.operator()
    escaping = {"volumes": [{"name": "a", "secret": {"secretName": "../../kube-system/secrets/x"}}]}
    installation.worker(replicas=1, template={"spec": escaping})
    installation.eventually(
        lambda: (
            "NameTaken: there is a Service lake"
            in installation.condition("workers", "lake", "Stalled").get("message", "")
        ),
        60,
    )
    assert "kube-system" not in installation.operators[0].log.read_text()
    installation.delete("workers", "lake")
    installation.eventually(lambda: installation.is_gone("workers", "lake"), 120)
    kept = installation.cluster.api.get(where)
    assert kept["spec"]["selector"] == {"app": "theirs"}
    assert "ownerReferences" not in kept["metadata"]
