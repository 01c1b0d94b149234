"""Sorts the members: which one represents its identity, which may receive work, which must release it.

present   = members whose end is not proven
current   = the newest present incarnation of each identity
older     = present − current                              (release everything)
leaving   = current that announced its departure           (release everything, if there is a receiver)
staying   = current − leaving
receivers = the best suited of staying: not stalled before stalled, not cordoned before cordoned,
            warm before warming; earlier criteria outrank later ones
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import Member, Memory, Warmth
from cooperator.planner.view import Facts, View

FORMER_INCARNATIONS = 4
"""Maximum number of remembered earlier incarnations per identity."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The members, sorted by role. Mappings are in order of identity.

    ``held``: identities that announced their departure and whose tasks wait for them, because they will come
    back or there is no other member. ``warming``: all receivers are still warming up; no warm member
    releases anything for them.
    """

    present: tuple[Member, ...]
    current: Mapping[str, Member]
    older: tuple[Member, ...]
    leaving: Mapping[str, Member]
    held: frozenset[str]
    receivers: Mapping[str, Member]
    warming: bool

    def past(self, identity: str) -> frozenset[str]:
        """Return the incarnations of ``identity`` that are members now: they run only what they report."""
        return frozenset(member.incarnation for member in self.present if member.identity == identity)


def survey(view: View, memory: Memory) -> Roster:
    """Sort the members of ``view``."""
    facts = view.facts
    present = tuple(m for m in view.members if (m.identity, m.incarnation) not in facts.ended)
    newest: dict[str, Member] = {}
    for member in present:
        other = newest.get(member.identity)
        if other is None or not _is_older(member, other, memory):
            newest[member.identity] = member
    current = {identity: newest[identity] for identity in sorted(newest)}
    older = tuple(member for member in present if current[member.identity] is not member)
    leaving = {identity: m for identity, m in current.items() if _announced(m, facts)}
    staying = {identity: m for identity, m in current.items() if identity not in leaving}
    receivers = _best_suited(staying, facts)
    held = frozenset(
        identity
        for identity, member in leaving.items()
        if member.draining and (identity in facts.returning or not receivers)
    )
    # All receivers have the same warmth.
    first = next(iter(receivers.values()), None)
    warming = first is not None and first.warmth is Warmth.WARMING
    return Roster(present, current, older, leaving, held, receivers, warming)


def _best_suited(staying: Mapping[str, Member], facts: Facts) -> Mapping[str, Member]:
    """Return the members of ``staying`` that may receive work that is not their own.

    A cordon outranks warmth: a task started on a machine that will be drained must move again, while a
    warming member will be up soon. Stalled members receive work only if there is no other member.
    """
    cordoned, warm = facts.cordoned, Warmth.WARM
    if not [member for member in staying.values() if member.warmth is not warm]:
        return {i: member for i, member in staying.items() if i not in cordoned} or staying
    flaws = {
        i: (member.warmth is Warmth.STALLED, i in cordoned, member.warmth is not warm)
        for i, member in staying.items()
    }
    least = min(flaws.values())
    return {i: member for i, member in staying.items() if flaws[i] == least}


def _is_older(member: Member, other: Member, memory: Memory) -> bool:
    """Return whether ``member`` is an earlier incarnation than ``other``, which precedes it in the view.

    An incarnation that memory lists as former is older than one that it does not list; the incarnation
    that was last given work is older than one that memory has never seen; otherwise the later one in the
    view is the newer one.
    """
    former = memory.former.get(member.identity, ())
    if (member.incarnation in former) != (other.incarnation in former):
        return member.incarnation in former
    last = memory.incarnations.get(member.identity)
    return member.incarnation == last != other.incarnation


def _announced(member: Member, facts: Facts) -> bool:
    return member.draining or member.identity in facts.leaving or member.identity in facts.gone


def remember_incarnations(
    roster: Roster, memory: Memory, kept: frozenset[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the newest incarnation and the earlier ones of each identity that is a member or in ``kept``."""
    incarnations: dict[str, str] = {}
    former: dict[str, tuple[str, ...]] = {}
    for identity in sorted(kept | roster.current.keys()):
        last = memory.incarnations.get(identity)
        past = list(memory.former.get(identity, ()))
        member = roster.current.get(identity)
        newest = member.incarnation if member is not None else last
        if newest is None:
            continue
        incarnations[identity] = newest
        earlier = [last] if last is not None else []
        earlier += [m.incarnation for m in roster.older if m.identity == identity]
        for incarnation in earlier:
            if incarnation not in past:
                past.append(incarnation)
        past = [incarnation for incarnation in past if incarnation != newest][-FORMER_INCARNATIONS:]
        if past:
            former[identity] = tuple(past)
    return incarnations, former
