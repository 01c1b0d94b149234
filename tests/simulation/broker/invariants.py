"""Invariants of a group after every step."""

from cooperator.group import GroupState
from tests.simulation.broker.group import Member
from tests.simulation.broker.rounds import CLEAN_UP, ROUND, SYNC, Rounds


def check(rounds: Rounds) -> None:
    """Raises AssertionError where the group contradicts itself."""
    group, timers = rounds.group, rounds.timers
    due_ms = timers.next_ms()
    assert due_ms is None or due_ms >= rounds.now_ms, "due events have not happened"
    if group is None:
        assert rounds.stored is None
        assert not set(timers)
        return
    members = group.members
    states = GroupState
    assert group.state is not states.DEAD
    assert (group.leader is None) == (not members)
    assert group.leader is None or group.leader in members
    assert not group.pending & set(members)
    assert all(member_id == member.member_id for member_id, member in members.items())
    instances = [member.instance_id for member in members.values() if member.instance_id is not None]
    assert len(set(instances)) == len(instances), "one member an instance id"
    waiting = [p.request_id for m in members.values() for p in m.parked if p.request_id is not None]
    assert len(set(waiting)) == len(waiting), "one answer a request"
    if members:
        assert group.accepts(next(iter(members.values())).protocols), "all speak one protocol"

    assert (group.state is states.EMPTY) == (CLEAN_UP in timers)
    assert (group.state is states.PREPARING) == (ROUND in timers)
    assert bool(group.not_synced) == (SYNC in timers)
    if group.state is states.EMPTY:
        assert not members
    if group.state is not states.PREPARING:
        assert not group.initial
        assert not any(member.join or member.new for member in members.values())
        assert group.protocol is None or all(m.offers(group.protocol) for m in members.values())
    if group.state is not states.COMPLETING:
        assert not any(member.sync for member in members.values())
    if group.state in (states.COMPLETING, states.STABLE):
        assert members
        assert group.generation > 0
        assert group.protocol is not None
    else:
        assert not group.not_synced
    if group.state is states.COMPLETING:
        assert members[group.leader or ""].sync is None, "a leader's SyncGroup ends the round"
        assert not any(member.assignment for member in members.values()) or group.generation > 1
    if group.state is states.PREPARING and not group.initial:
        assert not group.all_have_joined or not members, "a round with everybody in it is complete"

    sessions = {key[0] for key in timers if isinstance(key, tuple)}
    assert sessions <= set(members) | group.pending
    assert group.pending <= sessions
    for member in members.values():
        assert member.member_id in sessions or _waits(member), "a silent member is dropped"
    stored = rounds.stored
    assert stored is not None
    assert stored.size_bytes <= rounds.settings.max_record_bytes
    assert stored.generation <= group.generation
    if group.state is states.STABLE:
        assert stored.generation == group.generation
        assert {m.member_id: m.assignment for m in stored.members} == {
            member.member_id: member.assignment for member in members.values()
        }


def _waits(member: Member) -> bool:
    return bool(member.parked) and not member.new
