"""From rounds to reconciliation: the group as it is in the round that chooses this protocol.

Kafka converts a classic group likewise, with what its members have (``ConsumerGroup.fromClassicGroup``).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from cooperator.model import Member, Memory, TaskId
from cooperator.reconciliation.current import CurrentAssignment, MemberState
from cooperator.reconciliation.group import Fence, ReconciledGroup, ReconciledMember, occupants_of
from cooperator.reconciliation.membership import retarget

_FIRST_EPOCH = 1


def obstacle(
    memory: Memory, members: Sequence[Member], awaited: Collection[str], now_ms: int, fence_ms: int
) -> str:
    """Return why these members cannot leave rounds now; empty if they can.

    A group whose tasks do not each have one known occupant stays in rounds, whose leader sorts this out.
    ``awaited``: identities that were evicted when the lead was taken and are not back.
    """
    for identity in awaited:
        return f"{identity} was evicted and is not back"
    stock = [member.identity for member in members if not member.is_agent]
    if stock:
        return f"{stock[0]} is a stock worker, which knows rounds only"
    identities = [member.identity for member in members]
    for identity in identities:
        if identities.count(identity) > 1:
            return f"{identity} has two incarnations in the group"
    for identity, hold in memory.holds.items():
        if hold.tasks and identity in memory.leaseless:
            return f"{identity} departed, and keeps no lease: it is not certain when its tasks end"
        if hold.blanket_until_ms > now_ms:
            return f"it is not known what {identity} runs"
    for entry in memory.unstopped:
        if entry.tasks and not entry.leased:
            return f"{entry.identity} keeps no lease: it is not certain when the tasks revoked from it end"
    found: dict[TaskId, tuple[str, str]] = {}
    for occupant, tasks in _occupations(memory, members, now_ms, fence_ms):
        for task in tasks:
            if task in found:
                return f"{task} may run at {found[task][0]} and at {occupant[0]}"
            found[task] = occupant
    return ""


def from_round(
    memory: Memory,
    members: Sequence[Member],
    awaited: Collection[str],
    now_ms: int,
    fence_ms: int,
    revocation_timeout_ms: int,
) -> ReconciledGroup:
    """Return the group of a round: its members with what they report, and the fences that ``memory`` has.

    ``memory``: after the plan of this round, whose assignments are not sent. Nothing stops and nothing
    starts by the conversion: every target is what the member runs. Raises ValueError if there is an
    ``obstacle``.
    """
    reason = obstacle(memory, members, awaited, now_ms, fence_ms)
    if reason:
        raise ValueError(f"the group stays in rounds: {reason}")
    reconciled = {}
    for member in members:
        pending = _stopping(memory, member)
        current = CurrentAssignment(
            _FIRST_EPOCH,
            _FIRST_EPOCH,
            MemberState.UNREVOKED_TASKS if pending else MemberState.STABLE,
            dict.fromkeys(sorted(set(member.owned) - pending), _FIRST_EPOCH),
            dict.fromkeys(sorted(pending), _FIRST_EPOCH),
        )
        by_ms = now_ms + revocation_timeout_ms if pending else None
        reconciled[member.identity] = ReconciledMember(
            member.identity, member.incarnation, current=current, revoke_by_ms=by_ms
        )
    fences = {}
    for (identity, incarnation), (tasks, until_ms) in _fenced(memory, members, now_ms, fence_ms).items():
        current = CurrentAssignment(
            _FIRST_EPOCH, _FIRST_EPOCH, assigned=dict.fromkeys(sorted(tasks), _FIRST_EPOCH)
        )
        fences[identity, incarnation] = Fence(
            ReconciledMember(identity, incarnation, current=current), until_ms
        )
    occupants = occupants_of(reconciled.values(), fences.values())
    group = ReconciledGroup(memory.term, _FIRST_EPOCH, members=reconciled, fences=fences, occupants=occupants)
    return retarget(group, {i: frozenset(m.current.assigned) for i, m in reconciled.items()})


def _occupations(
    memory: Memory, members: Iterable[Member], now_ms: int, fence_ms: int
) -> Iterator[tuple[tuple[str, str], Iterable[TaskId]]]:
    for member in members:
        yield (member.identity, member.incarnation), member.owned
    for occupant, (tasks, _) in _fenced(memory, members, now_ms, fence_ms).items():
        yield occupant, tasks


def _stopping(memory: Memory, member: Member) -> frozenset[TaskId]:
    """Return the tasks that the member has and must release."""
    revoked = [
        entry.tasks
        for entry in memory.unstopped
        if (entry.identity, entry.incarnation) == (member.identity, member.incarnation)
    ]
    return member.stopping.union(*revoked).intersection(member.owned)


def _fenced(
    memory: Memory, members: Iterable[Member], now_ms: int, fence_ms: int
) -> Mapping[tuple[str, str], tuple[frozenset[TaskId], int]]:
    """Return the tasks that absent incarnations may still run, and until when (ms since the epoch)."""
    present = {(member.identity, member.incarnation) for member in members}
    tasks: defaultdict[tuple[str, str], frozenset[TaskId]] = defaultdict(frozenset)
    until_ms: defaultdict[tuple[str, str], int] = defaultdict(int)

    def fence(occupant: tuple[str, str], some: frozenset[TaskId], at_ms: int) -> None:
        if some and at_ms > now_ms and occupant not in present:
            tasks[occupant] |= some
            until_ms[occupant] = max(until_ms[occupant], at_ms)

    for identity, hold in memory.holds.items():
        fence((identity, hold.incarnation), hold.tasks, hold.not_before_ms)
    for entry in memory.unstopped:
        gone_ms = now_ms if entry.gone_since_ms is None else entry.gone_since_ms
        fence((entry.identity, entry.incarnation), entry.tasks, gone_ms + fence_ms)
    return {occupant: (some, until_ms[occupant]) for occupant, some in tasks.items()}
