"""Failures around the operator: API server, rights, broker, namespace."""

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import Installation

pytestmark = pytest.mark.real

TASKS = ("a-0", "a-1")


def started(installation: Installation, lease_s: int = 3, home: str | None = None) -> dict[str, str]:
    installation.operator(lease_s, home)
    installation.worker(replicas=2)
    installation.connector("a", tasksMax=2)
    installation.runs(*TASKS)
    installation.settled()
    return installation.runs(*TASKS)


def test_an_api_server_that_restarts_stops_no_task_and_is_listened_to_again(
    installation: Installation,
) -> None:
    before = started(installation, lease_s=60)
    installation.cluster.restart_api_server()
    installation.connector("b", tasksMax=1)
    running = installation.runs(*TASKS, "b-0")
    assert {task: running[task] for task in TASKS} == before
    assert len([run for run in installation.journal.runs() if run.task in TASKS]) == 6


def test_a_death_while_the_api_server_is_away_is_dealt_with_when_it_is_back(
    installation: Installation,
) -> None:
    before = started(installation, lease_s=60)
    installation.cluster.api_server.kill()
    installation.kubelet.crash("lake-1")
    installation.cluster.start_api_server()
    own = {task for task, at in before.items() if at == "lake-1"}
    installation.eventually(
        lambda: all(
            len([run for run in installation.journal.runs() if run.task == task]) > 3 for task in own
        ),
        120,
    )
    assert installation.runs(*TASKS) == before


def test_rights_that_are_taken_are_missed_aloud_and_the_group_is_led_on(installation: Installation) -> None:
    before = started(installation)
    namespace = installation.namespace
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/operator-{namespace}"
    kept = installation.cluster.api.get(role)
    without_pods = [rule for rule in kept["rules"] if "pods" not in rule["resources"]]
    installation.cluster.api.patch(role, {"rules": without_pods})
    installation.worker(replicas=3)
    said = installation.eventually(
        lambda: (
            (c := installation.condition("workers", "lake", "Ready")) and "pods" in c.get("message", "") and c
        )
    )
    assert said["status"] == "False"
    assert installation.runs(*TASKS) == before
    installation.cluster.api.patch(role, {"rules": kept["rules"]})
    installation.eventually(lambda: set(installation.pods()) == {"lake-0", "lake-1", "lake-2"}, 90)


def test_changes_during_a_kafka_outage_are_applied_after_it(
    installation: Installation, broker: EmbeddedBroker
) -> None:
    before = started(installation)
    broker.stop()
    try:
        installation.connector("b", tasksMax=1)
        installation.eventually(
            lambda: installation.condition("workers", "lake", "KafkaReachable")["status"] == "False", 90
        )
        assert installation.runs(*TASKS) == before
    finally:
        broker.start()
    running = installation.runs(*TASKS, "b-0", timeout_s=180)
    assert {task: running[task] for task in TASKS} == before


@pytest.mark.long(
    "tests/controller/test_kafka_security.py::test_a_namespace_goes_whole_though_its_secret_went_first"
)
def test_a_namespace_that_is_deleted_goes_whole(installation: Installation) -> None:
    installation.grant_everywhere("default")
    started(installation, home="default")
    installation.cluster.api.delete(f"/api/v1/namespaces/{installation.namespace}")
    installation.eventually(
        lambda: installation.is_gone("workers", "lake") and installation.is_gone("connectors", "a"), 120
    )
    installation.eventually(lambda: installation.pods() == {}, 120)
    assert installation.journal.running() == {}
