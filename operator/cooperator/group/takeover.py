"""Taking the lead: the next step as a pure function of observations and answers.

The broker makes a member the leader in two cases: it was the first in an empty group, or it is the only one
left when the leader is removed. The broker never hands the lead over on request, and a stock leader assigns
work to a member that completes one round as a follower. So the lead is taken inside a pending JoinGroup:

    look        DescribeGroups; metadata is only returned while the group is stable
    ask         may the lead be taken from these members?
    pend        a second client sends a JoinGroup without a member id and is given one (KIP-394). Such a
                pending member keeps every round of the group open; it is not listed and costs no round
    join        our JoinGroup; the broker is now certain to park it
    look        our member is in: all others who could lead are listed beside it
    evict       one LeaveGroup names all others; whoever led, we are now the only one left, hence the leader.
                They meet UNKNOWN_MEMBER_ID, keep running, and come back as new members
    look        some may be back already; one that slipped in before the eviction could lead: evict again
    release     a LeaveGroup removes the pending member, the round completes, our JoinGroup is answered

With the pending member no round completes between the steps, however slow we are. If we die meanwhile, the
pending member expires after our session time-out.

A leader that restarts within its session time-out finds its own static member in the group, and its JoinGroup
replaces that one in place. In a stable group the JoinGroup is answered at once, and from version 9 on the
answer says whether we lead (KIP-814): then one more JoinGroup triggers a real round, and nobody is evicted.
In a group that is in mid-round it is parked, and nothing says whether we lead: when in doubt, evict.

Source: GroupMetadataManager and ClassicGroup of Kafka 4.1.1; docs/protocol.md, section 13.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from cooperator.group.listener import DescribedGroup, DescribedMember, GroupState

PROTOCOL_TYPE: Final = "connect"
MAX_EVICTIONS: Final = 8
"""Upper limit of LeaveGroups per JoinGroup.

One that named all others is enough, but a member present afterwards may have come before it (and may lead) or
after it; the limit keeps us from repeating this forever.
"""
_MAX_FAILURES: Final = 3
_LOOK_MS: Final = 250
_FIRST_POLL_MS: Final = 5
_LAST_POLL_MS: Final = 200


class Answer(Enum):
    """The outcome of our JoinGroup."""

    LEADS = "leads"
    """A new round, and we lead it."""
    REPLACED = "replaced"
    """We lead the current round, in the place of our earlier incarnation."""
    UNKNOWN = "unknown"
    """As above, but the broker is too old to say who leads."""
    FOLLOWS = "follows"


# --- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Described:
    group: DescribedGroup


@dataclass(frozen=True, slots=True)
class Verdict:
    """``refusal``: None when the lead may be taken."""

    refusal: str | None


@dataclass(frozen=True, slots=True)
class PendingMemberAdded:
    """``member_id``: the id of the pending member that keeps the round open."""

    member_id: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Our JoinGroup is on its way."""


@dataclass(frozen=True, slots=True)
class Answered:
    answer: Answer
    member_id: str


@dataclass(frozen=True, slots=True)
class Done:
    """The LeaveGroup of ``step`` was answered."""

    step: "Evict | Release | Withdraw"


@dataclass(frozen=True, slots=True)
class Failed:
    """The last step, or our JoinGroup, failed. ``joining``: the JoinGroup is still unanswered."""

    reason: str
    joining: bool


Event = Described | Verdict | PendingMemberAdded | Sent | Answered | Done | Failed


# --- steps -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Describe:
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Ask:
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class AddPendingMember:
    pass


@dataclass(frozen=True, slots=True)
class Join:
    pass


@dataclass(frozen=True, slots=True)
class Evict:
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Remove the pending member ``pending_member``."""

    pending_member: str


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Only the answer to our JoinGroup remains to be awaited."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove our own static member (None: there is none), and the pending member if there is one."""

    member_id: str | None
    pending_member: str | None


@dataclass(frozen=True, slots=True)
class BeginLeading:
    """We lead. ``pending_member``: still present, to be released."""

    pending_member: str | None


