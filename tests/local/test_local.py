"""``cooperator local`` as users type it: real broker, real daemon, real members (without Spark)."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.daemon import host_pid
from cooperator.local.lifecycle import kill_everything
from cooperator.local.processes import marked
from cooperator.local.settings import free_port
from tests.harness.support import eventually
from tests.local.command_line import CALM_S, Local

pytestmark = pytest.mark.real

WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
spec: {replicas: 2, scheduledRebalanceMaxDelayMs: 60000}
"""
CONNECTOR = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: ticks}
spec: {workerRef: {name: NAME}, class: noop, tasksMax: 4, config: {units: 8}}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Local]:
    """Two members that run four tasks of one connector, on the broker that all tests share."""
    local = Local(tmp_path_factory.mktemp("local"), f"pond-{os.getpid()}")
    try:
        local("up", "--bootstrap-servers", broker.bootstrap_servers)
        local.apply(WORKER, CONNECTOR)
        yield local
    finally:
        kill_everything(local.state)


def test_a_member_that_is_killed_gets_exactly_its_own_back_and_nobody_else_is_touched(running: Local) -> None:
    before = running.settled()
    incarnations = running.incarnations()
    victim, other = sorted(incarnations)
    own = {name for name, member in before.items() if member == victim}
    seen: set[str] = set()

    def watch() -> None:
        # From before the kill on: the member may be back before a command has returned.
        while not over.wait(0.05):
            seen.update(t["name"] for t in running.ask("tasks") if t.get("held_for") == victim)

    over = threading.Event()
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        running("kill", victim)
        eventually(lambda: seen == own, CALM_S, "its tasks are held, and no others")
    finally:
        over.set()
        watching.join()
    assert running.settled() == before
    after = running.incarnations()
    assert after[other] == incarnations[other]
    assert after[victim].past[0] == incarnations[victim].incarnation


def test_the_daemon_is_killed_and_started_again_with_everything_running_on(running: Local) -> None:
    before, incarnations = running.settled(), running.incarnations()
    daemon = host_pid(running.state)
    assert daemon is not None
    os.kill(daemon, signal.SIGKILL)
    eventually(lambda: host_pid(running.state) is None)
    assert "states are unknown" in running("get", "workers")
    assert "stored; nothing runs until" in running("scale", "worker", running.worker, "--replicas", "2")

    assert "does not answer" in running("get", "tasks", "ticks", code=1)

    running("up")

    assert running.settled() == before
    assert running.incarnations() == incarnations
    eventually(lambda: running.condition("Leading") == "True", CALM_S)


def test_scaled_up_and_down_again_tasks_go_over_and_the_members_end(running: Local) -> None:
    running.settled()
    running("scale", "worker", running.worker, "--replicas", "3")
    third = f"{running.worker}-2"
    eventually(lambda: third in running.placed().values(), CALM_S, "the third member has work")
    stayed = {name: incarnation for name, incarnation in running.incarnations().items() if name != third}
    running("scale", "worker", running.worker, "--replicas", "2")
    eventually(lambda: third not in running.incarnations(), CALM_S, "the third member has ended")
    assert set(running.settled().values()) == set(stayed)
    assert running.incarnations() == stayed


def test_down_and_up_the_same_names_come_back_to_the_same_tasks(running: Local) -> None:
    before = running.settled()
    running("down")
    assert running.incarnations() == {}
    assert host_pid(running.state) is None
    assert [worker["metadata"]["name"] for worker in running.get("workers")] == [running.worker]

    running("up")

    assert running.settled() == before
    assert set(running.incarnations()) == set(before.values())


def test_a_deleted_connector_ends_and_a_reapplied_one_continues(running: Local) -> None:
    running.settled()
    running("delete", "worker", running.worker)
    eventually(lambda: running.incarnations() == {}, CALM_S, "all members have ended")
    [connector] = running.get("connectors")
    assert connector["status"]["state"] == "WorkerNotFound"
    assert "unchanged" in running.apply(WORKER, CONNECTOR)
    running.settled()


