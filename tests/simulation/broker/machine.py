"""A group's coordinator on a Kafka broker, for groups of the classic protocol: requests in, answers out.

Theory of operation. A group is in one of these states:

    Empty ----join----> PreparingRebalance <---join, leave, time-out--- CompletingRebalance, Stable
                                |        all members' JoinGroups wait here, or the round's time is over
                                v
                        CompletingRebalance   JoinGroups are answered; SyncGroups wait for the leader's
                                |
                                v
                             Stable           SyncGroups are answered

A round (one generation) is prepared, completed, and then stable. These make one: a new member, a leaver, a
session that expires; a JoinGroup of the leader; one of a follower whose protocols have changed; a static
member that comes back under a new id while the leader assigns, or whose protocols change the vote. While a
round is prepared all members learn of it from their heartbeats and must send JoinGroup. It ends when all have
joined and no id that was given out is unused (pending), or after the largest rebalance time-out of the
members. Members that have not joined by then are removed; static members stay until their session ends.

A request that waits is answered on its own connection only; a second one of the same member replaces the
first, which is never answered. The first round of an empty group ends by time, with the members that have
joined: after a delay, which every newcomer extends.

The coordinator has a log of one record: the group as it was when the leader's assignments came (or a static
member was replaced in a stable group, or it became empty). A restart forgets everything since then.

All times are milliseconds. The behaviour is Kafka 4.3's; ``test_broker_is_true`` compares the two.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import assert_never

from cooperator.group import DescribedGroup, DescribedMember, GroupState
from tests.simulation.broker import invariants
from tests.simulation.broker import messages as say
from tests.simulation.broker.group import Choose, Group, Member, Parked
from tests.simulation.broker.record import CLIENT_HOST, Record, record_of
from tests.simulation.broker.rounds import SYNC as SYNC_TIMER
from tests.simulation.broker.rounds import Rounds
from tests.simulation.broker.settings import BrokerSettings


class GroupCoordinator:
    """One group. ``choose`` picks one of several ids or names where the broker's order is arbitrary.

    ``new_member_id`` makes an id with the given prefix. Requests of one connection come one after another:
    the next one when the last one has been answered. ``now_ms`` never goes back; events that were due
    before happen first.
    """

    def __init__(
        self, settings: BrokerSettings, choose: Choose, new_member_id: Callable[[str], str] | None = None
    ) -> None:
        self._rounds = Rounds(settings, choose)
        numbers = count(1)
        # As long as Kafka's, which end in a UUID.
        self._new_member_id = new_member_id or (lambda prefix: f"{prefix}-{next(numbers):036d}")

    @property
    def settings(self) -> BrokerSettings:
        return self._rounds.settings

    def take_too_large(self) -> list[Record]:
        """The records that were not stored since the last call."""
        found, self._rounds.too_large = self._rounds.too_large, []
        return found

    def limit_records(self, max_record_bytes: int) -> None:
        """Change ``max.message.bytes`` of ``__consumer_offsets``, which takes effect at once."""
        self._rounds.settings = replace(self._rounds.settings, max_record_bytes=max_record_bytes)

    @property
    def group(self) -> Group | None:
        """For inspection only; None while there is no group."""
        return self._rounds.group

    def handle(self, request_id: int, request: say.Request, now_ms: int) -> list[tuple[int, say.Answer]]:
        """The answers that follow: to earlier requests that waited, and to this one unless it waits."""
        self._rounds.advance(now_ms)
        answer = self._answer(Parked(request_id, request.client), request)
        if answer is not None:
            self._rounds.answers.append((request_id, answer))
        return self._take_answers()

    def tick(self, now_ms: int) -> list[tuple[int, say.Answer]]:
        """Run what is due; returns the answers that follow."""
        self._rounds.advance(now_ms)
        return self._take_answers()

    def next_wake_ms(self) -> int | None:
        """When ``tick`` has something to do, unless a request comes first."""
        return self._rounds.timers.next_ms()

    def disconnect(self, client: str, now_ms: int) -> None:
        """Nobody notices: the member is not gone, and its waiting JoinGroup still counts."""
        self._rounds.advance(now_ms)
        for member in self._members():
            for parked in member.parked:
                if parked.client == client:
                    parked.request_id = None

    def restart(self, now_ms: int, settings: BrokerSettings | None = None) -> None:
        """The broker has crashed and is back, with the group from its log. No request waits any more; every
        session starts again. ``settings`` replace the earlier ones."""
        self._rounds.advance(now_ms)
        self._rounds.settings = settings or self._rounds.settings
        self._rounds.load()

    def validate(self) -> None:
        """Raises AssertionError where the group contradicts itself."""
        invariants.check(self._rounds)

    def _take_answers(self) -> list[tuple[int, say.Answer]]:
        answers, self._rounds.answers = self._rounds.answers, []
        return answers

    def _members(self) -> tuple[Member, ...]:
        return () if self.group is None else tuple(self.group.members.values())

    def _answer(self, parked: Parked, request: say.Request) -> say.Answer | None:
        match request:
            case say.JoinGroup():
                return self._join(parked, request)
            case say.SyncGroup():
                return self._sync(parked, request)
            case say.Heartbeat():
                return say.Heartbeaten(self._heartbeat(request))
            case say.LeaveGroup():
                return self._leave(request)
            case say.DescribeGroup():
                return self._describe()
            case _:
                assert_never(request)

    # --- JoinGroup -----------------------------------------------------------------------------------

    def _join(self, parked: Parked, request: say.JoinGroup) -> say.Joined | None:
        settings, member_id = self._rounds.settings, request.member_id
        if not (
            settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
        ):
            return say.Joined(say.Error.INVALID_SESSION_TIMEOUT, member_id)
        group = self.group
        if group is None:
            if member_id != say.UNKNOWN_MEMBER:
                return say.Joined(say.Error.UNKNOWN_MEMBER_ID, member_id)
            group = self._rounds.create()
        if not group.accepts(request.protocols):
            return say.Joined(say.Error.INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id == say.UNKNOWN_MEMBER:
            return self._join_unknown(group, parked, request)
        if member_id in group.pending:
            if request.instance_id is not None:
                return say.Joined(say.Error.UNKNOWN_SERVER_ERROR)
            self._rounds.add(group, member_id, request, parked)
            return None
        refusal = group.refusal(member_id, request.instance_id)
        if refusal is not say.Error.NONE:
            return say.Joined(refusal, member_id)
        return self._rejoin(group, group.members[member_id], parked, request)

    def _join_unknown(self, group: Group, parked: Parked, request: say.JoinGroup) -> say.Joined | None:
        if request.instance_id is None:
            member_id = self._new_member_id(request.client_id)
            self._rounds.add_pending(group, member_id, request.session_timeout_ms)
            return say.Joined(say.Error.MEMBER_ID_REQUIRED, member_id)
        member_id = self._new_member_id(request.instance_id)
        earlier = group.static_member(request.instance_id)
        if earlier is not None:
            return self._come_back(group, earlier, member_id, parked, request)
        self._rounds.add(group, member_id, request, parked)
        return None

    def _come_back(
        self, group: Group, earlier: Member, member_id: str, parked: Parked, request: say.JoinGroup
    ) -> say.Joined | None:
        """A static member is back: it is replaced in place while the group is stable and its protocol stays,
        and otherwise by a round."""
        as_before = replace(earlier, join=None, sync=None)
        # The session that starts now has its earlier length; the request's applies from the next one.
        member = self._rounds.replace(group, earlier, member_id)
        member.update(request)
        if group.state is not GroupState.STABLE or group.vote() != group.protocol:
            member.join = parked
            self._rounds.changed(group)
            return None
        if self._rounds.store(record_of(group, {m.member_id: m.assignment for m in self._members()})):
            return self._rounds.as_it_is(group, member, skip_assignment=group.leader == member_id)
        member.update(as_before)
        self._rounds.replace(group, member, earlier.member_id)
        return say.Joined(say.Error.UNKNOWN_SERVER_ERROR)

    def _rejoin(
        self, group: Group, member: Member, parked: Parked, request: say.JoinGroup
    ) -> say.Joined | None:
        leads = group.leader == member.member_id
        idle = group.state is GroupState.COMPLETING or (group.state is GroupState.STABLE and not leads)
        if idle and member.protocols == request.protocols:
            return self._rounds.as_it_is(group, member)
        member.update(request)
        member.join = parked
        self._rounds.changed(group)
        return None

    # --- SyncGroup, Heartbeat, LeaveGroup, DescribeGroups --------------------------------------------

    def _sync(self, parked: Parked, request: say.SyncGroup) -> say.Synced | None:
        group, refusal = self.group, self._refusal(request)
        if group is None or refusal is not say.Error.NONE:
            return say.Synced(refusal)
        if group.state is GroupState.PREPARING:
            return say.Synced(say.Error.REBALANCE_IN_PROGRESS)
        member = group.members[request.member_id]
        group.not_synced.discard(member.member_id)
        if not group.not_synced:
            self._rounds.timers.cancel(SYNC_TIMER)
        if group.state is GroupState.STABLE:
            return say.Synced(say.Error.NONE, member.assignment)
        member.sync = parked
        if group.leader == member.member_id:
            self._rounds.assign(group, request.assignments)
        return None

    def _heartbeat(self, request: say.Heartbeat) -> say.Error:
        group, refusal = self.group, self._refusal(request)
        if group is None or refusal is not say.Error.NONE:
            return refusal
        self._rounds.set_session(group.members[request.member_id])
        return say.Error.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else say.Error.NONE

    def _refusal(self, request: say.SyncGroup | say.Heartbeat) -> say.Error:
        if self.group is None:
            return say.Error.UNKNOWN_MEMBER_ID
        refusal = self.group.refusal(request.member_id, request.instance_id)
        if refusal is say.Error.NONE and request.generation != self.group.generation:
            return say.Error.ILLEGAL_GENERATION
        return refusal

    def _leave(self, request: say.LeaveGroup) -> say.Left:
        removed = tuple((m, i, self._remove(m, i)) for m, i in request.members)
        if self.group is not None and any(error is say.Error.NONE for _, _, error in removed):
            self._rounds.changed(self.group)
        return say.Left(say.Error.NONE, removed)

    def _remove(self, member_id: str, instance_id: str | None) -> say.Error:
        group = self.group
        if group is None:
            return say.Error.UNKNOWN_MEMBER_ID
        if member_id not in group.pending:
            if member_id == say.UNKNOWN_MEMBER and instance_id is not None:
                static = group.static_member(instance_id)
                member_id = say.UNKNOWN_MEMBER if static is None else static.member_id
            refusal = group.refusal(member_id, instance_id)
            if refusal is not say.Error.NONE:
                return refusal
        self._rounds.drop(group, member_id)
        return say.Error.NONE

    def _describe(self) -> say.Described:
        group = self.group
        if group is None:
            return say.Described(say.Error.GROUP_ID_NOT_FOUND, DescribedGroup(GroupState.DEAD, "", "", ()))
        protocol = group.protocol if group.state is GroupState.STABLE else None
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                CLIENT_HOST,
                b"" if protocol is None else member.metadata(protocol),
                member.assignment,
            )
            for member in group.members.values()
        )
        return say.Described(
            say.Error.NONE, DescribedGroup(group.state, group.protocol_type, protocol or "", members)
        )
