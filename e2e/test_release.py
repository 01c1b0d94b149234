"""The charts as a user installs, upgrades and removes them, while rows flow."""

import pytest
from flows import Flow
from release import CRDS, Helm, packed

from cooperator.model import TaskId, TaskState
from e2e_scene import RealPlace

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def test_a_release_is_upgraded_removed_and_brought_back_and_no_task_notices(place: RealPlace) -> None:
    # The chart before knew no user but the image's.
    before = {name: value for name, value in place.values.items() if name != "podSecurityContext"}
    place.helm.install("cooperator", packed("cooperator"), **before)
    place.pool(replicas=2, inline=False, spark={"heapMb": 512})
    with Flow(place) as flow, place.observed() as seen:
        flow.connector()
        place.settled()
        flow.goes_on()
        tasks = {TaskId(flow.name, number) for number in range(2)}
        members = {name: pod["metadata"]["uid"] for name, pod in place.pods().items() if "lake" in name}
        assert seen.starts() == dict.fromkeys(tasks, 1)

        place.helm.upgrade("cooperator", "cooperator", podSecurityContext={"runAsUser": 1_000_650_000})
        assert "Phase:          Succeeded" in place.helm.test("cooperator")
        place.settled()
        flow.goes_on()

        place.helm.uninstall("cooperator")
        place.eventually(lambda: not [name for name in place.pods() if name.startswith("cooperator")])
        flow.goes_on()
        Helm(place.cluster, "kube-system").uninstall(CRDS)
        assert place.get("workers", "lake")["spec"]["replicas"] == 2, (
            "definitions are kept, and all of that kind"
        )
        Helm(place.cluster, "kube-system").install(CRDS, CRDS)
        place.operator()
        place.settled()
        flow.goes_on()

        there = {name: pod["metadata"]["uid"] for name, pod in place.pods().items() if "lake" in name}
        assert there == members, "the same pods"
        assert seen.starts() == dict.fromkeys(tasks, 1), "no task was ever started again"
        flow.complete()

        place.delete("connectors", flow.name)
        place.delete("workers", "lake")
        place.eventually(lambda: place.is_gone("workers", "lake"), 120)
        assert set(seen.states().values()) == {TaskState.UNASSIGNED}, "all stopped in order"
    place.eventually(lambda: all(not name.startswith("lake") for name in place.pods()), 60)
