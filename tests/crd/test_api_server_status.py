"""Statuses, columns and scale on a real API server."""

import pytest

from cooperator.crd import (
    Condition,
    ConditionStatus,
    Connector,
    ConnectorStatus,
    Worker,
    WorkerStatus,
    from_object,
    merge_conditions,
    summary_conditions,
    to_manifest,
)
from cooperator.crd.status import (
    HeldTaskStatus,
    MemberStatus,
    RebalanceStatus,
    TaskCounts,
    TaskStatusEntry,
    connector_selector,
    worker_selector,
)
from tests.crd.served import Namespace, connector

pytestmark = pytest.mark.real


def conditions(settled: bool = True, **changed: tuple[str, str]) -> tuple[Condition, ...]:
    reported = {
        "KafkaReachable": ("True", "Connected"),
        "Leading": ("True", "Leading"),
        "Planned": ("True", "Planned"),
        "MembersReady": ("True", "MembersReady"),
        **changed,
    }
    known = tuple(
        Condition(type=type_, status=ConditionStatus(status), reason=reason)
        for type_, (status, reason) in reported.items()
    )
    return merge_conditions((), (*summary_conditions(known, generation=1, settled=settled), *known), 0)


def test_columns_show_the_state_at_a_glance(api: Namespace) -> None:
    api.create("Worker", "lake", replicas=3)
    api.create("Connector", "sources", **connector(tasksMax=8))
    assert api.table("wrk")[1][:1] == ["lake"], "before the first status"

    api.write_status(
        "Worker",
        "lake",
        WorkerStatus(
            member_summary="2/3",
            task_summary="4/8",
            held_summary="4, 38s",
            conditions=conditions(settled=False, MembersReady=("False", "Progressing")),
        ),
    )
    api.write_status(
        "Connector",
        "sources",
        ConnectorStatus(
            state="RUNNING",
            task_summary="4/8",
            held_summary="4, 38s",
            conditions=conditions(settled=True),
        ),
    )

    header, lake = api.table("workers")
    assert header == ["NAME", "READY", "MEMBERS", "TASKS", "HELD", "REASON", "AGE"]
    assert lake[:-1] == ["lake", "False", "2/3", "4/8", "4, 38s", "Progressing"]
    header, sources = api.table("cnr")
    assert header == ["NAME", "READY", "STATE", "TASKS", "HELD", "WARMING", "WORKER", "REASON", "AGE"]
    assert sources[:6] == ["sources", "True", "RUNNING", "4/8", "4, 38s", "lake"]


def test_both_kinds_are_listed_by_their_category(api: Namespace) -> None:
    api.create("Worker", "lake")
    api.create("Connector", "sources", **connector())

    names = set(api.kubectl("get", "cooperator", "-o", "name").split())
    assert names == {"connector.cooperator.dev/sources", "worker.cooperator.dev/lake"}


def test_kubectl_waits_for_ready(api: Namespace) -> None:
    api.create("Worker", "lake")
    api.write_status("Worker", "lake", WorkerStatus(conditions=conditions()))

    assert "condition met" in api.kubectl("wait", "--for=condition=Ready", "--timeout=10s", "worker/lake")


def test_the_largest_status_is_accepted_and_read_back(api: Namespace) -> None:
    api.create("Worker", "lake")
    api.create("Connector", "sources", **connector())
    members = [
        MemberStatus(identity=f"lake-{n}", phase="Pending", incarnation="i" * 400, message="é" * 2000)
        for n in range(500)
    ]
    held = [
        HeldTaskStatus(task=f"t-{n}", identity="lake-0", until="2026-01-01T00:00:00Z", reason="Departed")
        for n in range(500)
    ]
    worker = WorkerStatus(
        members=tuple(members),
        held=tuple(held),
        tasks=TaskCounts(desired=500, held=500),
        last_rebalance=RebalanceStatus(generation=1, at="2026-01-01T00:00:00Z", reason="r" * 5000),
        conditions=conditions(),
    )
    tasks = [
        TaskStatusEntry(id=n, state="FAILED", trace="t" * 9000, progress="p" * 9000) for n in range(-1, 500)
    ]

    stored = api.write_status("Worker", "lake", worker)["status"]
    assert (len(stored["members"]), stored["memberCount"], stored["heldCount"]) == (100, 500, 500)
    assert stored == to_manifest(from_object(api.get("Worker", "lake")), worker)["status"]
    status = ConnectorStatus(task_statuses=tuple(tasks), conditions=conditions())
    assert len(api.write_status("Connector", "sources", status)["status"]["taskStatuses"]) == 100


def test_a_status_is_written_beside_the_spec_and_makes_no_generation(api: Namespace) -> None:
    before = api.create("Worker", "lake", replicas=3)
    changed = {**to_manifest(from_object(before), WorkerStatus(replicas=2))}
    changed["spec"] = {**changed["spec"], "replicas": 9}

    after = api.server.api.put(api.path("Worker", "lake", "status"), changed)

    assert (after["spec"]["replicas"], after["status"]["replicas"]) == (3, 2)
    assert after["metadata"]["generation"] == 1


def test_a_worker_is_scaled_as_a_deployment_is(api: Namespace) -> None:
    made = from_object(api.create("Worker", "lake"))
    assert isinstance(made, Worker)
    api.write_status("Worker", "lake", WorkerStatus(replicas=2, selector=worker_selector(made)))

    api.kubectl("scale", "worker/lake", "--replicas=5")

    assert api.get("Worker", "lake")["spec"]["replicas"] == 5
    scale = api.server.api.get(api.path("Worker", "lake", "scale"))
    assert scale["spec"]["replicas"] == 5
    assert scale["status"] == {"replicas": 2, "selector": "cooperator.dev/worker=lake"}


def test_scaling_a_connector_changes_its_tasks_and_its_selector_matches_no_pod(api: Namespace) -> None:
    name = f"{'a' * 80}.sources"
    made = from_object(api.create("Connector", name, **connector(tasksMax=2)))
    assert isinstance(made, Connector)
    api.write_status(
        "Connector",
        name,
        ConnectorStatus(tasks=TaskCounts(desired=2), selector=connector_selector(made)),
    )

    api.kubectl("scale", f"connector/{name}", "--replicas=6")

    assert api.get("Connector", name)["spec"]["tasksMax"] == 6
    status = api.server.api.get(api.path("Connector", name, "scale"))["status"]
    assert status["replicas"] == 2
    assert status["selector"].startswith("cooperator.dev/connector=aaa")
    # The server parses the selector and refuses a malformed one.
    assert (
        api.server.api.get(f"/api/v1/namespaces/{api.name}/pods?labelSelector={status['selector']}")["items"]
        == []
    )
