"""The daemon of a state directory, and the settings that belong to the directory."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from cooperator.local.daemon import HostAway, ask_host, host_lock, host_pid
from cooperator.local.layout import (
    ClusterError,
    StateDir,
    read_cluster,
    read_json,
    write_atomically,
    write_json,
)
from cooperator.local.lifecycle import bring_up, delete_state
from tests.harness.support import eventually

HOLD_THE_LOCK = """
import sys, time
from pathlib import Path
from cooperator.local.daemon import host_lock
from cooperator.local.layout import StateDir
with host_lock(StateDir(Path(sys.argv[1]))) as ours:
    print(ours, flush=True)
    time.sleep(600)
"""


class Silent:
    def step(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(lambda detail: None)

    def say(self, text: str) -> None: ...


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def other_daemon(state: StateDir) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD_THE_LOCK, str(state.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "True"
        yield process
        process.kill()


def test_one_daemon_at_a_time_and_its_process_is_known(
    state: StateDir, other_daemon: subprocess.Popen[str]
) -> None:
    assert host_pid(state) == other_daemon.pid
    with host_lock(state) as ours:
        assert not ours
    assert host_pid(state) == other_daemon.pid


def test_the_place_is_free_when_the_daemon_was_killed(
    state: StateDir, other_daemon: subprocess.Popen[str]
) -> None:
    other_daemon.kill()
    eventually(lambda: host_pid(state) is None, what="the lock is free")
    with host_lock(state) as ours:
        assert ours


def test_no_daemon_is_no_answer_whatever_address_is_left_over(state: StateDir) -> None:
    write_json(state.host, {"pid": 1, "port": 1})
    assert host_pid(state) is None
    with pytest.raises(HostAway):
        ask_host(state)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_json(path, {"a": 1})
    write_atomically(path, "{ broken")
    assert read_json(path) is None
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert list(path.parent.iterdir()) == [path]


def test_a_directory_of_somebody_else_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    with pytest.raises(ClusterError, match="nothing was removed"):
        delete_state(StateDir(tmp_path))
    assert (tmp_path / "precious").exists()


@pytest.mark.parametrize("servers", ["localhost", "localhost:", ":9092", "a:1,b", "a:70000"])
def test_an_address_that_is_none_is_refused_before_anything_is_started(state: StateDir, servers: str) -> None:
    with pytest.raises(ClusterError, match="is not host:port"):
        bring_up(state, servers, Silent())
    assert not state.root.exists()


def test_a_directory_that_has_run_workers_keeps_its_broker(state: StateDir) -> None:
    write_json(state.cluster, {"id": "local-1", "bootstrap_servers": "kafka:9092", "down": True, "newer": 1})
    write_atomically(state.worker("default", "lake").manifest, "kind: Worker")
    with pytest.raises(ClusterError, match="belongs to kafka:9092"):
        bring_up(state, "other:9092", Silent())
    cluster = read_cluster(state)
    assert cluster is not None
    assert cluster.bootstrap_servers == "kafka:9092"
