"""The states of tasks on real members and a real broker: failures, restarts, pause and resume, stop."""

from typing import Any

import pytest

from cooperator.leader.service import LeaderService
from cooperator.model import Desired, DesiredConnector, TargetState
from cooperator.wire import RestartRecord
from tests.harness.leader_process import desired_of
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

FAST = {"cooperator.auto.restart.backoff.ms": "300", "cooperator.auto.restart.max": "3"}
CALM = {"connector.class": "noop", "tasks.max": "2", "units": "2"}
TASKS = ("a-0", "a-1", "b-0", "b-1")


def begin(group: MemberGroup, **more: str) -> LeaderService:
    """Connector a with the settings ``more``, and b without them, on two members."""
    # On a busy machine members start slowly; the leader waits for both.
    policy = {"join_wait_ms": 90_000}
    leader = group.leader({}, ("w-0", "w-1"), policy=policy)
    for worker in ("w-0", "w-1"):
        group.member(worker)
    # A member that joins later would take over tasks, whose failures are counted where they run.
    eventually(lambda: len(leader.status().get("members", ())) == 2, 60, "both are in the group")
    wanted = {"a": {**CALM, **FAST, **more}, "b": CALM}
    leader.set_desired(desired_of(group._with_journal(wanted)))
    return leader


def tasks(leader: LeaderService) -> dict[str, dict[str, Any]]:
    """The tasks in the leader's status, once there are any."""
    found = {task["name"]: task for task in leader.status().get("tasks", ())}
    assert {"a", "b", "b-1"} <= found.keys(), found.keys()
    return found


def states(leader: LeaderService) -> dict[str, str]:
    return {name: task["state"] for name, task in tasks(leader).items()}


@pytest.mark.long(
    "tests/integration/test_states.py::test_a_task_that_fails_too_often_stays_failed_until_it_is_restarted"
)
def test_a_task_that_fails_three_times_then_runs_without_a_rebalance(group: MemberGroup) -> None:
    leader = begin(group, **{"fail.starts": "3"})
    eventually(lambda: group.journal.starts("a-0") == group.journal.starts("a-1") == 4, 60)
    eventually(lambda: set(states(leader).values()) == {"RUNNING"}, 20)
    assert group.journal.starts("b-0", "b-1") == 2
    owners = {
        run.task: {r.member for r in group.journal.runs() if r.task == run.task}
        for run in group.journal.runs()
    }
    assert all(len(members) == 1 for members in owners.values()), "each task runs where it was"


def test_a_task_that_fails_too_often_stays_failed_until_it_is_restarted(group: MemberGroup) -> None:
    leader = begin(group, **{"fail.starts": "4"})
    eventually(
        lambda: [tasks(leader).get(name, {}).get("reason") for name in TASKS[:2]] == ["RestartLimit"] * 2, 60
    )
    failed = tasks(leader)["a-0"]
    assert failed["state"] == "FAILED"
    assert "It has failed again after 3 automatic restarts" in failed["trace"]
    assert "fails in its first 4 starts" in failed["trace"].partition("\n")[0]
    assert leader.status()["settled"], "the group is settled"
    generation = leader.status()["generation"]

    assert leader.restart(RestartRecord("a", only_failed=True, task=1)) == 202
    eventually(lambda: (states(leader)["a-0"], states(leader)["a-1"]) == ("FAILED", "RUNNING"), 20)
    assert leader.restart(RestartRecord("a", include_tasks=True, only_failed=True)) == 202
    eventually(lambda: set(states(leader).values()) == {"RUNNING"}, 20)
    assert [group.journal.starts(name) for name in TASKS] == [5, 5, 1, 1], "running tasks are untouched"
    assert leader.restart(RestartRecord("b", include_tasks=True)) == 202
    eventually(lambda: [group.journal.starts(name) for name in TASKS] == [5, 5, 2, 2], 20)
    assert leader.status()["generation"] == generation, "there was no rebalance"
    assert leader.restart(RestartRecord("c")) == 404
    assert leader.restart(RestartRecord("a", task=2)) == 404


@pytest.mark.long("tests/agent/test_member.py::test_a_task_that_the_runtime_refuses_has_failed")
def test_a_task_that_waits_for_its_next_attempt_reports_it(group: MemberGroup) -> None:
    leader = begin(group, **{"fail.starts": "1", "cooperator.auto.restart.backoff.ms": "60000"})
    found = eventually(lambda: states(leader).get("a-0") == "RESTARTING" and tasks(leader)["a-0"], 60)
    assert found["next_attempt_ms"] == found["at_ms"] + 60_000
    assert "fails in its first" in found["trace"]


def test_pause_and_resume_make_no_rebalance_and_a_stop_takes_the_tasks_away(group: MemberGroup) -> None:
    leader = begin(group)
    eventually(lambda: len(set(group.journal.running().values())) == 2, 90, "both have joined and have tasks")
    group.runs(*TASKS)
    eventually(lambda: leader.status()["settled"], 30)
    generation, before = leader.status()["generation"], group.journal.running()
    starts = group.journal.starts("b-0", "b-1")

    def want(target: TargetState) -> None:
        config = (
            desired_of({"a": {**CALM, **FAST, "journal": str(group.journal.path)}}).connectors["a"].config
        )
        calm = DesiredConnector({**CALM, "journal": str(group.journal.path)})
        leader.set_desired(Desired(2, {"a": DesiredConnector(config, target), "b": calm}))

    want(TargetState.PAUSED)
    group.runs("b-0", "b-1")
    eventually(lambda: [states(leader).get(name) for name in ("a", "a-0", "a-1")] == ["PAUSED"] * 3, 20)
    want(TargetState.STARTED)
    assert group.runs(*TASKS) == before, "the tasks resume where they were"
    eventually(lambda: set(states(leader).values()) == {"RUNNING"}, 20)
    assert leader.status()["generation"] == generation
    assert group.journal.starts("b-0", "b-1") == starts

    want(TargetState.STOPPED)
    group.runs("b-0", "b-1")
    eventually(
        lambda: states(leader) == {"a": "STOPPED", "b": "RUNNING", "b-0": "RUNNING", "b-1": "RUNNING"}, 30
    )
    assert group.journal.starts("b-0", "b-1") == starts
