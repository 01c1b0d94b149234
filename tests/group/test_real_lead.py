"""The lead on a real broker: taken from an empty group, from a member, after a restart, and among rivals."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from cooperator.group import DescribedGroup, DescribedMember, GroupState
from cooperator.group.admin import GroupAdmin
from cooperator.group.library import sleep_ms
from cooperator.local.broker import EmbeddedBroker
from cooperator.wire import Role
from tests.group.conftest import NewMember
from tests.group.recording_member import RecordingMember, all_in
from tests.harness.support import eventually, freeze

pytestmark = pytest.mark.real

Process: TypeAlias = "subprocess.Popen[str]"
ROOT = Path(__file__).resolve().parents[2]


def seen_by(worker: RecordingMember, instance_id: str) -> list[int]:
    """The generations that ``worker`` led with that static member in them."""
    return [
        round_.generation
        for round_ in worker.rounds
        if any(member.group_instance_id == instance_id for member in round_.members)
    ]


def test_a_leader_and_two_workers_from_an_empty_group(
    new_member: NewMember, operator: RecordingMember
) -> None:
    operator.membership.start()
    eventually(lambda: operator.generations, what="the operator leads an empty group")
    workers = [new_member("a"), new_member("b")]
    for worker in workers:
        worker.membership.start()
    eventually(lambda: all_in(operator, *workers))
    assert operator.all("lead_taken") == [()]
    last = operator.rounds[-1]
    assert {member.client_id for member in last.members} == {"", "a", "b"}
    assert {member.metadata for member in last.members} == {b"operator", b"a", b"b"}
    assert last.leader_id == operator.member_id
    assert last.protocol == "sessioned"
    for recorder in (operator, *workers):
        assert recorder.all("joined")[-1].assignment == str(last.generation).encode()
        assert not recorder.all("dropped")
    assert not any(worker.rounds for worker in workers)


def test_the_lead_is_taken_from_a_member_without_a_round_as_its_follower(
    new_member: NewMember, operator: RecordingMember
) -> None:
    workers = [new_member("a"), new_member("b")]
    for worker in workers:
        worker.membership.start()
    eventually(lambda: all_in(*workers))
    before = {worker.member_id for worker in workers}
    led_by_a_worker = max(round_.generation for worker in workers for round_ in worker.rounds)
    operator.membership.start()
    eventually(lambda: all_in(operator, *workers), timeout_s=10)
    (asked,) = operator.all("asked")[:1]
    assert {member.metadata for member in asked} == {b"a", b"b"}, (
        "the operator described the group while it was stable"
    )
    assert {member.client_id for member in asked} == {"a", "b"}
    (evicted,) = operator.all("lead_taken")
    assert set(evicted) >= before
    assert operator.generations[0] == led_by_a_worker + 1, "there was no round in between"
    for worker in workers:
        assert seen_by(worker, operator.instance_id or "") == []
        assert max([r.generation for r in worker.rounds], default=0) <= led_by_a_worker
        assert worker.membership.alive


def test_however_slow_the_operator_is_no_member_completes_a_round_with_it_as_a_follower(
    new_member: NewMember, operator: RecordingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = GroupAdmin.describe

    async def slow(admin: GroupAdmin) -> DescribedGroup:
        await sleep_ms(admin._loop, 400)
        return await prompt(admin)

    worker = new_member("hasty", heartbeat_interval_ms=50)
    worker.membership.start()
    eventually(lambda: worker.generations)
    monkeypatch.setattr(GroupAdmin, "describe", slow)
    operator.membership.start()
    eventually(lambda: operator.generations)
    monkeypatch.undo()
    eventually(lambda: all_in(operator, worker))
    assert seen_by(worker, operator.instance_id or "") == []
    assert len(operator.all("lead_taken")) == 1


def test_a_leader_that_stays_away_for_longer_than_its_session_is_replaced_and_takes_the_lead_back(
    new_member: NewMember,
) -> None:
    instance_id = "operator-that-returns"
    first = new_member("operator", role=Role.LEADER, instance_id=instance_id)
    workers = [new_member("a"), new_member("b")]
    first.membership.start()
    eventually(lambda: first.generations, what="the operator leads an empty group")
    for worker in workers:
        worker.membership.start()
    eventually(lambda: all_in(first, *workers))
    first.membership.stop(leave=False)
    eventually(lambda: any(w.rounds for w in workers) and all_in(*workers), what="a worker leads")
    again = new_member("operator", role=Role.LEADER, instance_id=instance_id)
    again.membership.start()
    eventually(lambda: all_in(again, *workers))
    assert len(again.all("lead_taken")) == 1
    assert all(seen_by(worker, instance_id) == [] for worker in workers)
    assert all(worker.membership.alive for worker in workers)


@contextmanager
def leader_process(
    broker: EmbeddedBroker, group_id: str, instance_id: str, **times: int
) -> Iterator[Process]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.group.leader_process"),
            *(broker.bootstrap_servers, group_id, instance_id, json.dumps(times)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def heard(process: Process, kind: str) -> str:
    """The next call of this kind that the leader in ``process`` prints."""
    assert process.stdout is not None
    for line in process.stdout:
        call: tuple[str, str] = tuple(json.loads(line))
        if call[0] == kind:
            return call[1]
    raise AssertionError(f"the leader's process ended before {kind!r}")


def test_a_leader_killed_and_back_within_its_session_leads_on_unnoticed(
    broker: EmbeddedBroker, unique: str, new_member: NewMember
) -> None:
    workers = [new_member("a"), new_member("b")]
    with leader_process(broker, unique, "operator") as process:
        heard(process, "joined")
        for worker in workers:
            worker.membership.start()
        eventually(
            lambda: all(w.generations for w in workers) and workers[0].generation == workers[1].generation
        )
        before = [worker.member_id for worker in workers]
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert workers[0].membership.describe().state is GroupState.STABLE, "no member has noticed"
    again = new_member("operator", role=Role.LEADER, instance_id="operator")
    again.membership.start()
    eventually(lambda: all_in(again, *workers))
    assert again.all("lead_taken") == [()], "no member was evicted"
    assert [worker.member_id for worker in workers] == before
    assert not any(worker.all("dropped") or worker.rounds for worker in workers)
    assert len(again.rounds[0].members) == 3, "the leader can still make a round"


def test_a_leader_that_sleeps_longer_than_its_session_wakes_up_dropped_and_takes_the_lead_back(
    broker: EmbeddedBroker, unique: str, new_member: NewMember
) -> None:
    worker = new_member("a")
    with leader_process(broker, unique, "operator") as process:
        heard(process, "joined")
        worker.membership.start()
        eventually(lambda: worker.generations)
        freeze(process.pid)
        eventually(lambda: worker.rounds, what="a worker leads")
        process.send_signal(signal.SIGCONT)
        heard(process, "dropped")
        heard(process, "lead_lost")
        assert worker.member_id in heard(process, "lead_taken")
        eventually(lambda: worker.all("dropped"))
    assert seen_by(worker, "operator") == []


def test_a_leader_that_lost_the_lead_but_not_its_membership_leaves_that_round_and_takes_the_lead_back(
    broker: EmbeddedBroker, unique: str, new_member: NewMember
) -> None:
    # The timeouts are in the wrong order: its session outlasts the others' rebalance, which completes without
    # it.
    times = {"rebalance_timeout_ms": 3_000}
    workers = [new_member("a", **times), new_member("b", **times)]
    with leader_process(broker, unique, "operator", session_timeout_ms=60_000, **times) as process:
        heard(process, "joined")
        workers[0].membership.start()
        eventually(lambda: workers[0].generations)
        freeze(process.pid)
        workers[1].membership.start()
        eventually(lambda: any(worker.rounds for worker in workers) and workers[1].generations)
        process.send_signal(signal.SIGCONT)
        heard(process, "lead_lost")
        heard(process, "lead_taken")
        joined = heard(process, "joined")
    led = max(round_.generation for worker in workers for round_ in worker.rounds)
    assert int(joined.partition("generation=")[2].partition(",")[0]) > led


def test_an_operator_that_stops_while_it_takes_the_lead_leaves_no_trace(
    new_member: NewMember, operator: RecordingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = new_member("a")
    worker.membership.start()
    eventually(lambda: worker.generations)
    parked = threading.Event()
    prompt = GroupAdmin.describe

    async def stuck(admin: GroupAdmin) -> DescribedGroup:
        group = await prompt(admin)
        if admin._config == operator.config and len(group.members) == 2 and operator.membership.alive:
            parked.set()
            await sleep_ms(admin._loop, 1_000)
        return group

    monkeypatch.setattr(GroupAdmin, "describe", stuck)
    operator.membership.start()
    eventually(parked.is_set, what="its JoinGroup is parked")
    operator.membership.stop(leave=False)
    monkeypatch.undo()
    eventually(lambda: all_in(worker), what="neither a member nor a pending one is left")
    assert seen_by(worker, operator.instance_id or "") == []


def test_exactly_one_of_two_leaders_started_at_once_leads_and_the_other_is_fenced(
    new_member: NewMember,
) -> None:
    worker = new_member("a")
    worker.membership.start()
    eventually(lambda: worker.generations)
    rivals = [new_member(f"rival-{n}", role=Role.LEADER, instance_id="operator") for n in range(2)]
    for rival in rivals:
        rival.membership.start()
    eventually(lambda: sum(bool(rival.all("fenced")) for rival in rivals) == 1)
    (fenced,) = [rival for rival in rivals if rival.all("fenced")]
    (leader,) = [rival for rival in rivals if rival is not fenced]
    eventually(lambda: all_in(leader, worker))
    assert not fenced.membership.alive
    assert leader.rounds[-1].leader_id == leader.member_id
    assert seen_by(worker, "operator") == []
    # This is its last call: it stays away for good.
    assert fenced.calls[-1][0] == "fenced"


def test_a_leader_that_is_fenced_while_it_leads_stops_and_does_not_come_back(new_member: NewMember) -> None:
    old = new_member("old", role=Role.LEADER, instance_id="operator")
    old.membership.start()
    eventually(lambda: old.generations)
    new = new_member("new", role=Role.LEADER, instance_id="operator")
    new.membership.start()
    eventually(lambda: old.all("fenced") and all_in(new))
    assert not old.membership.alive
    assert old.calls[-1][0] == "fenced"


def test_a_refused_lead_leaves_the_group_unchanged_and_is_retried(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("theirs")
    worker.membership.start()
    eventually(lambda: all_in(worker))
    led = len(worker.rounds)

    def not_theirs(members: object) -> str:
        return "the group belongs to another cooperator"

    operator.verdict = not_theirs
    operator.membership.start()
    eventually(lambda: len(operator.all("refused")) == 3, what="asks again and again")
    assert set(operator.all("refused")) == {"the group belongs to another cooperator"}
    described = worker.membership.describe()
    assert [member.member_id for member in described.members] == [worker.member_id]
    assert described.state is GroupState.STABLE
    assert len(worker.rounds) == led, "the group is unchanged"
    assert not operator.rounds

    def by_now_ours(members: object) -> bool:
        return True

    operator.verdict = by_now_ours
    eventually(lambda: all_in(operator, worker), timeout_s=20)


def test_a_refusal_after_our_join_leaves_no_member_behind(
    new_member: NewMember, operator: RecordingMember
) -> None:
    worker = new_member("theirs")
    worker.membership.start()
    eventually(lambda: all_in(worker))
    late = new_member("late")

    def refuses_late_comers(members: list[DescribedMember]) -> bool | str:
        if any(member.client_id == "late" for member in members):
            return "no late comers"
        # One more member joins between the question and our JoinGroup.
        late.membership.start()
        eventually(lambda: late.all("joined") or len(worker.membership.describe().members) > 1)
        return True

    operator.verdict = refuses_late_comers
    operator.membership.start()
    eventually(lambda: operator.all("refused"))
    operator.membership.stop(leave=False)
    eventually(lambda: all_in(worker, late))
    assert not operator.rounds
    assert seen_by(worker, operator.instance_id or "") == seen_by(late, operator.instance_id or "") == []
