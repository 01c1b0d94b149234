"""Programs of which several clients do not close hand over and end, so that they are started again."""

import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import kopf
import pytest

from cooperator.agent import main as agent
from cooperator.controller import main as controller
from cooperator.controller.main import Operator
from cooperator.controller.manifests.pods import Defaults
from cooperator.controller.options import OperatorOptions
from cooperator.local import commands
from cooperator.local import host as daemon
from cooperator.local.layout import LocalCluster, StateDir, write_json
from cooperator.supervision import ThreadSupervisor, threads
from tests.supervision.test_heartbeats import EmptyApi


class HangingClients:
    """Clients whose closes return when the test ends."""

    def __init__(self, supervisor: ThreadSupervisor) -> None:
        self.supervisor = supervisor
        self.let_go = threading.Event()

    def exhaust(self) -> None:
        for name in ("first client", "second client"):
            assert self.supervisor.close_aside(lambda: self.let_go.wait(120), name).wait(60)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingClients]:
    supervisor = ThreadSupervisor(close_s=0.1)
    monkeypatch.setattr(threads, "of_process", supervisor)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    made = HangingClients(supervisor)
    yield made
    made.let_go.set()


def test_the_operator_leaves_its_groups_releases_the_lease_and_fails(
    clients: HangingClients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def watch(*, stop_flag: Any, **_: object) -> None:
        clients.exhaust()
        await stop_flag.wait()

    monkeypatch.setattr(kopf, "operator", watch)
    monkeypatch.setattr(controller, "registry_of", lambda operator: None)
    api = EmptyApi()
    operator = Operator(OperatorOptions("c", "me", Defaults("", ""), health_port=0), api, tmp_path)
    assert controller._run(operator, MagicMock()) == 1
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == ""  # type: ignore[index]


def test_a_member_hands_over_its_tasks(clients: HangingClients, monkeypatch: pytest.MonkeyPatch) -> None:
    member = MagicMock()
    member.run.side_effect = lambda: clients.exhaust() or 0  # type: ignore[func-returns-value]
    monkeypatch.setattr(agent, "Agent", lambda *_: member)
    monkeypatch.setattr(agent, "ProcessWatchdog", MagicMock())
    monkeypatch.setattr(agent, "own_process_group", lambda: 1)
    options: Any = SimpleNamespace(group_id="lake", identity="lake-0", incarnation="1")
    agent.run_worker(options)
    member.drain.assert_called_once_with()


def test_the_local_daemon_is_started_again(
    clients: HangingClients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDir(tmp_path)
    write_json(state.cluster, asdict(LocalCluster("c", "127.0.0.1:1")))

    def step(host: daemon.Host) -> bool:
        clients.exhaust()
        return False

    monkeypatch.setattr(daemon.Host, "_step", step)
    assert daemon.run_host(state)


@pytest.mark.parametrize("is_exhausted", [True, False])
def test_the_daemons_process_ends_or_becomes_the_next_daemon(
    is_exhausted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(BaseException):
        """Neither call returns."""

    became = MagicMock(side_effect=Gone)
    ended = MagicMock(side_effect=Gone)
    monkeypatch.setattr(daemon, "run_host", lambda state: is_exhausted)
    monkeypatch.setattr("os.execv", became)
    monkeypatch.setattr("os._exit", ended)
    with pytest.raises(Gone):
        commands.host(tmp_path)
    command = [sys.executable, "-m", "cooperator.cli", "local", "host", "--state-dir", str(tmp_path)]
    assert became.call_args_list == ([((sys.executable, command),)] if is_exhausted else [])
    assert ended.call_args_list == ([] if is_exhausted else [((0,),)])
