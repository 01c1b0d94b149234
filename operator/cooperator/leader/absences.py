"""Determines which parts of a memory are still certain after missed rounds.

Every answered JoinGroup renews a lease, also in a round that ends before its plan is saved. So an incarnation
that the memory calls missing may have been a member since: its lease must not be counted from that absence.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace

from cooperator.model import Hold, HoldReason, Member, Memory, Policy, TaskId, Unstopped

NEVER_MS = 2**62
UNKNOWN = "(unknown)"
"""Stands for unseen incarnations of agents to which another leader may have assigned tasks."""


def not_given(memory: Memory, tasks: Mapping[str, frozenset[TaskId]]) -> Memory:
    """The memory without ``tasks``, by identity: those of targets that nobody was given. No identity is owed
    them, and they are not held for one.
    """
    given = {i: memory.given[i] - gone for i, gone in tasks.items() if gone and i in memory.given}
    return replace(memory, given={**memory.given, **given}) if given else memory


def for_round(memory: Memory, generation: int) -> Memory:
    """``memory`` for the plan of round ``generation``: absences restart if rounds went by unplanned.

    Generations of one group are consecutive; one that begins at 1 again was empty, and counts as a gap.
    """
    if generation == memory.generation + 1:
        return memory
    return replace(memory, unstopped=_anew(memory))


def by_own_clock(memory: Memory, own_term: int, policy: Policy, awaited_ms: int, now_ms: int) -> Memory:
    """``memory`` for a leader whose last term was ``own_term``.

    If another leader wrote it, the two clocks may be hours apart. So every wait begins anew, except those of
    holds for the return of a member: they are not renewed, and last no longer than one that begins now. They
    may end early, which costs moves. (That of ``kip415`` is bounded where it is read.)
    """
    if memory.term == own_term:
        return memory
    return replace(
        memory,
        holds={i: _hold_by_own_clock(hold, policy, awaited_ms, now_ms) for i, hold in memory.holds.items()},
        unstopped=_anew(memory),
        returns={i: tuple(min(at_ms, now_ms) for at_ms in times) for i, times in memory.returns.items()},
        joins=dict.fromkeys(memory.joins, now_ms),
        warmups=tuple(replace(each, since_ms=now_ms) for each in memory.warmups),
        departing=dict.fromkeys(memory.departing, now_ms),
    )


def _hold_by_own_clock(hold: Hold, policy: Policy, awaited_ms: int, now_ms: int) -> Hold:
    delay_ms = policy.scheduled_rebalance_max_delay_ms
    longest_ms = awaited_ms if hold.reason is HoldReason.EVICTED else delay_ms
    return replace(
        hold,
        since_ms=min(hold.since_ms, now_ms),
        deadline_ms=min(hold.deadline_ms, now_ms + longest_ms),
        not_before_ms=now_ms + policy.fence_ms if hold.not_before_ms else 0,
    )


def _anew(memory: Memory) -> tuple[Unstopped, ...]:
    return tuple(replace(entry, gone_since_ms=None) for entry in memory.unstopped)


def over_ms(entry: Unstopped, policy: Policy) -> int:
    """When (ms) nothing of the entry can run any more without a proof; 0 for a member, whose report says."""
    if entry.gone_since_ms is None:
        return 0
    fence_ms = policy.fence_of_ms(entry.leased)
    return NEVER_MS if fence_ms is None else entry.gone_since_ms + fence_ms


def may_run(entry: Unstopped, ended: Container[tuple[str, str]], policy: Policy, now_ms: int) -> bool:
    """Whether an incarnation that is no member may still run the entry's tasks."""
    if (entry.identity, entry.incarnation) in ended:
        return False
    return entry.gone_since_ms is None or now_ms < over_ms(entry, policy)


def as_given(memory: Memory) -> Iterable[Unstopped]:
    """The assignments of the members of the last planned round, by incarnation."""
    for identity, tasks in memory.given.items():
        leased = identity not in memory.leaseless
        yield Unstopped(identity, memory.incarnations.get(identity, ""), tasks, leased=leased)


def any_stock(members: Iterable[Member]) -> bool:
    """Whether a member would plan by Kafka's rules, and leave no memory, if it led."""
    return any(not member.is_agent for member in members)


def may_be_stock(members: Iterable[Member], before: Memory, after: Memory) -> bool:
    """Whether a stock worker is a member, or was one and somebody's absence is not settled yet: it may come
    back, and lead, while nobody of us does.
    """
    return any_stock(members) or (before.stock and bool(after.holds or after.unstopped))


