"""A long-lived thread that stands still is named by /healthz: for every thread of every program."""

import asyncio
import logging
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from urllib.error import HTTPError
from urllib.request import urlopen

import kopf
import pytest

from cooperator.agent.learner_thread import LearnerThread
from cooperator.agent.watchdog import ProcessWatchdog
from cooperator.connectors.microbatch.ends import EndWatcher, Look
from cooperator.connectors.microbatch.ranges import Partition
from cooperator.controller import main as controller
from cooperator.controller.main import Operator
from cooperator.controller.manifests.pods import Defaults
from cooperator.controller.options import OperatorOptions
from cooperator.group import GroupConfig, Membership
from cooperator.host.worker_loop import WorkerLoop
from cooperator.leader import service
from cooperator.leader.endpoint import Endpoint, answer_health
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.service import LeaderService, ServiceSettings
from cooperator.leader.state import LeaderSettings
from cooperator.local.host import Host
from cooperator.local.layout import LocalCluster, StateDir
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.subscription import Subscription
from cooperator.logs.outages import Outages
from cooperator.runtime.engine import _EventDispatcher
from cooperator.supervision import Heartbeat, ThreadSupervisor, supervised, threads, trouble, turn
from cooperator.telemetry.sender import OtlpSender
from cooperator.telemetry.settings import OtlpSettings
from cooperator.wire import Owner, Role
from tests.agent.surroundings import LocalMember
from tests.harness.support import eventually
from tests.supervision.test_every_thread import SITES
from tests.supervision.test_threads import LeaseApi

NOWHERE = "127.0.0.1:1"
WITHOUT_HEARTBEAT = {
    # It runs the code of a connector; it may say nothing for days.
    "Attempt._live",
    # One request with a time-out: it ends instead of turning.
    "Tokens._renew",
}


@dataclass
class Clock:
    now_s: float = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class RecordingSupervisor(ThreadSupervisor):
    """Knows the functions that its threads run."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, close_s=0.2)
        self.clock = clock
        self.targets: set[str] = set()

    def thread(self, target: Callable[..., object], name: str, *given: Any, **limit: Any) -> threading.Thread:
        self.targets.add(target.__qualname__)
        return super().thread(target, name, *given, **limit)


@dataclass
class Plant:
    """A fake blocking call in the loop of one thread."""

    heartbeat: Heartbeat | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    thawed: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> RecordingSupervisor:
    made = RecordingSupervisor(Clock())
    monkeypatch.setattr(threads, "of_process", made)
    return made


@pytest.fixture
def plants(monkeypatch: pytest.MonkeyPatch) -> list[Plant]:
    """The plant that is in force is the last one."""
    made: list[Plant] = []
    goes_on = Heartbeat.turn

    def turn_or_block(heartbeat: Heartbeat) -> None:
        for plant in made[-1:]:
            if plant.heartbeat is heartbeat:
                plant.reached.set()
                plant.thawed.wait(300)
        goes_on(heartbeat)

    monkeypatch.setattr(Heartbeat, "turn", turn_or_block)
    return made


@pytest.fixture
def _frequent_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle threads turn ten times as often: the test waits for two turns of each."""
    usual_s = threads.TURN_S
    for name, module in [*sys.modules.items()]:
        if name.startswith("cooperator.") and getattr(module, "TURN_S", None) == usual_s:
            monkeypatch.setattr(module, "TURN_S", usual_s / 10)


def thaw(plants: list[Plant]) -> None:
    for plant in plants:
        plant.thawed.set()


# --- the programs ---------------------------------------------------------------------------------------


class EmptyApi(LeaseApi):
    """An API server with one Lease and nothing else."""

    def list(self, *_: object) -> tuple[list[dict[str, Any]], int]:
        return [], 1


