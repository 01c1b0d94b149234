"""The charts as a user installs, upgrades and removes them, while rows flow."""

import pytest

from cooperator.model import TaskId, TaskState
from e2e.flows import Flow
from e2e.node_installation import NodeNamespace
from e2e.release import CRDS, Helm, packed

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def test_a_release_is_upgraded_removed_and_brought_back_and_no_task_notices(place: NodeNamespace) -> None:
    # The previous chart knew only the image's user.
    before = {name: value for name, value in place.values.items() if name != "podSecurityContext"}
    place.helm.install("cooperator", packed("cooperator"), **before)
    nobody_knows = {"spec": {"securityContext": {"runAsUser": 1_000_650_000}}}
    place.pool(replicas=1, inline=False, spark={"heapMb": 512}, template=nobody_knows)
    with Flow(place) as flow, place.observed() as seen:
        flow.connector()
        place.settled()
        flow.goes_on()
        members = {name: pod["metadata"]["uid"] for name, pod in place.pods().items() if "lake" in name}
        starts = seen.starts()

        place.helm.upgrade("cooperator", "cooperator", podSecurityContext={"runAsUser": 1_000_650_000})
        assert "Phase:          Succeeded" in place.helm.test("cooperator")
        place.settled()
        flow.goes_on()

        place.helm.uninstall("cooperator")
        place.eventually(lambda: not [name for name in place.pods() if name.startswith("cooperator")])
        flow.goes_on()
        Helm(place.cluster, "kube-system").uninstall(CRDS)
        assert place.get("workers", "lake")["spec"]["replicas"] == 1, (
            "the definitions and their resources are kept"
        )
        Helm(place.cluster, "kube-system").install(CRDS, CRDS)
        place.operator()
        place.settled()
        flow.goes_on()
        # In the opposite order: the operator also works without its definitions' release.
        Helm(place.cluster, "kube-system").uninstall(CRDS)
        place.connector("late", tasksMax=1)
        place.eventually(lambda: TaskId("late", 0) in seen.starts())
        place.helm.uninstall("cooperator")
        flow.goes_on()
        Helm(place.cluster, "kube-system").install(CRDS, CRDS)
        place.operator()
        place.settled()

        there = {name: pod["metadata"]["uid"] for name, pod in place.pods().items() if "lake" in name}
        assert there == members, "the pods are the same"
        assert seen.starts() == {**starts, TaskId("late", 0): 1}, "no task was started again"
        flow.complete()

        for name in (flow.name, "late"):
            place.delete("connectors", name)
        place.delete("workers", "lake")
        place.eventually(lambda: place.is_gone("workers", "lake"), 120)
        assert set(seen.states().values()) == {TaskState.UNASSIGNED}, "all members stopped in order"
    place.eventually(lambda: all(not name.startswith("lake") for name in place.pods()), 60)


def test_two_releases_side_by_side_do_not_disturb_each_other(
    place: NodeNamespace, other: NodeNamespace
) -> None:
    for each in (place, other):
        each.operator()
        each.pool(replicas=1)
        each.connector("a", tasksMax=2)
    for each in (place, other):
        each.runs("a-0", "a-1", timeout_s=120)
        each.settled()
    before = other.journal.starts()
    place.pool(replicas=2)
    place.settled()
    place.helm.uninstall("cooperator")
    assert set(place.runs("a-0", "a-1")) == {"a-0", "a-1"}
    assert other.journal.starts() == before, "a change in one namespace does not affect the other"
    # It still leads and has kept its own rights.
    other.connector("b", tasksMax=1)
    other.runs("a-0", "a-1", "b-0")
    assert {name for name in other.pods() if name.startswith("lake")} == {"lake-0"}
