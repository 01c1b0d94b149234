"""The token of requests to the local daemon is known to its owner only."""

import os
import stat
from pathlib import Path

import pytest

from cooperator.local.daemon import HostAway, HostRefused, ask_host, host_lock, make_token, tell_host
from cooperator.local.host import Host
from cooperator.local.layout import LocalCluster, StateDir, write_json


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def test_the_file_can_be_read_by_its_owner_only_whatever_the_umask(state: StateDir) -> None:
    before = os.umask(0)
    try:
        token = make_token(state)
    finally:
        os.umask(before)
    assert stat.S_IMODE(state.host_token.stat().st_mode) == 0o600
    assert len(token) >= 40
    assert make_token(state) == token, "commands and daemon keep it"


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_token_that_others_could_read_or_write_is_replaced(state: StateDir, mode: int) -> None:
    known = make_token(state)
    state.host_token.chmod(mode)
    assert make_token(state) != known
    assert stat.S_IMODE(state.host_token.stat().st_mode) == 0o600


def test_commands_are_answered_by_the_daemon_whose_token_they_know(state: StateDir) -> None:
    host = Host(state, LocalCluster("c", "127.0.0.1:1"))
    host._endpoint.start()
    try:
        with host_lock(state):
            write_json(state.host, {"pid": os.getpid(), "port": host._endpoint.port})
            assert ask_host(state)["pid"] == os.getpid()
            body = {"namespace": "default", "connector": "a", "include_tasks": True, "only_failed": False}
            with pytest.raises(HostRefused, match="there is no connector 'a' that runs"):
                tell_host(state, "/restart", body)
            state.host_token.write_text("another")
            with pytest.raises(HostAway):
                ask_host(state)
            state.host_token.unlink()
            with pytest.raises(HostAway):
                ask_host(state)
    finally:
        host._endpoint.stop()
