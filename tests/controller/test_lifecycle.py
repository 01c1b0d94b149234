"""A Worker and its Connectors on a real API server: applied, running, changed, gone."""

from typing import Any

import pytest

from tests.harness.api_proxy import Request
from tests.harness.installation import RESOURCES, Installation, own_address
from tests.harness.support import eventually
from tests.kubernetes.api import ApiError

pytestmark = pytest.mark.real

ALL = ("a-0", "a-1")


@pytest.fixture(scope="module")
def installation(shared: Installation) -> Installation:
    """An operator, and a Worker ``lake`` whose members run two tasks of a Connector ``a``."""
    shared.grant(rest=True)
    shared.operator(proxied=True, rest=True, host=own_address())
    shared.worker(replicas=2)
    shared.connector("a", tasksMax=2)
    runs(shared, *ALL)
    shared.settled()
    return shared


def runs(installation: Installation, *tasks: str) -> dict[str, str]:
    """Wait until exactly these of their connectors' tasks run; returns their members."""
    connectors = {task.rpartition("-")[0] for task in tasks}

    def seen() -> dict[str, str]:
        running = installation.journal.running().items()
        found = {task: at for task, at in running if task.rpartition("-")[0] in connectors}
        assert found.keys() == set(tasks), found
        return found

    return eventually(seen, 90, f"{tasks} run")


def test_an_applied_connector_runs_and_is_ready(installation: Installation) -> None:
    running = runs(installation, *ALL)
    assert set(running.values()) == {"lake-0", "lake-1"}

    def is_said() -> bool:
        status = installation.get("workers", "lake")["status"]
        assert (status["replicas"], status["readyReplicas"]) == (2, 2)
        assert status["tasks"] == {"desired": 2, "running": 2, "held": 0, "failed": 0}
        connector = installation.get("connectors", "a")["status"]
        assert connector["state"] == "RUNNING"
        tasks = (entry for entry in connector["taskStatuses"] if entry["id"] >= 0)
        said = {f"a-{entry['id']}": entry["member"] for entry in tasks}
        assert said == running
        return True

    installation.eventually(is_said)


def test_members_are_pods_that_the_worker_owns(installation: Installation) -> None:
    pods, worker = installation.pods(), installation.get("workers", "lake")
    assert pods.keys() == {"lake-0", "lake-1"}
    for pod in pods.values():
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


def test_an_unreadable_manifest_is_reported_and_tasks_continue(installation: Installation) -> None:
    before = runs(installation, *ALL)
    count = installation.journal.starts(*ALL)
    installation.connector("a", tasksMax=2, config={"a": {"nested": 1}})
    refused = installation.eventually(
        lambda: (c := installation.condition("connectors", "a", "Stalled")) and c["status"] == "True" and c
    )
    assert "spec.config.a" in refused["message"]
    assert runs(installation, *ALL) == before
    assert installation.journal.starts(*ALL) == count
    installation.connector("a", tasksMax=3)
    runs(installation, *ALL, "a-2")
    installation.eventually(lambda: installation.condition("connectors", "a", "Stalled")["status"] == "False")
    installation.connector("a", tasksMax=2)
    runs(installation, *ALL)


ROOT_ON_THE_NODE = {
    "hostPID": True,
    "volumes": [{"name": "node", "hostPath": {"path": "/"}}],
    "initContainers": [{"name": "root", "image": "none", "securityContext": {"runAsUser": 0}}],
}


