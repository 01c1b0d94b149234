"""One death, followed by one id through the lines of the operator and of the members."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.installation import Installation, started

pytestmark = pytest.mark.real


def lines(log: Path) -> list[dict[str, Any]]:
    """All of them are JSON; a process that was killed may have left half of its last one."""
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def spoken(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if event in line.get("event", "").split(",")]


def deaths(operator: list[dict[str, Any]], member: str) -> list[str]:
    """The events that say that the member's container has ended."""
    logged = [
        line for line in operator if line["message"].startswith(f"Pod {member}: its container has ended")
    ]
    return [line["event"] for line in logged]


def first(lines: list[dict[str, Any]], *begins: str) -> dict[str, Any]:
    return next(line for line in lines if line["message"].startswith(begins))


@pytest.fixture(autouse=True)
def _as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    # The operator, and the members that the installation's kubelet starts.
    monkeypatch.setenv("COOPERATOR_LOG_FORMAT", "json")


def test_a_death_that_moves_tasks_has_one_id_from_the_watch_to_the_last_start(
    installation: Installation,
) -> None:
    # Without rounds, members are not told the events of their changes.
    before = started(installation, scheduledRebalanceMaxDelayMs=4_000, protocol="sessioned")
    lost = {task for task, member in before.items() if member == "lake-1"}
    installation.kubelet.restart_s = 600.0
    installation.kubelet.crash("lake-1")
    installation.held(lost)
    after = installation.eventually(lambda: _elsewhere(installation, lost), 60, "its tasks run elsewhere")

    operator = lines(installation.operators[0].log)
    [event] = deaths(operator, "lake-1")
    assert event.startswith("Pod/lake-1/")
    logged = spoken(operator, event)
    worker = f"{installation.namespace}/lake"
    group = f"cooperator-{installation.namespace}.lake"
    seen = first(logged, "Pod lake-1: its container has ended")
    departure = first(logged, "lake-1 has ended or is leaving")
    eviction = first(logged, "evicting lake-1-")
    rounds = [line for line in logged if line["message"].startswith("generation ")]
    held = next(line for line in rounds if " 0 held" not in line["message"])
    moved = next(line for line in rounds if line["message"].endswith(": HoldEnded"))
    order = [seen, departure, eviction, held, moved]
    assert [line["time"] for line in order] == sorted(line["time"] for line in order)
    assert {line["worker"] for line in order} == {worker}
    assert {line["group"] for line in order[2:]} == {group}
    assert (seen["level"], seen["logger"]) == ("INFO", "cooperator.controller.platform")

    for task in lost:
        log = installation.kubelet.container(after[task]).folder / "log"

        def starts(log: Path = log, task: str = task) -> list[dict[str, Any]]:
            return [line for line in spoken(lines(log), event) if line.get("task") == task]

        installation.eventually(lambda starts=starts: len(starts()) == 2)
        assert [line["message"].split(" (")[0] for line in starts()] == [f"starting {task}", f"{task} runs"]
        for line in starts():
            assert (line["connector"], line["member"], line["group"]) == ("a", after[task], group)
            assert line["generation"] == moved["generation"]

    # Readers of the API see it, too.
    reason = installation.eventually(lambda: _reason(installation, "HoldEnded"))
    assert reason == f"HoldEnded, by {event}"
    events = installation.cluster.api.get(
        f"/apis/events.k8s.io/v1/namespaces/{installation.namespace}/events"
    )["items"]
    assert any(f"(HoldEnded, by {event})" in each.get("note", "") for each in events)


@pytest.mark.long(
    "tests/controller/test_one_event.py::"
    "test_a_death_that_moves_tasks_has_one_id_from_the_watch_to_the_last_start"
)
def test_and_so_has_one_that_comes_back(installation: Installation) -> None:
    before = started(installation)
    lost = {task for task, member in before.items() if member == "lake-1"}
    starts = {task: installation.journal.starts(task) for task in lost}
    installation.kubelet.crash("lake-1")
    installation.eventually(lambda: all(installation.journal.starts(task) > starts[task] for task in lost))
    installation.settled()
    [event] = deaths(lines(installation.operators[0].log), "lake-1")
    own = spoken(lines(installation.kubelet.container("lake-1").folder / "log"), event)
    assert {line["task"] for line in own if line["message"].startswith("starting")} >= lost


def test_a_connector_that_is_created_is_the_event_of_its_first_round(installation: Installation) -> None:
    started(installation, replicas=1)
    installation.connector("b", tasksMax=1)
    installation.eventually(lambda: "b-0" in installation.journal.running())
    operator = lines(installation.operators[0].log)
    [created] = [line for line in operator if line["message"] == "Connector b: is there"]
    logged = spoken(operator, created["event"])
    assert first(logged, "writing 1 config records")
    assert first(logged, "generation ", "epoch ")["message"].endswith(": Created")
    posted = first(operator, "writing 2 config records: tasks of b")
    assert "event" not in posted, "it is not said to be of an event that it is not of"


def _elsewhere(installation: Installation, lost: set[str]) -> dict[str, str]:
    running = installation.journal.running()
    assert lost <= running.keys()
    assert "lake-1" not in {running[task] for task in lost}
    return running


def _reason(installation: Installation, begins: str) -> str:
    reason: str = installation.get("workers", "lake")["status"]["lastRebalance"]["reason"]
    assert reason.startswith(begins)
    return reason
