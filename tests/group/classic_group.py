"""A classic group as Kafka 4.1's coordinator keeps it, reduced to what decides who leads.

Read from ClassicGroup and GroupMetadataManager: parked JoinGroups, pending members, static members that
are replaced in place, the arbitrary successor of a leader that was removed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from cooperator.group.listener import DescribedGroup, DescribedMember, GroupState
from cooperator.group.takeover import Answer


@dataclass
class Seat:
    """A member of the group. ``parked``: its JoinGroup waits. ``answer``: to its last JoinGroup."""

    member_id: str
    instance_id: str | None
    parked: bool = True
    answer: Answer | None = None
    removed: bool = False


@dataclass
class ClassicGroup:
    """``elect``: whom the broker makes leader when one is gone; adversaries choose."""

    elect: Callable[[Sequence[str]], str] = lambda ids: ids[0]
    seats: dict[str, Seat] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    leader: str | None = None
    state: GroupState = GroupState.EMPTY
    initial: bool = False
    completed: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    """Leader and members of each completed round."""
    _ids: "count[int]" = field(default_factory=count)

    def describe(self) -> DescribedGroup:
        stable = self.state is GroupState.STABLE
        members = tuple(
            DescribedMember(seat.member_id, seat.instance_id, "client", "/host", b"m" if stable else b"")
            for seat in self.seats.values()
        )
        return DescribedGroup(self.state, "connect" if members else "", "", members)

    def ask_member_id(self) -> str:
        member_id = self._new_id("pending")
        self.pending.add(member_id)
        return member_id

    def join_pending(self, member_id: str) -> Seat | None:
        """A dynamic member comes with the id that it was told; None: it is no longer known."""
        if member_id not in self.pending:
            return None
        self.pending.discard(member_id)
        return self._add(member_id, None)

    def join_static(self, instance_id: str) -> Seat:
        member_id = self._new_id(instance_id)
        earlier = next((s for s in self.seats.values() if s.instance_id == instance_id), None)
        return self._add(member_id, instance_id) if earlier is None else self._replace(earlier, member_id)

    def rejoin(self, seat: Seat) -> None:
        leads = seat.member_id == self.leader
        if self.state is GroupState.COMPLETING or (self.state is GroupState.STABLE and not leads):
            seat.answer = Answer.LEADS if leads else Answer.FOLLOWS
            return
        seat.parked, seat.answer = True, None
        if self.state is GroupState.STABLE:
            self._prepare()
        self._maybe_complete()

    def sync(self) -> None:
        """The leader's SyncGroup."""
        if self.state is GroupState.COMPLETING:
            self.state = GroupState.STABLE

    def leave(self, member_ids: Iterable[str]) -> None:
        done = [member_id for member_id in member_ids if self._remove(member_id)]
        if done and self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare()
        self._maybe_complete()

    def end_initial_delay(self) -> None:
        if self.initial and self.state is GroupState.PREPARING:
            self._complete()

    def drop_absent(self) -> None:
        """The rebalance time-out: whoever has not rejoined is out."""
        if self.state is GroupState.PREPARING:
            for seat in [s for s in self.seats.values() if not s.parked and s.instance_id is None]:
                self._remove(seat.member_id)
            if any(seat.parked for seat in self.seats.values()):
                self._complete()

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}-{next(self._ids)}"

    def _add(self, member_id: str, instance_id: str | None) -> Seat:
        seat = self.seats[member_id] = Seat(member_id, instance_id)
        if self.leader is None:
            self.leader = member_id
        if self.state is not GroupState.PREPARING:
            self._prepare()
        self._maybe_complete()
        return seat

    def _replace(self, earlier: Seat, member_id: str) -> Seat:
        del self.seats[earlier.member_id]
        earlier.removed = True
        seat = self.seats[member_id] = Seat(member_id, earlier.instance_id)
        leads = self.leader == earlier.member_id
        if leads:
            self.leader = member_id
        if self.state is GroupState.STABLE:
            seat.parked, seat.answer = False, Answer.REPLACED if leads else Answer.FOLLOWS
            return seat
        if self.state is GroupState.COMPLETING:
            self._prepare()
        self._maybe_complete()
        return seat

    def _remove(self, member_id: str) -> bool:
        if member_id in self.pending:
            self.pending.discard(member_id)
            return True
        seat = self.seats.pop(member_id, None)
        if seat is None:
            return False
        seat.removed = True
        if self.leader == member_id:
            self.leader = self.elect(sorted(self.seats)) if self.seats else None
        return True

    def _prepare(self) -> None:
        self.initial = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING

    def _maybe_complete(self) -> None:
        if self.state is not GroupState.PREPARING or self.initial:
            return
        if not self.seats:
            self.state = GroupState.EMPTY
        elif not self.pending and all(seat.parked for seat in self.seats.values()):
            self._complete()

    def _complete(self) -> None:
        if not self.seats:
            self.state = GroupState.EMPTY
            return
        assert self.leader is not None
        if not self.seats[self.leader].parked:
            self.leader = next(seat.member_id for seat in self.seats.values() if seat.parked)
        self.state, self.initial = GroupState.COMPLETING, False
        self.completed.append((self.leader, frozenset(self.seats)))
        for seat in self.seats.values():
            if seat.parked:
                leads = seat.member_id == self.leader
                seat.parked, seat.answer = False, Answer.LEADS if leads else Answer.FOLLOWS