@dataclass(frozen=True, slots=True)
class TakeoverEnded:
    """This attempt is over; start again later. ``refused``: by the listener."""

    reason: str
    refused: bool = False


Step = (
    Describe
    | Ask
    | AddPendingMember
    | Join
    | Evict
    | Release
    | AwaitAnswer
    | Withdraw
    | BeginLeading
    | TakeoverEnded
)


# --- the machine -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TakeOver:
    """One attempt.

    ``instance_id``: ours. ``patience_ms``: how long to wait for the group to become stable, so that the
    listener sees metadata, before asking without it.
    """

    instance_id: str
    patience_ms: int
    allowed: frozenset[str] | None = None
    """Member ids that the listener allowed us to evict; None: not asked yet."""
    group: DescribedGroup | None = field(default=None, repr=False)
    """The group as last described."""
    own: str | None = None
    """Our member id, as far as known."""
    ghosts: frozenset[str] = frozenset()
    """Ids that our instance had before our JoinGroup."""
    entered: bool = False
    """A JoinGroup was sent, so the group may be in mid-round because of us."""
    joining: bool = False
    """Our JoinGroup is unanswered."""
    confirming: bool = False
    """We were told that we lead; the JoinGroup under way makes the round."""
    pending_member: str | None = None
    evictions: int = 0
    failures: int = 0
    polls: int = 0
    waited_ms: int = 0
    rest: TakeoverEnded | None = None
    """The step that follows once we have withdrawn; None: look again."""


def begin(instance_id: str, patience_ms: int) -> tuple[TakeOver, Step]:
    """Start from outside the group, or without knowledge of it."""
    return TakeOver(instance_id, patience_ms), Describe()


def begin_as_follower(instance_id: str, patience_ms: int, member_id: str) -> tuple[TakeOver, Step]:
    """Start from a round that another member leads, with us in it."""
    return _withdraw(TakeOver(instance_id, patience_ms, own=member_id), None)


def advance(state: TakeOver, event: Event) -> tuple[TakeOver, Step]:
    """The next step. ``BeginLeading`` and ``TakeoverEnded`` are final."""
    match event:
        case Described(group):
            return _described(replace(state, group=group))
        case Verdict(None):
            return _allowed(state)
        case Verdict(refusal):
            return _withdraw(state, TakeoverEnded(refusal or "", refused=True))
        case PendingMemberAdded(member_id):
            state = replace(state, pending_member=member_id)
            return (state, Describe()) if state.joining else (state, Join())
        case Sent():
            state = replace(state, entered=True, joining=True)
            return (state, AwaitAnswer()) if state.confirming else (replace(state, own=None), Describe())
        case Answered(answer, member_id):
            return _answered(replace(state, own=member_id, joining=False), answer)
        case Done(step):
            return _left(state, step)
        case Failed(reason, joining):
            return _failed(replace(state, joining=joining), reason)


def _described(state: TakeOver) -> tuple[TakeOver, Step]:
    group = _seen(state)
    if group.members and group.protocol_type != PROTOCOL_TYPE:
        return state, TakeoverEnded(
            f"the group is used by clients of type {group.protocol_type!r}, not {PROTOCOL_TYPE!r}: "
            "use another group id"
        )
    return _inside(state, group) if state.joining else _outside(state, group)


def _outside(state: TakeOver, group: DescribedGroup) -> tuple[TakeOver, Step]:
    """Our JoinGroup has not been sent yet."""
    others = _others(state, group)
    own = _own(state, group)
    state = replace(state, own=min(own, default=None), ghosts=own)
    if not _may_evict(state, others):
        in_mid_round = group.state in (GroupState.PREPARING, GroupState.COMPLETING)
        # With our own member in it, the round may be waiting for us.
        if in_mid_round and not own and state.waited_ms < state.patience_ms:
            return replace(state, waited_ms=state.waited_ms + _LOOK_MS), Describe(_LOOK_MS)
        return state, Ask(others)
    answered_at_once = bool(own) and group.state is GroupState.STABLE
    if others and not answered_at_once:
        return state, AddPendingMember()
    return state, Join()