def after_strangers(
    memory: Memory,
    generation: int,
    present: Collection[Member],
    evicted: Collection[Member],
    away: Collection[Member],
    policy: Policy,
    now_ms: int,
    awaited_until_ms: int,
) -> Memory:
    """``memory`` for the first round of a tenure: the facts that are certain although a stock worker may
    have led before it.

    ``present``: the members of that round; ``evicted``: to lead it; ``away``: those of them not back yet.
    The reports of evicted members are older than their last assignments. So no unreported task starts before
    all of them are back. Agents that were assigned tasks meanwhile and have vanished since may run on under
    their leases, also where nobody of the group is left.
    """
    everybody = (*present, *evicted)
    is_new = generation == 1 and memory.generation < 0
    if is_new or generation == memory.generation + 1 or not (memory.stock or any_stock(everybody)):
        return memory
    unknown = Hold(
        tasks=frozenset(),
        since_ms=now_ms,
        deadline_ms=awaited_until_ms,
        not_before_ms=now_ms + policy.fence_ms,
        reason=HoldReason.EVICTED,
        blanket=True,
    )
    holds = dict(memory.holds)
    for member in away:
        known = memory.holds.get(member.identity, unknown)
        holds[member.identity] = replace(unknown, tasks=known.tasks, incarnation=member.incarnation)
    if any(member.is_agent for member in everybody) or _has_agents(memory):
        holds[UNKNOWN] = replace(unknown, deadline_ms=now_ms, reason=HoldReason.UNPROVEN)
    return replace(memory, holds=holds)


def _has_agents(memory: Memory) -> bool:
    """Whether an agent was a member, or may still run what it was given."""
    assigned = (*as_given(memory), *memory.unstopped)
    return any(entry.leased for entry in assigned)


def awaited(memory: Memory, evicted: Iterable[Member], unread: Iterable[Member]) -> Iterable[str]:
    """Identities of evicted members that run something, or may: nothing of it moves before they are back.

    ``memory``: with what ``evicted`` reported. Of ``unread`` members no report is known: if there is no
    memory either, they may run anything.
    """
    for member in evicted:
        if memory.given.get(member.identity) or not member.is_agent:
            yield member.identity
    for member in unread:
        if memory.given.get(member.identity) or not member.is_agent or memory.generation < 0:
            yield member.identity


def place(member: Member) -> str:
    """Return the name under which incarnations of ``member`` are counted: its identity.

    Of stock workers that share a client id it is the client id and the address: the further ones at an
    address (``identities``) have identities of their own, but nothing tells which of them is back there.
    """
    client_id, mark, _ = member.identity.rpartition(f"@{member.worker_id}#")
    return f"{client_id}@{member.worker_id}" if mark else member.identity


def not_back(
    evicted: Iterable[Member],
    present: Collection[Member],
    ended: Container[tuple[str, str]],
    any_incarnation: bool,
) -> tuple[Member, ...]:
    """Those of ``evicted`` that are none of the members ``present`` and whose end is not proven.

    A stock worker is back under another member id, which says nothing. So another incarnation of its identity
    is distinguished from it by the address at which it serves; where one of the two addresses is not known,
    or both are the same, by their number: each member is one of those that were evicted. An agent's lease
    bounds what an earlier incarnation of it is known to have, so that ``any_incarnation`` of it does where
    that is known.
    """
    agents = {(m.identity, "" if any_incarnation else m.incarnation) for m in present if m.is_agent}
    others = Counter((place(m), m.url and m.worker_id) for m in present if not m.is_agent)
    away: list[Member] = []
    for member in evicted:
        incarnation = "" if any_incarnation else member.incarnation
        if (member.identity, incarnation) in agents or (member.identity, member.incarnation) in ended:
            continue
        address = (place(member), member.worker_id)
        if member.url and others[address]:
            others[address] -= 1
        else:
            away.append(member)
    for member in [m for m in away if not m.is_agent and m.incarnation]:
        left = [at for (name, at), count in others.items() if name == place(member) and count]
        if found := [at for at in left if not (member.url and at)]:
            others[place(member), found[0]] -= 1
            away.remove(member)
    return tuple(away)


def still_missing(memory: Memory, evicted: Iterable[Member]) -> tuple[Member, ...]:
    """Incarnations of stock workers that the leader before was still waiting for, beside others of the same
    identities: it evicted them, so that they are not among ``evicted`` of this one.

    Where not even their ids and number are known, one with an empty incarnation stands for them: it is never
    back.
    """
    known = {(member.identity, member.incarnation) for member in evicted}
    missing = {
        (entry.identity, entry.incarnation)
        for entry in memory.unstopped
        if not entry.leased and entry.incarnation != memory.incarnations.get(entry.identity)
    }
    missing |= {(identity, "") for identity, hold in memory.holds.items() if hold.blanket}
    return tuple(
        Member(incarnation, identity, incarnation, is_agent=False)
        for identity, incarnation in sorted(missing - known)
        if identity in memory.given
    )


def with_evicted(memory: Memory, evicted: Iterable[Member]) -> Memory:
    """``memory`` that knows what ``evicted`` members reported: they run it, whatever they were given.

    Of two incarnations of one identity the one that memory knows is owed its tasks; the other only keeps
    others from starting what it runs. Taken together they would vouch for each other.
    """
    given = dict(memory.given)
    incarnations = dict(memory.incarnations)
    leaseless = set(memory.leaseless)
    unstopped = list(memory.unstopped)
    for member in evicted:
        owned = frozenset(member.owned)
        if member.identity not in incarnations and not member.is_agent:
            leaseless.add(member.identity)
        if incarnations.setdefault(member.identity, member.incarnation) == member.incarnation:
            given[member.identity] = owned | given.get(member.identity, frozenset())
        elif owned:
            unstopped.append(Unstopped(member.identity, member.incarnation, owned, leased=member.is_agent))
    return replace(
        memory,
        given=given,
        incarnations=incarnations,
        leaseless=tuple(sorted(leaseless)),
        unstopped=tuple(unstopped),
    )