def test_no_pod_is_made_of_a_template_that_is_not_allowed_and_running_members_go_on(
    installation: Installation,
) -> None:
    installation.worker("first", replicas=1, template={"spec": ROOT_ON_THE_NODE})

    def refused(name: str) -> str:
        found = installation.condition("workers", name, "Stalled")
        return str(found["message"]) if found.get("reason") == "NotAllowed" else ""

    said = installation.eventually(lambda: refused("first"))
    assert "spec.template.spec.hostPID is true: use false, or have the installation allow it" in said
    before = installation.pods()
    assert set(before) == {"lake-0", "lake-1"}

    # A Secret that is not listed is not read, and a reference to it rolls no member.
    escaping = [{"name": "a", "secret": {"secretName": "../../kube-system/secrets/x"}}]
    installation.worker(replicas=3, template={"spec": {"volumes": escaping}}, restartNonce="now")
    assert "secretName is '../../kube-system/secrets/x'" in installation.eventually(lambda: refused("lake"))
    installation.connector("b", tasksMax=1)
    runs(installation, *ALL, "b-0")
    assert {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    assert "kube-system" not in installation.operators[0].log.read_text()

    installation.worker(replicas=3)
    installation.eventually(lambda: set(installation.pods()) == {"lake-0", "lake-1", "lake-2"}, 90)
    installation.eventually(lambda: not refused("lake"))
    # A Worker that never ran can be deleted.
    installation.delete("workers", "first")
    installation.eventually(lambda: installation.is_gone("workers", "first"), 60)


def test_a_deleted_connector_has_stopped_when_it_is_gone(installation: Installation) -> None:
    installation.connector("b", tasksMax=2)
    installation.connector("c", tasksMax=2)
    others = (*ALL, "c-0", "c-1")
    runs(installation, *others, "b-0", "b-1")
    installation.settled()
    before = runs(installation, *others, "b-0", "b-1")
    installation.delete("connectors", "b")
    installation.eventually(lambda: installation.is_gone("connectors", "b"))
    assert set(installation.journal.running()) == set(others)
    assert {task: before[task] for task in others} == runs(installation, *others)

    # One that is let go runs on, though nobody may have looked between the change and the deletion.
    installation.connector("c", tasksMax=2, deletionPolicy="Orphan")
    installation.delete("connectors", "c")
    installation.eventually(lambda: installation.is_gone("connectors", "c"))
    installation.eventually(lambda: [each["name"] for each in adopted(installation)] == ["c"])
    assert {task: before[task] for task in others} == runs(installation, *others)


def adopted(installation: Installation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = installation.get("workers", "lake")["status"]["adopted"]
    return found


def test_a_deleted_worker_leaves_nothing_running(installation: Installation) -> None:
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


def test_a_misspelt_worker_is_corrected_and_kept_once_tasks_may_have_started(
    installation: Installation,
) -> None:
    assert installation.proxy is not None
    installation.worker("pond", replicas=1)
    installation.connector("m", worker="pnod", tasksMax=2)
    missing = installation.eventually(
        lambda: (c := installation.condition("connectors", "m", "WorkerFound"))["status"] == "False" and c
    )
    assert "did you mean 'pond'?" in missing["message"]
    assert "boundWorker" not in installation.get("connectors", "m")["status"]

    refused: list[Request] = []

    def binding(request: Request) -> bool:
        is_status = request.is_write and request.path.endswith("/connectors/m/status")
        if is_status:
            refused.append(request)
        return is_status

    installation.proxy.refuses = binding
    installation.connector("m", worker="pond", tasksMax=2)
    installation.eventually(lambda: installation.condition("workers", "pond", "Leading")["status"] == "True")
    before = len(refused)
    installation.eventually(lambda: len(refused) > before + 3, what="the operator tries to note the binding")
    assert installation.journal.starts("m-0", "m-1") == 0, "nothing is started before it is noted"
    installation.proxy.refuses = lambda request: False
    runs(installation, "m-0", "m-1")

    assert installation.get("connectors", "m")["status"]["boundWorker"] == "pond"
    with pytest.raises(ApiError, match=r"spec\.workerRef\.name cannot be changed"):
        installation.cluster.api.patch(
            f"{RESOURCES}/{installation.namespace}/connectors/m", {"spec": {"workerRef": {"name": "lake"}}}
        )
    installation.delete("workers", "pond")
    installation.eventually(
        lambda: installation.condition("connectors", "m", "WorkerFound")["status"] == "False", 120
    )
    assert installation.get("connectors", "m")["status"]["boundWorker"] == "pond", (
        "its progress is there still"
    )


FOREIGN: dict[str, tuple[str, dict[str, Any]]] = {
    "Service": (
        "/api/v1/namespaces/{}/services/first",
        {"spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}},
    ),
    "PodDisruptionBudget": (
        "/apis/policy/v1/namespaces/{}/poddisruptionbudgets/second",
        {"spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "theirs"}}}},
    ),
    "EndpointSlice": (
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices/third-rest",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.1"]}],
            "ports": [{"name": "theirs", "port": 80}],
        },
    ),
}
"""Objects of names that the Workers first, second and third need: their paths, and their contents."""


