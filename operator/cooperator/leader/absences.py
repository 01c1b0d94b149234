"""What a memory may still be taken for when it may have missed something.

A lease is renewed by every answered JoinGroup, also in a round that ends before its plan is saved. So a life
that the memory calls missing may have been there since: nobody may count its lease from the old absence.
"""

from collections.abc import Collection, Container, Iterable
from dataclasses import replace

from cooperator.model import Hold, HoldReason, Member, Memory, Policy, Unstopped

NEVER_MS = 2**62
UNKNOWN = "(unknown)"
"""Stands for lives of ours that a stranger may have given work to, and of which nothing is heard."""


def for_round(memory: Memory, generation: int) -> Memory:
    """``memory`` for the plan of round ``generation``: absences begin anew if rounds went by unplanned.

    Generations of one group are consecutive; one that begins at 1 again was empty, and counts as a gap.
    """
    if generation == memory.generation + 1:
        return memory
    return replace(memory, unstopped=_anew(memory))


def by_own_clock(memory: Memory, own_term: int, policy: Policy, now_ms: int) -> Memory:
    """``memory`` for a leader whose last term was ``own_term``. If another one wrote it, absences begin anew:
    that one's clock and ours may be further apart than a lease is long. Until when a hold is worth its wait
    stays as it was said."""
    if memory.term == own_term:
        return memory
    holds = {
        identity: replace(hold, not_before_ms=now_ms + policy.fence_ms)
        if hold.blanket and hold.not_before_ms
        else hold
        for identity, hold in memory.holds.items()
    }
    return replace(memory, holds=holds, unstopped=_anew(memory))


def _anew(memory: Memory) -> tuple[Unstopped, ...]:
    return tuple(replace(entry, gone_since_ms=None) for entry in memory.unstopped)


def over_ms(entry: Unstopped, policy: Policy) -> int:
    """When (ms) nothing of the entry can run any more without a proof; 0 for a member, whose report says."""
    if entry.gone_since_ms is None:
        return 0
    fence_ms = policy.fence_of_ms(entry.leased)
    return NEVER_MS if fence_ms is None else entry.gone_since_ms + fence_ms


def may_run(entry: Unstopped, ended: Container[tuple[str, str]], policy: Policy, now_ms: int) -> bool:
    """Whether a life that is no member may still run what it was told to stop, or had when last seen."""
    if (entry.identity, entry.incarnation) in ended:
        return False
    return entry.gone_since_ms is None or now_ms < over_ms(entry, policy)


def as_given(memory: Memory) -> Iterable[Unstopped]:
    """What each life was given, of those that were members in the last round that was planned."""
    for identity, tasks in memory.given.items():
        leased = identity not in memory.leaseless
        yield Unstopped(identity, memory.incarnations.get(identity, ""), tasks, leased=leased)


def any_stock(members: Iterable[Member]) -> bool:
    """Whether one of them would plan by Kafka's rules, and leave no memory, if it were to lead."""
    return any(not member.is_agent for member in members)


def after_strangers(
    memory: Memory,
    generation: int,
    present: Collection[Member],
    evicted: Collection[Member],
    policy: Policy,
    now_ms: int,
    awaited_until_ms: int,
) -> Memory:
    """``memory`` for the first round of a tenure: what is known if a stock worker may have led before it.

    ``present``: the members of that round; ``evicted``: to lead it. What the evicted ones said of themselves
    is older than the last shares. So nothing that nobody reports starts before all of them are back. And
    lives of ours that were given work and have vanished since may run on under their leases.
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
    for member in evicted:
        if member.identity not in {other.identity for other in present}:
            known = memory.holds.get(member.identity, unknown)
            holds[member.identity] = replace(unknown, tasks=known.tasks, incarnation=member.incarnation)
    if any(member.is_agent for member in everybody):
        holds[UNKNOWN] = replace(unknown, deadline_ms=now_ms, reason=HoldReason.UNPROVEN)
    return replace(memory, holds=holds)


def with_evicted(memory: Memory, evicted: Iterable[Member]) -> Memory:
    """``memory`` that knows what ``evicted`` members reported: they run it, whatever they were given.

    Of two lives of one identity the one that memory knows is owed its tasks; the other only keeps others from
    starting what it runs. Taken together they would vouch for each other.
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
