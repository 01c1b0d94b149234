"""A broker's group coordinator for the tests of the take-over: members act, time does not pass."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cooperator.group.listener import DescribedGroup, GroupState
from cooperator.group.takeover import Answer
from tests.simulation.broker.machine import GroupCoordinator
from tests.simulation.broker.messages import Answer as Message
from tests.simulation.broker.messages import (
    Described,
    DescribeGroup,
    Error,
    Joined,
    JoinGroup,
    LeaveGroup,
    Request,
    SyncGroup,
)
from tests.simulation.broker.settings import BrokerSettings

_NEVER_MS = 1_000_000_000


@dataclass(eq=False)
class Seat:
    """A member of the group. ``parked``: its JoinGroup is pending. ``answer``: the answer to its last
    JoinGroup."""

    member_id: str
    instance_id: str | None
    parked: bool = True
    answer: Answer | None = None
    removed: bool = False


@dataclass
class ClassicGroup:
    """``elect`` chooses the next leader when the leader has left; adversarial tests replace it."""

    elect: Callable[[Sequence[str]], str] = lambda ids: ids[0]
    completed: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    """The leader and the members of each completed round."""

    def __post_init__(self) -> None:
        self._machine = GroupCoordinator(
            BrokerSettings(max_session_timeout_ms=_NEVER_MS, new_member_join_timeout_ms=_NEVER_MS),
            # Looked up on each call: a test may replace it.
            lambda ids: self.elect(ids),
        )
        self._requests: dict[int, Seat] = {}
        self._seats: list[Seat] = []
        self._sent = 0
        self._now_ms = 0
        self._generation = 0

    @property
    def state(self) -> GroupState:
        return GroupState.EMPTY if self._machine.group is None else self._machine.group.state

    @property
    def leader(self) -> str | None:
        return None if self._machine.group is None else self._machine.group.leader

    @property
    def pending(self) -> set[str]:
        return set() if self._machine.group is None else self._machine.group.pending

    @property
    def seats(self) -> dict[str, Seat]:
        return {seat.member_id: seat for seat in self._seats if not seat.removed}

    def describe(self) -> DescribedGroup:
        described = self._say(DescribeGroup("inspector"))
        assert isinstance(described, Described)
        return described.group

    def ask_member_id(self) -> str:
        answer = self._say(_join("", None))
        assert isinstance(answer, Joined)
        assert answer.error is Error.MEMBER_ID_REQUIRED
        return answer.member_id

    def join_pending(self, member_id: str) -> Seat | None:
        """A dynamic member joins with the id that it got; returns None if the group no longer knows the
        id."""
        seat = Seat(member_id, None)
        if member_id not in self.pending:
            return None
        self._say(_join(member_id, None), seat)
        return seat

    def join_static(self, instance_id: str) -> Seat:
        seat = Seat("", instance_id)
        self._say(_join("", instance_id), seat)
        return seat

    def rejoin(self, seat: Seat) -> None:
        seat.parked, seat.answer = True, None
        self._say(_join(seat.member_id, seat.instance_id), seat)

    def sync(self) -> None:
        """The leader sends its SyncGroup."""
        group = self._machine.group
        if group is not None and group.leader is not None:
            self._say(SyncGroup("leader", group.leader, group.generation))

    def leave(self, member_ids: Iterable[str]) -> None:
        self._say(LeaveGroup("anybody", tuple((member_id, None) for member_id in member_ids)))

    def end_initial_delay(self) -> None:
        while self._machine.group is not None and self._machine.group.initial:
            wake_ms = self._machine.next_wake_ms()
            assert wake_ms is not None
            self._now_ms = wake_ms
            self._hear(self._machine.tick(self._now_ms))

    def _say(self, request: Request, seat: Seat | None = None) -> Message | None:
        """Returns the answer if it comes at once. ``seat`` is the sender of a JoinGroup."""
        self._sent += 1
        if seat is not None:
            self._requests[self._sent] = seat
            if seat not in self._seats:
                self._seats.append(seat)
        answers = self._machine.handle(self._sent, request, self._now_ms)
        self._hear(answers)
        return dict(answers).get(self._sent)

    def _hear(self, answers: Iterable[tuple[int, Message]]) -> None:
        self._machine.validate()
        group = self._machine.group
        for request_id, answer in answers:
            seat = self._requests.pop(request_id, None)
            if seat is None or not isinstance(answer, Joined):
                continue
            if answer.error is not Error.NONE:
                seat.removed = True
                continue
            leads = answer.leader == answer.member_id
            if answer.members and answer.generation > self._generation:
                self._generation = answer.generation
                self.completed.append(
                    (answer.leader, frozenset(member_id for member_id, _, _ in answer.members))
                )
            seat.member_id, seat.parked = answer.member_id, False
            seat.answer = Answer.LEADS if leads else Answer.FOLLOWS
            if answer.skip_assignment:
                seat.answer = Answer.REPLACED
        for seat in self._seats:
            if seat.instance_id is not None and not seat.member_id and group is not None:
                # The id that its answer will carry; the tests use it before the answer arrives.
                static = group.static_member(seat.instance_id)
                seat.member_id = "" if static is None else static.member_id
            seat.removed = seat.removed or group is None or seat.member_id not in group.members


def _join(member_id: str, instance_id: str | None) -> JoinGroup:
    return JoinGroup(
        "somebody", member_id, instance_id, (("sessioned", b"m"),), _NEVER_MS, _NEVER_MS, "client"
    )