def test_a_connector_or_one_task_is_restarted_by_command_where_it_is(running: Local) -> None:
    before = running.settled()
    incarnations = running.incarnations()

    def starts() -> dict[str, int]:
        logs = [path.read_text() for path in running.state.workers.glob("*/members/*/member.log")]
        return {name: sum(log.count(f"starting {name} (attempt") for log in logs) for name in before}

    generation = running.ask("groups")[0]["generation"]
    once = starts()
    assert "Connector ticks, task 2: restarts" in running("restart", "ticks", "--task", "2")
    one = {**once, "ticks-2": once["ticks-2"] + 1}
    eventually(lambda: starts() == one, CALM_S, "one task has been started anew")
    assert "Connector ticks: restarts" in running("restart", "ticks")
    twice = {name: count + 1 for name, count in one.items()}
    eventually(lambda: starts() == twice, CALM_S, "all have")
    assert running.settled() == before
    assert running.incarnations() == incarnations
    assert running.ask("groups")[0]["generation"] == generation
    assert "failed tasks restart" in running("restart", "ticks", "--failed")
    assert starts() == twice, "nothing has failed"
    assert "there is no connector 'tocks'" in running("restart", "tocks", code=1)
    assert "has no such task" in running("restart", "ticks", "--task", "9", code=1)
    assert "use one of them" in running("restart", "ticks", "--task", "1", "--failed", code=1)


def test_connectors_are_paused_stopped_and_started_where_they_were(running: Local) -> None:
    before = running.settled()

    def states() -> set[str]:
        return {task["state"] for task in running.ask("tasks") if task["task"] >= 0}

    assert "Connector default/ticks: Running -> Paused" in running("pause", "ticks")
    eventually(lambda: states() == {"PAUSED"}, CALM_S)
    assert "Connector default/ticks is Paused already" in running("pause", "ticks")
    assert "ticks: Paused -> Stopped" in running("stop", "ticks")
    eventually(lambda: not states() & {"RUNNING", "PAUSED"}, CALM_S)
    refused = running("start", "ticks", "tocks", code=1)
    assert "there is no connector 'tocks'; did you mean 'ticks'? known: ticks" in refused
    assert "Stopped -> Running" not in refused, "all are there, or nothing is done"
    assert "ticks: Stopped -> Running" in running("start", "ticks")
    assert running.settled() == before
    assert "Running -> Paused" in running("pause", "ticks")
    assert "Paused -> Running" in running("resume", "ticks")
    assert running.settled() == before


