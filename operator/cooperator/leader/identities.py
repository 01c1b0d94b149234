"""Tells stock workers apart. Pure.

A stock worker names itself by its client id and the address at which it serves. Several workers may have one
client id: Connect before 3.7 numbers its default in each process (KAFKA-15888): all are ``connect-1``. One
``client.id`` in the properties of an image does the same. They are live processes all the same, and none is
an earlier incarnation of another one. So, of the stock workers that no host knows as pods of its own,

    identity = client id             as long as no round has had two members with this client id
             = client id@address     from then on
             = client id@address#ID  for further members at an address that is taken (ID: of its member id)

A member keeps its identity for as long as it keeps its member id, and gets it back by its address. An
identity with ``#`` is only given back to a member that reports tasks of it.

A worker that is known by its client id alone may return at another address: a pod has a new IP. Or another
worker has the same client id, and the known one is out of the group for a moment. The group cannot tell the
two cases apart, so tasks that the known one may run are not given to the worker at the new address before a
worker that is in touch with the broker would have joined again (``relocated``).
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from cooperator.leader.ownership import is_of_pool
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.model import Member, Memory, TaskId

T = TypeVar("T")
_ID_LENGTH = 8
_NONE: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkersApart:
    """``members``: each with an identity of its own. ``renamed``: identities of the memory that are known to
    be one of several with this client id now, with their new names."""

    members: tuple[Member, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)


class Relocated(NamedTuple):
    """A stock worker that is back at another address than ``address``, where none is since ``since_ms``."""

    identity: str
    address: str
    since_ms: int


def tell_apart(
    members: tuple[Member, ...], memory: Memory, is_pod: Callable[[str], bool] = lambda client_id: False
) -> WorkersApart:
    """``members``: identities of stock workers are client ids. ``is_pod``: whether a client id is known to be
    that of one worker only."""
    stock = [m for m in members if not m.is_agent and not is_pod(m.identity)]
    known = _known_names(memory)
    counts = Counter(member.identity for member in stock)
    shared = {client_id for client_id, count in counts.items() if count > 1 or client_id in known}
    if not shared:
        return WorkersApart(members)
    groups: dict[str, list[Member]] = {client_id: [] for client_id in sorted(shared)}
    for member in stock:
        if member.identity in shared:
            groups[member.identity].append(member)
    taken = {member.identity for member in members} - shared
    names: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for client_id, group in groups.items():
        earlier = known.get(client_id, frozenset())
        names |= _names(group, earlier, memory, taken)
        heir = _heir(client_id, [m for m in group if names[m.member_id] not in earlier], memory)
        if heir is not None:
            renamed[client_id] = names[heir.member_id]
    return WorkersApart(
        tuple(replace(m, identity=names[m.member_id]) if m.member_id in names else m for m in members),
        renamed,
    )


def rename(memory: Memory, names: Mapping[str, str]) -> Memory:
    """``memory`` with other names for some identities."""
    return replace(
        memory,
        given=_renamed(memory.given, names),
        incarnations=_renamed(memory.incarnations, names),
        holds=_renamed(memory.holds, names),
        returns=_renamed(memory.returns, names),
        former=_renamed(memory.former, names),
        joins=_renamed(memory.joins, names),
        unstopped=tuple(replace(e, identity=names.get(e.identity, e.identity)) for e in memory.unstopped),
        leaseless=tuple(sorted(names.get(identity, identity) for identity in memory.leaseless)),
        addresses=_renamed(memory.addresses, names),
    )


def addresses(before: Memory, after: Memory, members: Iterable[Member]) -> dict[str, str]:
    """The addresses of stock workers for the memory ``after``.

    Those of ``before`` that it still has identities for, and those of ``members``; of several incarnations of
    an identity, the one that ``after`` names counts.
    """
    kept = after.incarnations.keys() | after.holds.keys()
    known = {identity: address for identity, address in before.addresses.items() if identity in kept}
    for member in members:
        if not member.is_agent and after.incarnations.get(member.identity) == member.incarnation:
            known[member.identity] = member.worker_id
    return known


def relocated(
    members: Iterable[Member],
    memory: Memory,
    ended: Container[tuple[str, str]],
    is_pod: Callable[[str], bool],
    now_ms: int,
) -> tuple[Relocated, ...]:
    """The stock workers that are back at another address.

    The members have identities of their own. Identities whose earlier worker has certainly ended are left
    out, and so are pods, of which the host knows the order.
    """
    missing_ms = {
        (entry.identity, entry.incarnation): entry.gone_since_ms
        for entry in memory.unstopped
        if entry.gone_since_ms is not None
    }
    found: list[Relocated] = []
    for member in members:
        identity = member.identity
        last, address = memory.incarnations.get(identity), memory.addresses.get(identity)
        if member.is_agent or last is None or address is None or is_pod(identity):
            continue
        if member.incarnation != last and member.worker_id != address and (identity, last) not in ended:
            since_ms = min(missing_ms.get((identity, last), now_ms), now_ms)
            found.append(Relocated(identity, address, since_ms))
    return tuple(found)


class Identities:
    """The identities of one group's members, round by round."""

    def __init__(self, settings: LeaderSettings, state: LeaderState, pending_starts: PendingStarts) -> None:
        self._settings, self._state, self._pending_starts = settings, state, pending_starts

    def tell(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """The members with identities of their own; the state uses these identities from now on."""
        state = self._state
        apart = tell_apart(members, state.memory, self._is_pod)
        names = apart.renamed
        if names:
            state.memory = rename(state.memory, names)
            state.awaited = _renamed(state.awaited, names)
            state.returning = _renamed(state.returning, names)
            state.relocated = _renamed(state.relocated, names)
            state.evicted = tuple(
                replace(member, identity=names.get(member.identity, member.identity))
                for member in state.evicted
            )
            state.history.rename(names)
            self._pending_starts.rename(names)
        serving = {member.identity: member.worker_id for member in apart.members if not member.is_agent}
        if serving:
            # A known address stays until a round is planned: it shows who is back at another one.
            state.memory = replace(state.memory, addresses={**serving, **state.memory.addresses})
        return apart.members

    def note_relocated(self, members: tuple[Member, ...], now_ms: int) -> None:
        """Update the state's ``relocated`` for a round of ``members``, whose identities are told."""
        state = self._state
        serving = {member.worker_id for member in members}
        noted = [(identity, seen) for identity, places in state.relocated.items() for seen in places.items()]
        for each in relocated(members, state.memory, state.facts.ended, self._is_pod, now_ms):
            noted.append((each.identity, (each.address, each.since_ms + self._settings.awaited_ms)))
        found: dict[str, dict[str, int]] = {}
        for identity, (address, until_ms) in noted:
            # The address of a process is its own: a member at it is the one that was missed.
            if until_ms > now_ms and address not in serving:
                found.setdefault(identity, {})[address] = until_ms
        state.relocated = found

    def of_unread(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """``members``, of which only ids are known, with the identities that they may have.

        That is the one that last had the member id, else each that is known by the client id. Several members
        that no address tells apart are as many incarnations of one identity. The address is known only of the
        incarnation that the memory names.
        """
        memory = self._state.memory
        known = _known_names(memory)
        by_incarnation = {incarnation: identity for identity, incarnation in memory.incarnations.items()}
        found: dict[str, Member] = {}
        incarnations: list[Member] = []
        for member in members:
            names = frozenset() if member.is_agent else known.get(member.identity, frozenset())
            last = by_incarnation.get(member.member_id)
            if not names:
                incarnations.append(member)
            for name in sorted(names & {last} or names):
                found.setdefault(name, replace(member, identity=name))
        return tuple(self._with_address(member) for member in (*found.values(), *incarnations))

    def _with_address(self, member: Member) -> Member:
        memory = self._state.memory
        address = memory.addresses.get(member.identity, member.identity)
        if address == member.identity or memory.incarnations.get(member.identity) != member.incarnation:
            return member
        return replace(member, url=f"http://{address}/")

    def _is_pod(self, client_id: str) -> bool:
        facts = self._state.facts
        if facts.expected is None:
            return is_of_pool(client_id, self._settings.stock_pool)
        return client_id in facts.expected | facts.leaving | facts.gone | facts.returning


def _known_names(memory: Memory) -> dict[str, frozenset[str]]:
    """Identities that were told apart by their addresses, by client id."""
    found: dict[str, frozenset[str]] = {}
    for identity, address in memory.addresses.items():
        client_id, mark, _ = identity.rpartition(f"@{address}")
        if mark:
            found[client_id] = found.get(client_id, frozenset()) | {identity}
    return found


def _names(
    group: Iterable[Member], known: Collection[str], memory: Memory, taken: set[str]
) -> dict[str, str]:
    """The identity of each member of one client id, by member id; all become ``taken``."""
    by_incarnation = {memory.incarnations[i]: i for i in known if i in memory.incarnations}
    names: dict[str, str] = {}

    def give(member: Member, name: str) -> None:
        names[member.member_id] = name
        taken.add(name)

    group = sorted(group, key=lambda member: member.member_id)
    for member in group:
        name = by_incarnation.get(member.member_id)
        if name is not None and name not in taken:
            give(member, name)
    claims = (
        (_overlap(member, name, memory), name, member)
        for member in group
        for name in known
        if memory.addresses[name] == member.worker_id
    )
    for overlap, name, member in sorted(claims, key=lambda c: (-c[0], c[1], c[2].member_id)):
        if overlap and name not in taken and member.member_id not in names:
            give(member, name)
    for member in group:
        if member.member_id not in names:
            name = f"{member.identity}@{member.worker_id}"
            if name in taken:
                name = f"{name}#{member.member_id[-_ID_LENGTH:]}"
            give(member, name if name not in taken else f"{name}{member.member_id}")
    return names


def _heir(client_id: str, newly_named: Iterable[Member], memory: Memory) -> Member | None:
    """The member that the memory knows by the client id alone; None if that is not certain."""
    if client_id not in memory.incarnations and client_id not in memory.holds:
        return None

    def likeness(member: Member) -> tuple[bool, int, bool]:
        return (
            memory.incarnations.get(client_id) == member.incarnation,
            _overlap(member, client_id, memory),
            memory.addresses.get(client_id) == member.worker_id,
        )

    heir = max(newly_named, key=likeness, default=None)
    return heir if heir is not None and any(likeness(heir)) else None


def _overlap(member: Member, identity: str, memory: Memory) -> int:
    """The number of the identity's tasks that the member reports."""
    hold = memory.holds.get(identity)
    due = memory.given.get(identity, _NONE) | (hold.tasks if hold is not None else _NONE)
    return len(due.intersection(member.owned))


def _renamed(of: Mapping[str, T], names: Mapping[str, str]) -> dict[str, T]:
    return {names.get(identity, identity): value for identity, value in of.items()}
