"""Rounds on a real broker: plans that take long, members that hang, storms of rejoins, evictions."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from cooperator.group import GroupState, Round
from cooperator.local.broker import EmbeddedBroker
from cooperator.wire import Role
from tests.group.conftest import NewMember
from tests.group.raw import SilentMember
from tests.group.recording_member import RecordingMember, all_in, assign_generation
from tests.harness.support import eventually

pytestmark = pytest.mark.real


def start(leader: RecordingMember, *workers: RecordingMember) -> None:
    """Starts the leader first, so that it evicts no member."""
    leader.membership.start()
    eventually(lambda: leader.generations)
    for worker in workers:
        worker.membership.start()
    eventually(lambda: all_in(leader, *workers))


def test_a_plan_that_takes_longer_than_the_session_is_waited_for_with_heartbeats(
    new_member: NewMember, operator: RecordingMember
) -> None:
    slow: list[Future[Mapping[str, bytes]]] = []

    def think(round_: Round) -> Future[Mapping[str, bytes]]:
        slow.append(Future())
        return slow[-1]

    operator.make_plan = think
    operator.membership.start()
    eventually(lambda: slow)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 1.2 * operator.session_timeout_ms / 1000)
    assert len(operator.rounds) == 1
    late = [sent_at for sent_at in operator.contacts if sent_at > began]
    assert len(late) > 10, "heartbeats continued"
    slow[0].set_result(assign_generation(operator.rounds[0]))
    eventually(lambda: operator.generations == [operator.rounds[0].generation])
    assert not operator.all("void")
    assert any("its own plan" in message for message in operator.all("trouble"))


def test_a_round_that_ends_while_it_is_planned_is_reported_and_its_plan_dropped(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    held: list[tuple[Round, Future[Mapping[str, bytes]]]] = []

    def hold(round_: Round) -> Future[Mapping[str, bytes]]:
        held.append((round_, Future()))
        return held[-1][1]

    operator.make_plan = hold
    operator.membership.rejoin("holds a round")
    eventually(lambda: held)
    void = held[0][0].generation
    operator.make_plan = assign_generation
    newcomer = new_member("b")
    newcomer.membership.start()
    eventually(lambda: operator.all("void") == [void])
    held[0][1].set_result({member.member_id: b"too late" for member in held[0][0].members})
    eventually(lambda: all_in(operator, worker, newcomer))
    assert void not in operator.generations + worker.generations
    assert not [
        j for p in (operator, worker, newcomer) for j in p.all("joined") if j.assignment == b"too late"
    ]


def test_a_plan_that_fails_is_reported_and_made_again(
    new_member: NewMember, operator: RecordingMember
) -> None:
    def fail(round_: Round) -> Mapping[str, bytes]:
        if len(operator.rounds) < 3:
            raise RuntimeError("the log cannot be written")
        return assign_generation(round_)

    operator.make_plan = fail
    operator.membership.start()
    eventually(lambda: operator.generations)
    assert any("the log cannot be written" in message for message in operator.all("trouble"))
    assert len(operator.all("void")) <= 2


def test_a_plan_that_does_not_fit_into_a_record_is_reported_and_the_members_stay(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)

    def too_much(round_: Round) -> Mapping[str, bytes]:
        return {member.member_id: b"x" * 1_500_000 for member in round_.members}

    operator.make_plan = too_much
    operator.membership.rejoin("grows")
    eventually(lambda: any("message.max.bytes" in message for message in operator.all("trouble")))
    operator.make_plan = assign_generation
    eventually(lambda: all_in(operator, worker))
    assert "3,000,000 bytes" in next(m for m in operator.all("trouble") if "message.max.bytes" in m)
    assert operator.all("void")
    assert not operator.all("dropped") + worker.all("dropped")


def test_a_hanging_member_delays_a_round_by_its_rebalance_timeout_and_no_longer(
    broker: EmbeddedBroker, unique: str, new_member: NewMember
) -> None:
    operator = new_member("operator", role=Role.LEADER, rebalance_timeout_ms=4_000)
    worker = new_member("a", rebalance_timeout_ms=4_000)
    start(operator, worker)
    silent = SilentMember(broker.bootstrap_servers, unique, 60_000, 4_000)
    silent.join()
    silent.close()
    began = time.monotonic()
    operator.membership.rejoin("has a round held up")
    eventually(lambda: all_in(operator, worker))
    took_s = time.monotonic() - began
    # Its rebalance time-out is 4 s; its session lasts for a minute.
    assert 3 < took_s < 55
    assert not operator.all("dropped") + worker.all("dropped")


def test_the_lead_is_taken_at_once_from_a_group_with_a_member_that_hangs(
    broker: EmbeddedBroker, unique: str, operator: RecordingMember
) -> None:
    silent = SilentMember(broker.bootstrap_servers, unique, 60_000, 60_000)
    silent.join()
    silent.close()
    operator.membership.start()
    eventually(lambda: operator.generations, timeout_s=10)
    assert operator.all("lead_taken") == [(silent.member_id,)]


def test_an_evicted_member_notices_and_rejoins_as_a_new_one(
    new_member: NewMember, operator: RecordingMember
) -> None:
    workers = [new_member("a"), new_member("b")]
    start(operator, *workers)
    evicted, stays = workers
    old_id, other_id = evicted.member_id, stays.member_id
    operator.membership.evict([old_id, "nobody"])
    eventually(lambda: evicted.all("dropped") and all_in(operator, *workers))
    assert evicted.member_id != old_id
    assert stays.member_id == other_id
    assert not stays.all("dropped")
    assert evicted.membership.alive


def held_up(broker: EmbeddedBroker, group: str, operator: RecordingMember) -> SilentMember:
    """Begin a round that waits for a member which has joined and is silent; returns that member."""
    silent = SilentMember(broker.bootstrap_servers, group, 60_000, 60_000)
    silent.join()
    silent.close()
    operator.membership.rejoin("has a round held up")
    eventually(lambda: operator.membership.describe().state is GroupState.PREPARING)
    return silent


def test_a_member_is_evicted_from_a_round_that_waits_for_it(
    broker: EmbeddedBroker, unique: str, new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    silent = held_up(broker, unique, operator)
    operator.membership.evict([silent.member_id])
    eventually(lambda: all_in(operator, worker), timeout_s=10)


def test_a_round_serves_all_that_its_leader_has_asked_while_it_waited_for_others(
    broker: EmbeddedBroker, unique: str, new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    silent = held_up(broker, unique, operator)
    rounds = len(operator.rounds)
    operator.membership.rejoin("repeats its request")
    operator.membership.evict([silent.member_id])
    eventually(lambda: all_in(operator, worker), timeout_s=10)
    beats = len(operator.contacts)
    eventually(lambda: len(operator.contacts) > beats + 5)
    assert len(operator.rounds) == rounds + 1, "a second round would have followed at once"


def test_an_eviction_waits_for_the_end_of_a_round_that_is_being_planned(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    held: list[Future[Mapping[str, bytes]]] = []

    def hold(round_: Round) -> Future[Mapping[str, bytes]]:
        held.append(Future())
        return held[-1]

    operator.make_plan = hold
    operator.membership.rejoin("holds a round")
    eventually(lambda: held)
    operator.membership.evict([worker.member_id])
    operator.make_plan = assign_generation
    beats = len(operator.contacts)
    eventually(lambda: len(operator.contacts) > beats + 3)
    assert not worker.all("dropped")
    planned = operator.rounds[-1]
    held[0].set_result(assign_generation(planned))
    eventually(lambda: worker.all("dropped") and all_in(operator, worker))
    # Its SyncGroup was answered; it would not be if the member had been removed while it waited.
    assert planned.generation in worker.generations


def test_a_follower_evicts_no_member(new_member: NewMember, operator: RecordingMember) -> None:
    worker = new_member("a")
    start(operator, worker)
    worker.membership.evict([operator.member_id])
    worker.membership.rejoin("has a reason to talk to the broker")
    beats = len(operator.contacts)
    eventually(lambda: len(operator.contacts) > beats + 3)
    assert not operator.all("dropped")
    assert all_in(operator, worker)


def test_a_follower_makes_a_round_by_changed_metadata_only(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    rounds = len(operator.rounds)
    joined = len(worker.generations)
    worker.membership.rejoin("nothing has changed")
    eventually(lambda: len(worker.generations) == joined + 1, what="answered with the round as it is")
    assert len(operator.rounds) == rounds
    worker.metadata = b"a, changed"
    worker.membership.rejoin("has stopped something")
    eventually(lambda: len(operator.rounds) == rounds + 1 and all_in(operator, worker))
    assert b"a, changed" in {member.metadata for member in operator.rounds[-1].members}


def test_a_leader_makes_a_round_by_every_rejoin(new_member: NewMember, operator: RecordingMember) -> None:
    worker = new_member("a")
    start(operator, worker)
    for _ in range(3):
        rounds = len(operator.rounds)
        operator.membership.rejoin("the time is up")
        eventually(lambda expected=rounds + 1: len(operator.rounds) == expected and all_in(operator, worker))


def test_a_storm_of_rejoins_settles_and_the_last_metadata_is_known(
    new_member: NewMember, operator: RecordingMember
) -> None:
    workers = [new_member(name) for name in "abc"]
    start(operator, *workers)
    recorders = [operator, *workers]

    def storm(number: int) -> None:
        for turn in range(50):
            recorder = recorders[(number + turn) % len(recorders)]
            recorder.metadata = f"{recorder.name} {number} {turn}".encode()
            recorder.membership.rejoin("storm")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(storm, range(4)))
    eventually(
        lambda: (
            all_in(*recorders)
            and {m.metadata for m in operator.rounds[-1].members} == {p.metadata for p in recorders}
        ),
        what="the last round knows what everybody said last",
    )
    assert not any(recorder.all("dropped") for recorder in recorders)
    rounds, beats = len(operator.rounds), len(operator.contacts)
    eventually(lambda: len(operator.contacts) > beats + 5)
    assert len(operator.rounds) == rounds, "the group is stable"


def test_a_request_made_while_a_round_is_under_way_is_not_lost(
    new_member: NewMember, operator: RecordingMember
) -> None:
    asked = threading.Event()

    def ask_for_another(round_: Round) -> Mapping[str, bytes]:
        if not asked.is_set():
            asked.set()
            operator.membership.rejoin("has thought of something while planning")
        return assign_generation(round_)

    operator.make_plan = ask_for_another
    operator.membership.start()
    eventually(lambda: len(operator.rounds) == 2 and len(operator.generations) == 2)


def test_a_member_sends_leave_group_even_while_a_round_waits_for_others(
    broker: EmbeddedBroker, unique: str, new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    held_up(broker, unique, operator)
    gone = worker.member_id
    worker.membership.stop(leave=True)
    described = operator.membership.describe()
    assert described.state is GroupState.PREPARING, "the round still waits for the others"
    assert gone not in {member.member_id for member in described.members}


def test_a_contact_has_the_time_of_sending_and_never_a_later_one(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("a")
    start(operator, worker)
    for recorder in (operator, worker):
        beats = len(recorder.contacts)
        eventually(lambda p=recorder, n=beats: len(p.contacts) > n + 3)
        assert recorder.contacts == sorted(recorder.contacts)
        assert all(
            sent <= heard for sent, heard in zip(recorder.contacts, recorder.reported_at, strict=False)
        )
