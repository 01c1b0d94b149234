"""Changes of a group: rounds, expired sessions and the log. The machine decides what triggers them."""

from collections.abc import Mapping

from cooperator.group import GroupState
from tests.simulation.broker.group import Choose, Group, Member, Parked
from tests.simulation.broker.messages import Answer, Error, Joined, JoinGroup, Synced
from tests.simulation.broker.record import Record, loaded_member, record_of
from tests.simulation.broker.settings import BrokerSettings
from tests.simulation.broker.timers import Timers

ROUND = "round"
"""The timer that ends the preparation of a round."""
SYNC = "sync"
"""The timer that drops members that have joined a round and send no SyncGroup."""
CLEAN_UP = "clean-up"
"""The timer that removes an empty group."""
Timer = str | tuple[str]
"""One of these three, or the session of (member id,)."""


class Rounds:
    """The state of one coordinator. ``group`` is None without one. ``answers`` are not yet fetched."""

    def __init__(self, settings: BrokerSettings, choose: Choose) -> None:
        self.settings = settings
        self.too_large: list[Record] = []
        """The records that were not stored, for inspection."""
        self.now_ms = 0
        self.group: Group | None = None
        self.stored: Record | None = None
        self.timers: Timers[Timer] = Timers()
        self.answers: list[tuple[int, Answer]] = []
        self._choose = choose

    # --- time ----------------------------------------------------------------------------------------

    def advance(self, now_ms: int) -> None:
        """Run what is due, in order, each at its time."""
        assert now_ms >= self.now_ms, "time does not go back"
        while (due := self.timers.pop_due(now_ms)) is not None:
            self.now_ms, timer = due
            self._fire(timer)
        self.now_ms = now_ms

    def set_session(self, member: Member) -> None:
        self.timers.start((member.member_id,), self.now_ms + member.session_timeout_ms)

    def _fire(self, timer: Timer) -> None:
        group = self.group
        assert group is not None, "a timer belongs to a group"
        if isinstance(timer, tuple):
            self._end_session(group, timer[0])
        elif timer == SYNC:
            for member_id in sorted(group.not_synced):
                self.drop(group, member_id)
            self._prepare(group)
        elif timer == CLEAN_UP:
            self.timers.clear()
            self.group = self.stored = None
        elif group.initial and group.newcomers and group.extension_left_ms > 0:
            delay_ms = self.settings.initial_rebalance_delay_ms
            group.newcomers = False
            self.timers.start(ROUND, self.now_ms + min(delay_ms, group.extension_left_ms))
            group.extension_left_ms = max(group.extension_left_ms - delay_ms, 0)
        else:
            self._complete(group)

    def _end_session(self, group: Group, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None and member.parked and not member.new:
            return
        self.drop(group, member_id)
        if group.state is not GroupState.PREPARING and member is not None:
            self._prepare(group)
        elif group.state is GroupState.PREPARING and group.all_have_joined:
            self._complete(group)

    # --- members -------------------------------------------------------------------------------------

    def create(self) -> Group:
        self.group = Group(self._choose)
        self.store(Record(0, "", None, None, ()))
        self._schedule_clean_up()
        return self.group

    def add_pending(self, group: Group, member_id: str, session_timeout_ms: int) -> None:
        group.pending.add(member_id)
        self.timers.start((member_id,), self.now_ms + session_timeout_ms)

    def add(self, group: Group, member_id: str, request: JoinGroup, parked: Parked) -> None:
        group.protocol_type = "connect"
        group.newcomers = group.newcomers or group.initial
        group.add(
            Member(
                member_id,
                request.instance_id,
                request.client_id,
                request.protocols,
                request.session_timeout_ms,
                request.rebalance_timeout_ms,
                join=parked,
                new=True,
            )
        )
        # It sends no heartbeat before it is answered, but it may have gone away.
        self.timers.start((member_id,), self.now_ms + self.settings.new_member_join_timeout_ms)
        self.changed(group)

    def replace(self, group: Group, old: Member, member_id: str) -> Member:
        """A static member is back under a new id. Requests that wait under the old id are fenced."""
        self._answer_join(old, Joined(Error.FENCED_INSTANCE_ID, old.member_id))
        self._answer_sync(old, Synced(Error.FENCED_INSTANCE_ID))
        new = group.replace(old, member_id)
        self.timers.cancel((old.member_id,))
        self.set_session(new)
        return new

    def drop(self, group: Group, member_id: str) -> None:
        """Remove a member or a pending id. A JoinGroup that waits is answered, a SyncGroup never."""
        member = group.members.get(member_id)
        if member is not None:
            self._answer_join(member, Joined(Error.UNKNOWN_MEMBER_ID))
        self.timers.cancel((member_id,))
        group.remove(member_id)

    # --- rounds --------------------------------------------------------------------------------------

    def changed(self, group: Group) -> None:
        """A member has come, gone or joined: a round begins, or the one in preparation may be complete."""
        if group.state is GroupState.PREPARING:
            if not group.initial and group.all_have_joined:
                self._complete(group)
        elif group.members or group.state is not GroupState.EMPTY:
            self._prepare(group)

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """Take the leader's assignments and answer all waiting members; an error if they cannot be stored."""
        if self.store(record_of(group, assignments)):
            group.state = GroupState.STABLE
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
                self._answer_sync(member, Synced(Error.NONE, member.assignment))
        else:
            self._void_assignments(group, Error.UNKNOWN_SERVER_ERROR)
            self._prepare(group)

    def as_it_is(self, group: Group, member: Member, skip_assignment: bool = False) -> Joined:
        """The answer to a JoinGroup from the completed round."""
        assert group.protocol is not None
        assert group.leader is not None
        members = ((m.member_id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values())
        return Joined(
            Error.NONE,
            member.member_id,
            group.generation,
            group.leader,
            group.protocol,
            tuple(members) if group.leader == member.member_id else (),
            skip_assignment,
        )

    def _prepare(self, group: Group) -> None:
        if group.state is GroupState.COMPLETING:
            self._void_assignments(group, Error.REBALANCE_IN_PROGRESS)
        group.not_synced.clear()
        self.timers.cancel(SYNC)
        group.initial = group.state is GroupState.EMPTY
        group.state = GroupState.PREPARING
        if group.initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            group.extension_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self.timers.cancel(CLEAN_UP)
            self.timers.start(ROUND, self.now_ms + delay_ms)
        elif group.all_have_joined:
            self._complete(group)
        else:
            self.timers.start(ROUND, self.now_ms + group.rebalance_timeout_ms)

    def _complete(self, group: Group) -> None:
        """Start the next generation, of joined members and of static members that may be back."""
        for member in list(group.members.values()):
            if member.join is None and member.instance_id is None:
                self.drop(group, member.member_id)
        if group.members and not group.elect_among_joined():
            # At least a moment: a broker's clock advances by itself.
            self.timers.start(ROUND, self.now_ms + max(group.rebalance_timeout_ms, 1))
            return
        self.timers.cancel(ROUND)
        group.generation += 1
        group.initial = False
        group.protocol = group.vote() if group.members else None
        if not group.members:
            group.state = GroupState.EMPTY
            self.store(record_of(group, {}))
            self._schedule_clean_up()
            return
        group.state = GroupState.COMPLETING
        for member in group.members.values():
            self._answer_join(member, self.as_it_is(group, member))
            member.new = False
            self.set_session(member)
        group.not_synced = set(group.members)
        self.timers.start(SYNC, self.now_ms + group.rebalance_timeout_ms)

    def _void_assignments(self, group: Group, error: Error) -> None:
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(member, Synced(error))

    def _answer_join(self, member: Member, answer: Joined) -> None:
        if member.join is not None:
            self._deliver(member.join, answer)
            member.join = None

    def _answer_sync(self, member: Member, answer: Synced) -> None:
        if member.sync is not None:
            self._deliver(member.sync, answer)
            member.sync = None
            self.set_session(member)

    def _deliver(self, parked: Parked, answer: Answer) -> None:
        if parked.request_id is not None:
            self.answers.append((parked.request_id, answer))

    # --- the log -------------------------------------------------------------------------------------

    def store(self, record: Record) -> bool:
        """Return False if the record is larger than the broker accepts; the old one stays."""
        if record.size_bytes > self.settings.max_record_bytes:
            self.too_large.append(record)
            return False
        self.stored = record
        return True

    def load(self) -> None:
        """Lose everything that is not in the log; every session starts again."""
        self.answers.clear()
        self.timers.clear()
        self.group, stored = None, self.stored
        if stored is None:
            return
        self.group = Group(
            self._choose,
            generation=stored.generation,
            protocol=stored.protocol,
            leader=stored.leader,
            protocol_type=stored.protocol_type,
        )
        for stored_member in stored.members:
            assert stored.protocol is not None
            member = loaded_member(stored_member, stored.protocol)
            self.group.state = GroupState.STABLE
            self.group.members[member.member_id] = member
            self.set_session(member)
        if not stored.members:
            self._schedule_clean_up()

    def _schedule_clean_up(self) -> None:
        interval_ms = self.settings.clean_up_interval_ms
        self.timers.start(CLEAN_UP, (self.now_ms // interval_ms + 1) * interval_ms)
