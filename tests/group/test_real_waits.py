"""Requests that wait at a real broker: an answer proves when its request was sent, and the next request may
wait as long."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from cooperator.group import Round
from cooperator.local.broker import EmbeddedBroker
from cooperator.wire import Role
from tests.group.conftest import NewMember
from tests.group.raw import SilentMember
from tests.group.recording_member import RecordingMember, all_in, assign_generation
from tests.harness.support import eventually

pytestmark = pytest.mark.real

LONG_S = 2.0


def waits(member: RecordingMember) -> None:
    """The member waits for an answer that is long overdue."""
    eventually(lambda: time.monotonic() - member.contacts[-1] > LONG_S)


def never(round_: Round) -> "Future[Mapping[str, bytes]]":
    return Future()


def test_a_member_that_waited_for_others_has_contact_before_it_waits_for_the_plan(
    broker: EmbeddedBroker, unique: str, new_member: NewMember, operator: RecordingMember
) -> None:
    silent = SilentMember(broker.bootstrap_servers, unique, 30_000, rebalance_timeout_ms=5_000)
    worker = new_member("a")
    operator.membership.start()
    eventually(lambda: operator.generations)
    worker.membership.start()
    eventually(lambda: all_in(operator, worker))
    silent.join()
    eventually(lambda: len(operator.rounds[-1].members) == 3 and worker.generation == operator.generation)
    planned = len(operator.rounds)
    operator.make_plan = never
    operator.membership.rejoin("a round that is not planned")
    waits(worker)
    for_others_s = time.monotonic()
    assert len(operator.rounds) == planned, "the round waits for the silent member"
    eventually(lambda: len(operator.rounds) > planned)
    # This happens before the broker ends the round, one rebalance timeout after its begin, because its leader
    # does not plan.
    eventually(lambda: worker.contacts[-1] > for_others_s, 10, what="a later contact")
    operator.make_plan = assign_generation
    silent.close()


def test_a_member_that_waited_for_a_plan_has_contact_before_it_waits_for_others(
    broker: EmbeddedBroker, unique: str, new_member: NewMember
) -> None:
    leader = new_member("operator", role=Role.LEADER, make_plan=never)
    worker = new_member("a", rebalance_timeout_ms=30_000)
    silent = SilentMember(broker.bootstrap_servers, unique, 60_000, rebalance_timeout_ms=30_000)
    leader.make_plan = assign_generation
    leader.membership.start()
    eventually(lambda: leader.generations)
    worker.membership.start()
    eventually(lambda: all_in(leader, worker))
    leader.make_plan = never
    joins = threading.Thread(target=silent.join, kwargs={"goes_on": False})
    joins.start()
    eventually(lambda: len(leader.rounds[-1].members) == 3)
    completed = list(worker.generations)
    waits(worker)
    leader.membership.stop(leave=False)
    gone_s = time.monotonic()
    joins.join(30)
    assert not joins.is_alive(), "the round failed when its leader's session ended"
    eventually(lambda: worker.contacts[-1] > gone_s, 10, what="a later contact")
    assert worker.generations == completed, "this happens while the round waits for the silent member"
    silent.close()
