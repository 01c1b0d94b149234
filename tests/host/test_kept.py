"""Statuses while the group's leader reports nothing."""

from typing import Any

import pytest

from cooperator.crd import Worker, parse
from cooperator.host.kept import kept_of_connector, kept_of_worker
from cooperator.host.known import is_known
from cooperator.host.status import WorkerFacts, worker_status

BEFORE: dict[str, Any] = {
    "memberSummary": "3/3",
    "readyReplicas": 3,
    "taskSummary": "5/6",
    "tasks": {"desired": 6, "running": 5, "held": 1, "failed": 0},
    "held": [{"task": "a-5"}],
    "heldCount": 1,
    "members": [
        {"identity": f"lake-{n}", "phase": "Running", "incarnation": f"i{n}", "tasks": 2} for n in range(3)
    ],
    "conditions": ["old"],
}


def pending(number: int, incarnation: str, phase: str = "Pending") -> dict[str, Any]:
    return {"identity": f"lake-{number}", "phase": phase, "incarnation": incarnation, "tasks": 0}


def test_members_that_run_on_keep_their_phase_and_others_show_theirs() -> None:
    members = [pending(0, "i0"), pending(1, "another"), pending(2, "i2", "Ended"), pending(3, "i3")]
    now = {"members": members, "memberSummary": "?/4", "taskSummary": "?", "conditions": ["new"]}
    made = kept_of_worker(now, BEFORE, 4)
    assert [each["phase"] for each in made["members"]] == ["Running", "Pending", "Ended", "Pending"]
    assert (made["readyReplicas"], made["memberSummary"]) == (1, "1/4")
    assert (made["tasks"], made["taskSummary"]) == (BEFORE["tasks"], "5/6")
    assert (made["held"], made["heldCount"], made["conditions"]) == ([{"task": "a-5"}], 1, ["new"])


def test_the_protocol_and_epochs_are_not_kept() -> None:
    epochs = {"state": "STABLE", "epoch": 7, "targetEpoch": 7}
    members = [{**each, **epochs} for each in BEFORE["members"]]
    before = {**BEFORE, "members": members, "protocol": {"name": "reconciled", "groupEpoch": 9}}
    made = kept_of_worker({"members": [pending(0, "i0")], "memberSummary": "?/1"}, before, 1)
    assert made["members"] == [BEFORE["members"][0]]
    assert "protocol" not in made


def test_figures_that_were_never_known_stay_unknown() -> None:
    now = {"members": [], "memberSummary": "?/3", "taskSummary": "?"}
    assert kept_of_worker(now, {}, 3) == now
    fresh = {"state": "Unknown", "taskSummary": "?"}
    for before in ({}, {"state": "WorkerNotFound", "taskSummary": "0/0", "tasks": {"desired": 0}}):
        assert kept_of_connector(fresh, before) == fresh


def test_a_connector_keeps_its_tasks_but_no_rate() -> None:
    entries = [{"id": 0, "state": "RUNNING"}]
    figures = {"lag": 7, "stateRows": 5, "stateBytes": 900}
    before = BEFORE | {"state": "RUNNING", "taskStatuses": entries, **figures, "rowsPerSecond": 900}
    made = kept_of_connector({"state": "Unknown", "taskSummary": "?"}, before)
    assert (made["state"], made["taskSummary"], made["taskStatuses"]) == ("RUNNING", "5/6", entries)
    assert {name: made[name] for name in figures} == figures
    assert "rowsPerSecond" not in made


def test_the_progress_of_learners_is_not_kept() -> None:
    known = {"tasks": {"desired": 1}, "taskStatuses": [{"id": 0, "lag": 3, "learning": "warming on lake-4"}]}
    made = kept_of_connector({"state": "Unknown"}, {**known, "warmingSummary": "a-0 on lake-4"})
    assert made["taskStatuses"] == [{"id": 0, "lag": 3, "learning": ""}]
    assert "warmingSummary" not in made


@pytest.mark.parametrize(
    ("leader", "known"),
    [
        ({}, False),
        ({"leading": True}, False),
        ({"leading": False, "known": True}, False),
        ({"leading": True, "known": False}, False),
        ({"leading": True, "known": True, "reading_statuses": True}, False),
        ({"leading": True, "known": True}, True),
    ],
)
def test_figures_are_known_if_their_leader_says_so_and_has_read_the_statuses(
    leader: dict[str, Any], known: bool
) -> None:
    assert is_known(leader) is known


@pytest.mark.parametrize("known", [False, True])
def test_a_worker_says_that_members_are_not_ready_only_when_that_is_known(known: bool) -> None:
    leader = {"leading": True, "known": known, "members": [], "tasks": []}
    [worker] = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\nspec: {replicas: 3}",
        "test",
    )
    assert isinstance(worker, Worker)
    status = worker_status(worker, WorkerFacts(leader=leader), 0)
    [ready] = [each for each in status.conditions if each.type == "MembersReady"]
    assert (ready.status.value, status.member_summary, status.task_summary) == (
        ("False", "0/3", "0/0") if known else ("Unknown", "?/3", "?")
    )
