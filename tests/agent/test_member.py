"""A member's process without a broker: its thread, listener, logs, runtime and endpoint together."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cooperator.agent import events as ev
from cooperator.agent.options import WorkerOptions
from cooperator.leader.endpoint import Endpoint, json_answer
from cooperator.model import INSTANCE, TaskId, TaskState, Warmth
from cooperator.runtime import RuntimeListener, TaskSpec
from cooperator.runtime.inline import InlineRuntime
from cooperator.wire import RestartRecord, encode_config
from tests.agent.surroundings import LocalMember, noop_records
from tests.harness.support import eventually

A, A0, A1 = (TaskId("a", task) for task in (INSTANCE, 0, 1))


@pytest.fixture
def member(tmp_path: Path) -> Iterator[LocalMember]:
    member = LocalMember(tmp_path)
    member.start()
    yield member
    member.stop()


def states(member: LocalMember) -> dict[str, TaskState]:
    return {str(task): status.state for task, status in member.logs.status.snapshot().items()}


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def post(url: str, body: bytes = b"[]") -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_member_runs_its_assignment_and_reports_it(member: LocalMember) -> None:
    offset = member.write(*noop_records("a", ["u-0", "u-1"], member.journal.path))
    member.group.assignment([A0, A1], config_offset=offset)
    eventually(lambda: set(member.journal.running()) == {"a-0", "a-1"}, 10)
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING, "a-1": TaskState.RUNNING}, 10)
    status = member.logs.status.snapshot()[A0]
    assert status.worker == "lake-0"
    assert status.epoch == (1, 1)
    assert status.at_ms > 1_600_000_000_000, "times are the wall clock's"
    assert member.watchdog.watching[-1] is not None


def test_a_revocation_is_acknowledged_when_it_has_stopped(member: LocalMember) -> None:
    records = noop_records("a", ["u-0", "u-1"], member.journal.path, **{"stop.delay.ms": "300"})
    member.group.assignment([A0, A1], config_offset=member.write(*records))
    eventually(lambda: set(member.journal.running()) == {"a-0", "a-1"}, 10)
    member.group.join()
    member.group.assignment(revoked=[A0])
    join = eventually(lambda: len(member.group.joins) > 2 and member.group.joins[-1], 10)
    assert member.group.reasons == ["released a-0"]
    assert set(member.journal.running()) == {"a-1"}, "the task had stopped by then"
    assert join.allocation is not None
    assert join.allocation.assigned == (A1,)
    assert member.journal.starts("a-1") == 1


def test_a_restart_is_read_from_the_config_log(member: LocalMember) -> None:
    offset = member.write(*noop_records("a", ["u-0"], member.journal.path))
    member.group.assignment([A0], config_offset=offset)
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)
    member.write(encode_config(RestartRecord("a", include_tasks=True, only_failed=False)))
    eventually(lambda: member.journal.starts("a-0") == 2, 10)
    assert member.journal.doubled() == []


def test_a_drain_ends_when_everything_is_taken_away(member: LocalMember) -> None:
    offset = member.write(*noop_records("a", ["u-0"], member.journal.path))
    member.group.assignment([A0], config_offset=offset)
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)
    member.agent.drain()
    eventually(lambda: member.group.reasons == ["departs"], 10)
    agent = member.group.joins[-1].agent
    assert agent is not None
    assert agent.draining
    member.group.assignment(revoked=[A0])
    eventually(lambda: member.group.reasons == ["departs", "released a-0"], 10)
    member.group.assignment()
    assert member.ended() == 0
    assert member.group.left is True
    assert member.watchdog.closed
    assert member.journal.running() == {}


def test_a_second_request_to_stop_does_not_wait_for_the_drain(member: LocalMember) -> None:
    offset = member.write(*noop_records("a", ["u-0"], member.journal.path))
    member.group.assignment([A0], config_offset=offset)
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)
    member.agent.drain()
    member.agent.drain()
    assert member.ended() == 0
    assert member.group.left is True
    assert member.journal.running() == {}


def test_task_configurations_of_its_instance_reach_the_leader(member: LocalMember) -> None:
    posted: list[tuple[str, Any]] = []

    async def take(request: web.Request) -> web.StreamResponse:
        posted.append((request.match_info["name"], await request.json()))
        return json_answer(204, {})

    leader = Endpoint("127.0.0.1", 0, {"POST /connectors/{name}/tasks": take})
    leader.start()
    offset = member.write(*noop_records("a", ["u-0,u-1,u-2"], member.journal.path))
    member.group.assignment([A], config_offset=offset, leader_url=leader.url)
    [(name, configs)] = eventually(lambda: posted, 10)
    assert name == "a"
    assert [config["task.units"] for config in configs] == ["unit-0,unit-1,unit-2"]

    offset = member.write(*noop_records("b", ["unit-2", "unit-0"], member.journal.path, units="3"))
    member.group.assignment([A, TaskId("b", INSTANCE)], config_offset=offset, leader_url=leader.url)
    eventually(lambda: len(posted) > 1, 10)
    assert [config["task.units"] for config in posted[1][1]] == ["unit-2,unit-1", "unit-0"], (
        "the units are dealt anew"
    )
    leader.stop()


def test_an_impossible_event_changes_nothing(member: LocalMember, caplog: pytest.LogCaptureFixture) -> None:
    member.agent.tell(ev.Stopped(A0, 17))
    offset = member.write(*noop_records("a", ["u-0"], member.journal.path))
    member.group.assignment([A0], config_offset=offset)
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)
    assert "attempt 17 of a-0 was never started" in caplog.text


def test_a_failing_instruction_does_not_stop_the_others(
    member: LocalMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(reason: str) -> None:
        raise OSError("no loop to wake")

    member.group.assignment(
        [A0], config_offset=member.write(*noop_records("a", ["u-0"], member.journal.path))
    )
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)
    monkeypatch.setattr(member.group, "rejoin", refuse)
    member.group.join()
    member.group.assignment(revoked=[A0])
    eventually(lambda: states(member) == {"a-0": TaskState.UNASSIGNED}, 10)
    member.group.join()
    member.group.assignment([A0])
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)


class SlowRuntime(InlineRuntime):
    """A runtime that is warm when the test says so."""

    def warm_up(self) -> bool:
        return True

    def is_up(self) -> None:
        self._dispatcher.warmed_up()


def test_a_member_joins_cold_and_reports_when_it_is_warm(tmp_path: Path) -> None:
    made: list[SlowRuntime] = []

    def slow(options: WorkerOptions, listener: RuntimeListener) -> SlowRuntime:
        made.append(SlowRuntime(options.runtime_settings(), listener))
        return made[0]

    member = LocalMember(tmp_path, runtime=slow)
    member.start()
    [join] = member.group.joins
    assert join.agent is not None
    assert join.agent.warmth is Warmth.WARMING
    assert get(member.agent.url)["runtime"] == "Warming"
    member.group.assignment()
    made[0].is_up()
    eventually(lambda: member.group.reasons == ["the runtime is warm"], 10)
    agent = member.group.joins[-1].agent
    assert agent is not None
    assert agent.warmth is Warmth.WARM
    member.stop()


class BrokenRuntime(InlineRuntime):
    def start(self, spec: TaskSpec, attempt: int) -> None:
        raise OSError("out of threads")


def test_a_task_that_the_runtime_refuses_has_failed(tmp_path: Path) -> None:
    def broken(options: WorkerOptions, listener: RuntimeListener) -> BrokenRuntime:
        return BrokenRuntime(options.runtime_settings(), listener)

    member = LocalMember(tmp_path, runtime=broken)
    member.start()
    member.group.assignment(
        [A0], config_offset=member.write(*noop_records("a", ["u-0"], member.journal.path))
    )
    eventually(lambda: states(member) == {"a-0": TaskState.RESTARTING}, 10)
    status = member.logs.status.snapshot()[A0]
    assert "out of threads" in status.trace
    assert status.next_attempt_ms == status.at_ms + 10_000, "times are the wall clock's"
    member.stop()


def test_a_class_that_does_not_exist_fails_its_task_for_good(member: LocalMember) -> None:
    records = noop_records("a", ["u-0"], member.journal.path, **{"connector.class": "noop-of-yesterday"})
    member.group.assignment([A0], config_offset=member.write(*records))
    eventually(lambda: states(member) == {"a-0": TaskState.FAILED}, 10)
    status = member.logs.status.snapshot()[A0]
    assert (status.reason, status.next_attempt_ms) == ("InvalidOption", 0)
    assert "option 'connector.class' = 'noop-of-yesterday'" in status.trace


def test_a_member_whose_tasks_do_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    member = LocalMember(tmp_path, options={"kill_after_ms": 200})
    member.start()
    records = noop_records("a", ["u-0"], member.journal.path, **{"stop.delay.ms": "2000"})
    member.group.assignment([A0], config_offset=member.write(*records))
    eventually(lambda: states(member) == {"a-0": TaskState.RUNNING}, 10)
    member.agent.stop()
    eventually(lambda: member.watchdog.killed, 10)
    assert member.ended() == 1


def test_its_endpoint_serves_identity_and_state(member: LocalMember) -> None:
    offset = member.write(*noop_records("a", ["u-0"], member.journal.path))
    member.group.assignment([A, A0], config_offset=offset)
    eventually(lambda: states(member).get("a-0") is TaskState.RUNNING, 10)
    url = member.agent.url
    root = get(url)
    assert (root["group"], root["identity"], root["owned"]) == ("lake", "lake-0", 2)
    tasks = {task["task"]: task for task in get(f"{url}tasks")}
    assert tasks["a-0"]["phase"] == "RUNNING"
    assert tasks["a-0"]["epoch"] == "1.1"
    lines = [line["what"] for line in get(f"{url}tasks/a/0/story")]
    assert "assigned by 1.1" in lines
    assert get(f"{url}tasks/a/instance/story")
    for route in ("connectors/a/tasks", "lease"):
        assert post(url + route) == 409, "the member does not lead"


class PermissiveLeader:
    """A leader that answers every request with 204."""

    def __init__(self) -> None:
        self.stopped = False

    def routes(self) -> dict[str, Any]:
        async def yes(request: web.Request) -> web.StreamResponse:
            return json_answer(204, {})

        return {"POST /connectors/{name}/tasks": yes, "POST /lease": yes}

    def plan(self, round_: Any) -> "Future[Any]":
        raise AssertionError("no round in this test")

    def joined(self, joined: Any) -> None: ...
    def round_void(self, generation: int) -> None: ...
    def lost(self, reason: str) -> None: ...
    def stop(self, timeout_s: float) -> None:
        self.stopped = True


def test_its_endpoint_serves_the_leaders_routes(tmp_path: Path) -> None:
    lead = PermissiveLeader()
    given: list[Any] = []

    def make(*arguments: Any) -> PermissiveLeader:
        given.extend(arguments)
        return lead

    member = LocalMember(tmp_path, lead=make)
    member.start()
    url, group, logs, _, contact_age_ms = given
    assert (url, group, logs) == (member.agent.url, member.group, member.logs)
    member.group.assignment()
    eventually(lambda: contact_age_ms() < 10_000, 10)
    assert post(url + "connectors/a/tasks") == post(url + "lease") == 204
    member.stop()
    assert lead.stopped


def test_a_port_in_use_is_reported_before_the_member_joins(member: LocalMember, tmp_path: Path) -> None:
    port = int(member.agent.url.rstrip("/").rpartition(":")[2])
    other = LocalMember(tmp_path, options={"port": port})
    with pytest.raises(OSError, match=str(port)):
        other.agent.open()