def run_operator(stack: ExitStack, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch(*, stop_flag: asyncio.Event, **_: object) -> None:
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", watch)
    monkeypatch.setattr(controller, "registry_of", lambda operator: None)
    api = EmptyApi()
    operator = Operator(OperatorOptions("c", "me", Defaults("", ""), health_port=0), api, directory)
    run = threading.Thread(target=controller._run, args=(operator, MagicMock()))
    run.start()
    stack.callback(run.join, 30)
    stack.callback(operator.ending.set)


def run_daemon(stack: ExitStack, directory: Path) -> None:
    host = Host(StateDir(directory), LocalCluster("c", NOWHERE))
    run = threading.Thread(target=host.run)
    run.start()
    stack.callback(run.join, 30)
    stack.callback(host.end)
    # With an embedded broker there is one thread more.
    broker = SimpleNamespace(_broker=SimpleNamespace(pid=1), _ending=host._ending)
    supervised(Host._keep_broker, "broker-keeper", broker).start()


def run_member(stack: ExitStack, directory: Path) -> None:
    member = LocalMember(directory)
    member.start()
    stack.callback(member.stop)
    learners = LearnerThread(MagicMock(), MagicMock(), MagicMock(), lambda: 0)
    learners.start()
    stack.callback(learners.stop, 10)
    group = stack.enter_context(subprocess.Popen(["sleep", "600"], start_new_session=True))
    stack.callback(group.kill)
    stack.callback(ProcessWatchdog(group.pid).close)
    dispatcher = _EventDispatcher(MagicMock(), MagicMock())
    stack.callback(dispatcher.close, 10)
    sender = OtlpSender(OtlpSettings("http://127.0.0.1:1", interval_ms=600_000), {}, list)
    sender.start()
    stack.callback(sender.stop, 10)

    class NoEnds:
        def watch(self, partitions: object) -> None: ...

        def look(self, timeout_ms: int) -> Look:
            return Look({})

        def close(self) -> None: ...

    watcher = EndWatcher(NoEnds())
    watcher.subscribe([Partition("t", 0)], 600_000)
    stack.callback(watcher.close)


def run_leader(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "FIRST_READ_MS", 300)
    lead = LeaderService(ServiceSettings(NOWHERE, "lake", Owner("c", "n", "lake")))
    lead.start()
    stack.callback(lead.stop)
    thread = LeaderThread(LeaderMachine(LeaderSettings("http://leader/")), MagicMock(), MagicMock())
    thread.start()
    stack.callback(thread.stop)
    membership = Membership(GroupConfig(NOWHERE, "lake", "lake-0", Role.WORKER), MagicMock())
    membership.start()
    stack.callback(membership.stop, leave=False)
    platform = MagicMock()
    platform.observe.return_value = None
    platform.removed.return_value = False
    loop: WorkerLoop[Any] = WorkerLoop(("n", "lake"), platform, 600.0)
    loop.start()
    stack.callback(loop.stop)


def run_logs(stack: ExitStack) -> None:
    clients = Clients(NOWHERE, "lake", {})
    shared = clients.acquire()
    stack.callback(clients.release, shared)
    executor = shared.callbacks.executor()
    subscription = Subscription("t", MagicMock(), Outages(None), executor)
    reader = shared.follow(subscription)
    stack.callback(shared.unfollow, reader, subscription)
    queue = MagicMock(asking=False)
    shared.attach(queue)
    stack.callback(shared.detach, queue)
    executor.put(lambda: None)


@dataclass
class Health:
    """A page that is asked as a probe does."""

    url: str

    def asked(self) -> tuple[int, str]:
        try:
            with urlopen(f"{self.url}healthz", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()

    def says(self, code: int, text: str) -> bool:
        assert self.asked() == (code, text)
        return True


@pytest.fixture
def health(supervisor: RecordingSupervisor) -> Iterator[Health]:
    endpoint = Endpoint("127.0.0.1", 0, {"GET /healthz": answer_health})
    endpoint.start()
    yield Health(endpoint.url)
    endpoint.stop()


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_frequent_turns")
def test_health_names_each_thread_that_stands_still(
    health: Health,
    supervisor: RecordingSupervisor,
    plants: list[Plant],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = set(supervisor.heartbeats)
    with ExitStack() as stack:
        run_operator(stack, tmp_path, monkeypatch)
        run_daemon(stack, tmp_path / "state")
        run_member(stack, tmp_path / "member")
        run_leader(stack, monkeypatch)
        run_logs(stack)
        expected = {f"{site.owner}.{site.method}" for site in SITES} - WITHOUT_HEARTBEAT
        assert supervisor.targets >= expected, "start the new thread above, too"
        eventually(lambda: {"member", "daemon", "kopf"} <= {each.thread for each in supervisor.heartbeats})
        stack.callback(thaw, plants)
        known = [each for each in supervisor.heartbeats if each not in asked and each.limit_s < math.inf]
        for heartbeat in known:
            plant = Plant(heartbeat)
            plants.append(plant)
            assert plant.reached.wait(120), f"{heartbeat.thread} does not turn while it waits for work"
            supervisor.clock.now_s += heartbeat.limit_s + 7
            silent = f"the thread {heartbeat.thread!r} has stood still for {heartbeat.limit_s + 7:.0f} s, "
            named = f"{silent}and must turn within {heartbeat.limit_s:g} s"
            # The others turn again first.
            eventually(lambda named=named: health.says(503, named), 120)  # type: ignore[misc]
            plant.thawed.set()
            eventually(lambda: health.says(200, "ok"), 120)


# --- heartbeats -----------------------------------------------------------------------------------------


def test_a_thread_that_turns_or_has_ended_does_not_stand_still(supervisor: RecordingSupervisor) -> None:
    steps: Mapping[str, threading.Event] = {name: threading.Event() for name in ("turn", "turned", "end")}

    def run() -> None:
        steps["turn"].wait(30)
        turn()
        steps["turned"].set()
        steps["end"].wait(30)

    thread = supervised(run, "runner", limit_s=5)
    thread.start()
    eventually(lambda: [each.thread for each in supervisor.heartbeats] == ["runner"])
    supervisor.clock.now_s += 5
    assert trouble() == ""
    supervisor.clock.now_s += 1
    assert trouble() == "the thread 'runner' has stood still for 6 s, and must turn within 5 s"
    steps["turn"].set()
    assert steps["turned"].wait(30)
    assert trouble() == ""
    supervisor.clock.now_s += 6
    assert trouble() != ""
    steps["end"].set()
    thread.join(30)
    assert trouble() == ""


def test_where_a_thread_stands_is_logged_once(
    supervisor: RecordingSupervisor, caplog: pytest.LogCaptureFixture
) -> None:
    end = threading.Event()

    def stand_in_this_function() -> None:
        end.wait(30)

    supervised(stand_in_this_function, "stander", limit_s=5).start()
    eventually(lambda: supervisor.heartbeats)
    supervisor.clock.now_s += 6
    supervisor.thread(supervisor.watch, "standstills").start()
    eventually(lambda: "stand_in_this_function" in caplog.text)
    assert "the thread 'stander' has stood still for 6 s" in caplog.text
    end.set()
    eventually(lambda: "the thread 'stander' goes on, or has ended" in caplog.text)
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == 1


# --- clients that do not close --------------------------------------------------------------------------


@dataclass
class Client:
    """``close`` hangs until the test lets it go."""

    let_go: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        self.let_go.wait(30)


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.let_go.set()


def test_a_client_that_closes_is_not_abandoned(supervisor: RecordingSupervisor) -> None:
    closed = MagicMock()
    assert supervisor.close_aside(closed, "client").wait(30)
    closed.assert_called_once_with()
    assert trouble() == ""


def test_a_client_whose_close_fails_is_not_abandoned(supervisor: RecordingSupervisor) -> None:
    assert supervisor.close_aside(MagicMock(side_effect=RuntimeError), "client").wait(30)
    assert trouble() == ""
    assert supervisor.deaths == ()


@pytest.mark.parametrize(("apart_s", "calls"), [(599, 1), (601, 0)])
def test_a_second_abandoned_client_within_ten_minutes_ends_the_process(
    supervisor: RecordingSupervisor, client: Client, apart_s: float, calls: int
) -> None:
    told = MagicMock()
    supervisor.on_exhausted = told
    assert supervisor.close_aside(client.close, "first").wait(30)
    assert trouble() == "", "one may be an accident"
    supervisor.clock.now_s += apart_s
    assert supervisor.close_aside(client.close, "second").wait(30)
    assert told.call_count == calls
    assert ("the second is the second client within 10 minutes that does not close" in trouble()) == bool(
        calls
    )


def test_the_process_is_told_to_end_once(supervisor: RecordingSupervisor, client: Client) -> None:
    told = MagicMock()
    supervisor.on_exhausted = told
    for number in range(5):
        assert supervisor.close_aside(client.close, f"client {number}").wait(30)
    told.assert_called_once_with()
    assert "client 1 is the second" in trouble()
