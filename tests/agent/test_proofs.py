"""The lease follows the newest proof, however many events are queued before it."""

import threading
import time
from pathlib import Path

import pytest

from cooperator.agent import events as ev
from cooperator.agent import main
from cooperator.agent.proofs import Proofs
from cooperator.model import Epoch, TaskId
from tests.agent.surroundings import LocalMember, noop_records
from tests.harness.support import eventually

LEASE_MS = 40_000
A0 = TaskId("a", 0)


def test_the_newest_proof_of_each_kind_is_taken_newest_first() -> None:
    proofs = Proofs()
    confirmed = ev.LeaderConfirmed(7_000, Epoch(1, 2))
    for proof in (ev.Contact(5_000), ev.Contact(6_000), confirmed, ev.Contact(5_500)):
        proofs.add(proof)
    assert proofs.take() == [confirmed, ev.Contact(6_000)]
    assert proofs.take() == []


@pytest.mark.parametrize("confirmed", [False, True], ids=["by the broker", "by the leader"])
def test_a_member_that_was_frozen_uses_the_newest_queued_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    # A run of the simulation found this: the first queued answer, an old one, stopped everything.
    begun_ms, later_ms = int(time.monotonic() * 1000), [0]
    monkeypatch.setattr(main, "now_ms", lambda: int(time.monotonic() * 1000) + later_ms[0])
    member = LocalMember(tmp_path)
    member.start()
    try:
        member.group.assignment(
            [A0], config_offset=member.write(*noop_records("a", ["u-0"], member.journal.path))
        )
        eventually(lambda: "a-0" in member.journal.running(), 10)
        standing, go_on, done = threading.Event(), threading.Event(), threading.Event()

        def stand_still(supervisor: object) -> None:
            standing.set()
            assert go_on.wait(20)

        member.agent._inbox.put(stand_still)
        assert standing.wait(10)
        member.agent.tell(ev.Tick())
        member.group.listener.contact((begun_ms + 1_000) / 1000)
        sent_ms = begun_ms + LEASE_MS - 5_000
        if confirmed:
            member.agent.tell(ev.LeaderConfirmed(sent_ms, Epoch(1, 1)))
        else:
            member.group.listener.contact(sent_ms / 1000)
        member.agent._inbox.put(lambda supervisor: done.set())
        later_ms[0] = LEASE_MS + 5_000
        go_on.set()
        assert done.wait(10)
        assert member.agent.report.owned == (A0,)
        assert "a-0" in member.journal.running()
        assert member.agent.report.stopping == frozenset()
    finally:
        member.stop()