def _inside(state: TakeOver, group: DescribedGroup) -> tuple[TakeOver, Step]:
    """Our JoinGroup has been sent and is unanswered."""
    own = _own(state, group) - state.ghosts
    if not own or group.state is not GroupState.PREPARING:
        delay_ms = min(_FIRST_POLL_MS << state.polls, _LAST_POLL_MS)
        return replace(state, polls=min(state.polls + 1, 10)), Describe(delay_ms)
    state = replace(state, own=min(own))
    others = _others(state, group)
    if others and state.evictions < MAX_EVICTIONS:
        if not _may_evict(state, others):
            return state, Ask(others)
        if state.pending_member is None:
            return state, AddPendingMember()
        return replace(state, evictions=state.evictions + 1), Evict(others)
    if state.pending_member is not None:
        return state, Release(state.pending_member)
    return state, AwaitAnswer()


def _allowed(state: TakeOver) -> tuple[TakeOver, Step]:
    asked = frozenset(member.member_id for member in _others(state, _seen(state)))
    return _described(replace(state, allowed=(state.allowed or frozenset()) | asked))


def _answered(state: TakeOver, answer: Answer) -> tuple[TakeOver, Step]:
    if state.rest is not None and state.rest.refused:
        return _withdraw(state, state.rest)
    if answer is Answer.LEADS:
        return state, BeginLeading(state.pending_member)
    if answer is Answer.FOLLOWS or state.confirming:
        lost_a_race = TakeoverEnded("another member completed the round first") if state.evictions else None
        return _withdraw(state, lost_a_race)
    return replace(state, confirming=True), Join()


def _left(state: TakeOver, step: Evict | Release | Withdraw) -> tuple[TakeOver, Step]:
    match step:
        case Evict():
            return state, Describe()
        case Release():
            return replace(state, pending_member=None), AwaitAnswer()
        case Withdraw():
            outside = TakeOver(state.instance_id, state.patience_ms, allowed=state.allowed)
            return outside, state.rest or Describe()


def _failed(state: TakeOver, reason: str) -> tuple[TakeOver, Step]:
    if state.rest is not None:
        return state, state.rest
    if state.confirming or not state.entered:
        return state, TakeoverEnded(
            reason
        )  # Our member, if there is one, may well lead: the next attempt will see.
    if state.own is not None:
        return _withdraw(state, TakeoverEnded(reason))
    if state.joining and state.failures < _MAX_FAILURES:
        return replace(state, failures=state.failures + 1), Describe(_LOOK_MS)
    # Our JoinGroup may be parked under a name that we do not know. The pending member must stay until it
    # expires, or the round would complete with us in it.
    return state, TakeoverEnded(reason)


def _withdraw(state: TakeOver, rest: TakeoverEnded | None) -> tuple[TakeOver, Step]:
    """Leave nothing behind in the group.

    Removing a pending member from a stable group would trigger a rebalance, so until we have entered we let
    it expire instead.
    """
    state = replace(state, rest=rest)
    pending_member = state.pending_member if state.entered else None
    if state.own is None and pending_member is None:
        return state, rest or Describe()
    return state, Withdraw(state.own, pending_member)


def _seen(state: TakeOver) -> DescribedGroup:
    assert state.group is not None, "described before it is decided on"
    return state.group


def _own(state: TakeOver, group: DescribedGroup) -> frozenset[str]:
    return frozenset(m.member_id for m in group.members if m.group_instance_id == state.instance_id)


def _others(state: TakeOver, group: DescribedGroup) -> tuple[DescribedMember, ...]:
    return tuple(m for m in group.members if m.group_instance_id != state.instance_id)


def _may_evict(state: TakeOver, members: tuple[DescribedMember, ...]) -> bool:
    return state.allowed is not None and all(m.member_id in state.allowed for m in members)