def test_plan_accepts_the_workers_name(running: Local, tmp_path: Path) -> None:
    placed = running.settled()

    def plan(*words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(running.program("plan", *words, "--output", "json"))
        return answer

    saved = tmp_path / "pond.json"
    answer = plan("--worker", running.worker, "--die", f"{running.worker}-0", "--save", str(saved))
    assert answer["led_by"] == "operator"
    assert answer["notes"] == [], "the daemon has told what cannot be seen from outside"
    held = {entry["name"] for entry in answer["rounds"][0]["held"]}
    assert held == {task for task, member in placed.items() if member == f"{running.worker}-0"}
    assert answer["rest_after_ms"] == 60_000
    assert plan("--file", str(saved), "--die", f"{running.worker}-0") == answer
    assert running.settled() == placed

    refused = running.program("plan", "--worker", "puddle", code=1)
    assert "--worker puddle: namespace default of" in " ".join(refused.split())
    assert running.worker in refused


def test_questions_about_state_go_to_a_member(running: Local) -> None:
    running.settled()
    asked = running("state", "ticks", "--key", "user=ada", code=1)
    assert "ticks has no finished batch whose state could be read" in asked
    assert "there is no connector 'tocks' that runs" in running("state", "tocks", code=1)
    assert "--key is 'ada': write COLUMN=VALUE" in running("state", "ticks", "--key", "ada", code=1)


def test_a_misspelt_worker_is_said_and_corrected_and_then_stays(running: Local) -> None:
    running.settled()
    other = CONNECTOR.replace("ticks", "tocks").replace("tasksMax: 4", "tasksMax: 1")
    misspelt = other.replace("NAME", f"{running.worker}x")
    try:
        said = running.apply(misspelt)
        assert f"did you mean '{running.worker}'?" in said, said
        running.apply(other)
        eventually(lambda: "tocks-0" in {t["name"] for t in running.ask("tasks")}, CALM_S)
        assert "spec.workerRef.name cannot be changed" in running.apply(misspelt, code=1)
    finally:
        running("delete", "connector", "tocks")
    running.settled()


def test_the_live_picture_of_a_moment_and_a_table_that_is_watched(running: Local) -> None:
    running.settled()
    text = running("top", "--once")
    assert "2 of 2 members run, 4 of 4 tasks run" in text
    assert all(f"ticks-{number}" in text for number in range(4))
    assert "\x1b" not in text, "nothing for a terminal where there is none"
    sent = running.on_a_terminal("tasks run", "top", "--interval", "0.2")
    assert sent.startswith("\x1b[?1049h"), "the terminal's other screen"
    assert sent.rstrip().endswith("\x1b[?25h\x1b[?1049l"), "and back, with the cursor"
    assert "ticks-3" in sent, "the picture fits"
    assert "leave out --output, or --watch" in running("get", "tasks", "-w", "-o", "json", code=1)
    assert running.first_line("get", "tasks", "--watch").startswith("NAME")


def test_a_picture_of_who_ran_what(running: Local, tmp_path: Path) -> None:
    placed = running.settled()
    file = tmp_path / "hour.svg"

    def shows_who_runs_what() -> bool:
        assert re.search(r": \d tasks, \d+[.]\d minutes", running("picture", running.worker, "-o", str(file)))
        text = file.read_text()
        return all(f'id="{task} running {member} ' in text for task, member in placed.items())

    # Members say that a task runs a moment after they were given it.
    eventually(shows_who_runs_what, 30)
    assert "choose more --minutes" in running(
        "picture", running.worker, "-o", str(file), "--until", "1000000000", code=1
    )
    assert f"known: {running.worker}" in running("picture", "pond", "-o", str(file), code=1)


def test_a_story_tells_where_a_task_runs_and_a_plan_foretells_a_death(running: Local) -> None:
    placed = running.settled()
    member = placed["ticks-1"]
    story = running("story", "ticks-1")
    assert re.search(rf"^\S+Z  {member} +its process has started \(restart \d\)$", story, re.M)
    assert re.search(r"^\S+Z  - +Rebalanced: (generation|epoch) \d+: \d+ tasks? assigned", story, re.M)
    eventually(lambda: re.search(rf"{member} +ticks-1 runs under ", running("story", "ticks-1")), 30)
    assert f"now: RUNNING on {member}" in running("story", "ticks-1")
    assert "did you mean 'ticks-1'?" in running("story", "tick-1", code=1)
    plan = json.loads(running("plan", running.worker, "--die", member, "-o", "json"))
    held = {each["name"] for each in plan["rounds"][0]["held"] if each["task"] >= 0}
    assert held == {task for task, at in placed.items() if at == member and task != "ticks"}
    assert "has no such Worker" in running("plan", "sea", code=1)


def test_logs_of_everybody(running: Local) -> None:
    running.settled()
    [first, *_] = sorted(running.incarnations())
    assert "starting ticks" in running("logs", first)
    assert "daemon" in running("logs", "host")
    assert first in running("logs", "nobody", code=1)


def test_a_broker_that_cannot_be_reached_is_said_and_nothing_is_lost(tmp_path: Path, unique: str) -> None:
    local = Local(tmp_path, unique)
    port = free_port()
    broker = EmbeddedBroker(tmp_path / "broker", port=port)
    try:
        said = local.said_by_failing("up", "--bootstrap-servers", f"127.0.0.1:{port}")
        assert f"127.0.0.1:{port} does not answer" in said.partition("host daemon")[0], "before it waits"
        local.apply(WORKER, CONNECTOR)
        eventually(lambda: local.condition("KafkaReachable") == "False", 15, "the condition")
        assert "Unreachable" in local("get", "workers")

        broker.start()

        assert set(local.settled().values()) == {f"{unique}-0", f"{unique}-1"}
        assert local.condition("KafkaReachable") == "True"
        assert f"belongs to 127.0.0.1:{port}" in local("up", "--bootstrap-servers", "127.0.0.1:1", code=1)
    finally:
        kill_everything(local.state)
        broker.kill()


def test_a_bad_manifest_changes_nothing(running: Local) -> None:
    before = running.settled()
    output = running.apply(
        WORKER.replace("replicas: 2", "replicas: 5"), CONNECTOR.replace("tasksMax", "tasksMaximum"), code=1
    )
    assert "spec.tasksMaximum is not a field: did you mean 'tasksMax'?" in output
    assert "groupId cannot be changed" in running.apply(WORKER.replace("replicas: 2", "groupId: x"), code=1)
    assert [worker["spec"]["replicas"] for worker in running.get("workers")] == [2]
    assert running.placed() == before


def test_a_task_whose_start_kills_its_member_is_taken_out_until_its_connector_is_changed(
    running: Local,
) -> None:
    running.settled()
    # The tests before this one have let the tasks run for most of that minute.
    began_ms = time.time() * 1000
    began_ms = min(began_ms, max(task["at_ms"] or began_ms for task in running.ask("tasks")))
    eventually(
        lambda: time.time() * 1000 - began_ms > 61_000,
        70,
        "a task that has run for a minute is not suspected",
    )
    poison = CONNECTOR.replace("ticks", "bad").replace("tasksMax: 4", "tasksMax: 1")
    running.apply(poison.replace("units: 8", "units: 1, start.delay.ms: 600000"))
    try:
        _is_taken_out_until_it_is_changed(running, poison)
    finally:
        running("delete", "connector", "bad")
    running.settled()


def _is_taken_out_until_it_is_changed(running: Local, poison: str) -> None:
    def bad() -> dict[str, Any]:
        found = [task for task in running.ask("tasks") if task["name"] == "bad-0"]
        assert found, "it is not configured yet"
        return found[0]

    def starts() -> bool:
        living = running.incarnations()
        return bad()["state"] == "STARTING" and bad()["member"] in living

    eventually(starts, CALM_S, "the task is about to start")
    holder = str(bad()["member"])

    for deaths in range(2):
        eventually(lambda: starts() and bad()["member"] == holder, CALM_S, f"it starts after {deaths} deaths")
        killed = running.incarnations()[holder]
        # By a signal that nobody has asked for, as far as the daemon can know.
        os.killpg(killed.pid or 0, signal.SIGKILL)
        eventually(lambda killed=killed: not marked(killed.incarnation), 10)
    eventually(lambda: bad()["state"] == "FAILED", CALM_S, "it is in quarantine")
    assert bad()["reason"] == "PoisonTask"
    [connector] = (c for c in running.get("connectors") if c["metadata"]["name"] == "bad")
    assert {entry["reason"] for entry in connector["status"]["taskStatuses"] if entry["id"] == 0} == {
        "PoisonTask"
    }

    running.apply(poison.replace("units: 8", "units: 1"))
    eventually(lambda: bad()["state"] == "RUNNING", CALM_S, "it runs once it is mended")

    for _ in range(3):
        holder = str(eventually(lambda: bad()["state"] == "RUNNING" and bad()["member"], CALM_S))
        killed = eventually(lambda holder=holder: running.incarnations().get(holder), CALM_S)
        running("kill", holder)
        eventually(lambda killed=killed: not marked(killed.incarnation), 10)
    eventually(
        lambda: {task["state"] for task in running.ask("tasks")} == {"RUNNING"}, CALM_S, "all run again"
    )
    assert not [task["name"] for task in running.ask("tasks") if task.get("reason")], "no task is suspected"
