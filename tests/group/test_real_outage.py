"""Brokers that are away, frozen, or were never there."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from cooperator.group import GroupState, GroupUnavailable
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.settings import free_port
from tests.group.conftest import NewMember
from tests.group.recording_member import RecordingMember, all_in
from tests.harness.support import eventually, freeze_group

pytestmark = pytest.mark.real


def has_elapsed(began: float, seconds: float) -> bool:
    return time.monotonic() - began > seconds


def test_a_broker_that_is_away_for_longer_than_every_session_stops_and_drops_nobody(
    broker: EmbeddedBroker, new_member: NewMember, operator: RecordingMember
) -> None:
    operator.membership.start()
    eventually(lambda: operator.generations)
    recorders = [operator, new_member("a"), new_member("b")]
    for recorder in recorders[1:]:
        recorder.membership.start()
    eventually(lambda: all_in(*recorders))
    before = [(recorder.member_id, recorder.generation, recorder.role) for recorder in recorders]
    rounds = len(operator.rounds)

    broker.kill()
    began = time.monotonic()
    eventually(
        lambda: all(recorder.all("trouble") for recorder in recorders), timeout_s=10, what="it is said"
    )
    assert all(recorder.all("coordinator_lost") for recorder in recorders)
    with pytest.raises(GroupUnavailable, match=broker.bootstrap_servers):
        operator.membership.describe(timeout_s=1)
    eventually(lambda: has_elapsed(began, 22), timeout_s=30, what="three session time-outs and a fresh start")
    last = [len(recorder.contacts) for recorder in recorders]
    broker.start()

    eventually(
        lambda: all(len(p.contacts) > n + 2 for p, n in zip(recorders, last, strict=True)),
        what="all are in contact again",
    )
    eventually(lambda: all_in(*recorders))
    assert [recorder.member_id for recorder in recorders] == [member_id for member_id, _, _ in before]
    assert not any(recorder.all("dropped") or recorder.all("lead_lost") for recorder in recorders)
    assert len(operator.all("lead_taken")) == 1
    assert not any(recorder.rounds for recorder in recorders[1:])
    assert len(operator.rounds) <= rounds + 2, "members do not rejoin again and again"


def test_a_freeze_of_the_broker_is_noticed_and_survived(
    broker: EmbeddedBroker, new_member: NewMember, operator: RecordingMember
) -> None:
    operator.membership.start()
    eventually(lambda: operator.generations)
    worker = new_member("a")
    worker.membership.start()
    eventually(lambda: all_in(operator, worker))
    pid = broker.pid
    assert pid is not None
    freeze_group(pid)
    try:
        eventually(lambda: operator.all("trouble") and worker.all("trouble"), timeout_s=10)
    finally:
        os.killpg(pid, signal.SIGCONT)
    eventually(lambda: all_in(operator, worker))
    assert operator.membership.alive
    assert worker.membership.alive


@contextmanager
def forwarder(port: int, broker: EmbeddedBroker) -> Iterator[None]:
    """Forwards connections to the broker, which then advertises its own address."""
    host, _, to_port = broker.bootstrap_servers.rpartition(":")
    listener = socket.create_server(("127.0.0.1", port))
    sockets = [listener]

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        target.close()

    def accept() -> None:
        with suppress(OSError):
            while True:
                inside, _ = listener.accept()
                outside = socket.create_connection((host, int(to_port)))
                sockets.extend((inside, outside))
                for pair in ((inside, outside), (outside, inside)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for each in sockets:
            each.close()


def test_an_unreachable_broker_is_reported_within_ten_seconds_and_retried(
    broker: EmbeddedBroker, new_member: NewMember
) -> None:
    port = free_port()
    worker = new_member("a", bootstrap_servers=f"127.0.0.1:{port}")
    worker.membership.start()
    eventually(lambda: any(f"127.0.0.1:{port}" in m for m in worker.all("trouble")), timeout_s=10)
    assert worker.membership.alive
    with pytest.raises(GroupUnavailable):
        worker.membership.describe(timeout_s=1)
    with forwarder(port, broker):
        eventually(lambda: worker.generations)
        assert worker.membership.describe().state is GroupState.STABLE


def test_a_member_that_waits_for_a_broker_stops_at_once(new_member: NewMember) -> None:
    worker = new_member("a", bootstrap_servers=f"127.0.0.1:{free_port()}")
    worker.membership.start()
    began = time.monotonic()
    worker.membership.stop(leave=True, timeout_s=120)
    assert not worker.membership.alive
    assert not has_elapsed(began, 30), "it does not wait for the broker, which never comes"