def test_foreign_objects_are_neither_taken_over_nor_deleted(installation: Installation) -> None:
    before = {}
    for kind, (path, content) in FOREIGN.items():
        where = path.format(installation.namespace)
        metadata = {"name": where.rpartition("/")[2], "namespace": installation.namespace}
        version = where.partition("/namespaces")[0].removeprefix("/apis/").removeprefix("/api/")
        installation.cluster.apply({"apiVersion": version, "kind": kind, "metadata": metadata, **content})
        before[kind] = installation.cluster.api.get(where)
    workers = dict(zip(FOREIGN, ("first", "second", "third"), strict=True))
    for name in workers.values():
        installation.worker(name, replicas=0, rest={"enabled": True})

    def taken(name: str) -> str:
        found = installation.condition("workers", name, "Stalled")
        return str(found["message"]) if found.get("reason") == "NameTaken" else ""

    for kind, name in workers.items():
        message = installation.eventually(lambda name=name: taken(name), 60, f"{name} reports it")
        assert (
            f"there is a {kind} {before[kind]['metadata']['name']} that does not belong to this Worker"
            in message
        )
    installation.worker("third", replicas=0, rest={"enabled": False})
    for name in workers.values():
        installation.delete("workers", name)
    for name in workers.values():
        installation.eventually(lambda name=name: installation.is_gone("workers", name), 120)
    for kind, (path, content) in FOREIGN.items():
        kept = installation.cluster.api.get(path.format(installation.namespace))
        assert kept["metadata"]["uid"] == before[kind]["metadata"]["uid"]
        assert "ownerReferences" not in kept["metadata"]
        assert {name: kept.get(name) for name in content} == {
            name: before[kind].get(name) for name in content
        }


def test_a_pod_of_somebody_else_under_a_members_name_stays_and_is_said(installation: Installation) -> None:
    """Also one that bears our label."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    uids = {}
    for name, labels in THEIRS.items():
        theirs = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-0", "namespace": installation.namespace, "labels": labels},
            "spec": {
                "containers": [{"name": "a", "image": "none", "securityContext": restricted}],
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "nodeName": "elsewhere",
            },
        }
        installation.cluster.apply(theirs)
        uids[name] = installation.pods()[f"{name}-0"]["metadata"]["uid"]
        installation.worker(name, replicas=1)

    def taken(name: str) -> str:
        found = installation.condition("workers", name, "Stalled")
        return str(found["message"]) if found.get("reason") == "NameTaken" else ""

    for name in THEIRS:
        said = installation.eventually(lambda name=name: taken(name))
        assert f"there is a Pod {name}-0 that does not belong to this Worker" in said
        assert "ownerReferences" not in installation.pods()[f"{name}-0"]["metadata"]
    for name in THEIRS:
        installation.delete("workers", name)
    for name in THEIRS:
        installation.eventually(lambda name=name: installation.is_gone("workers", name), 120)
        found = installation.pods()[f"{name}-0"]["metadata"]
        kept = (found["uid"], found.get("annotations"), "deletionTimestamp" in found)
        assert kept == (uids[name], None, False)


THEIRS: dict[str, dict[str, str]] = {"reef": {}, "shoal": {"cooperator.dev/worker": "shoal"}}
"""Workers whose member's name is taken, and the labels of that pod."""
