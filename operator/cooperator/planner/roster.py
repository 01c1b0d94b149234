"""Who of the members speaks for its identity, who may be given work, and who must let go of it.

present   = members whose end is not proven
current   = of each identity, its newest present life
older     = present − current                              (let go of everything)
leaving   = current that announced its departure           (let go of everything, if there is anywhere to go)
staying   = current − leaving
receivers = those of staying that are best suited: not stalled before stalled, not cordoned before cordoned,
            warm before warming. Of several wishes that cannot all be met the first counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cooperator.model import Member, Memory, Warmth
from cooperator.planner.view import Facts, View

FORMER_LIVES = 4
"""How many earlier lives of an identity are remembered."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The members by what may be done with them. Mappings are in order of identity.

    ``held``: identities that announced their departure and whose tasks wait for them: they come back, or
    there is no other member. ``warming``: the receivers are still warming up, every one of them, and nobody
    who is warm lets go of anything for them.
    """

    present: tuple[Member, ...]
    current: Mapping[str, Member]
    older: tuple[Member, ...]
    leaving: Mapping[str, Member]
    held: frozenset[str]
    receivers: Mapping[str, Member]
    warming: bool

    def lives(self, identity: str) -> frozenset[str]:
        """The incarnations of ``identity`` that are members now: what they do not report they do not run."""
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
    # They are alike in this.
    first = next(iter(receivers.values()), None)
    warming = first is not None and first.warmth is Warmth.WARMING
    return Roster(present, current, older, leaving, held, receivers, warming)


def _best_suited(staying: Mapping[str, Member], facts: Facts) -> Mapping[str, Member]:
    """Who of ``staying`` may be given work that is not its own.

    A cordon outranks warmth: to start something on a machine that is to be emptied is to move it again,
    and what warms up will be up soon. Whoever has stalled is asked only where there is nobody else.
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
    """Whether ``member`` is an earlier life than ``other``, which stands before it in the view.

    A life that memory knows as former is older than one it does not know as such; the life that was last
    given work is older than one that memory has never seen; else the later in the view is the newer.
    """
    former = memory.former.get(member.identity, ())
    if (member.incarnation in former) != (other.incarnation in former):
        return member.incarnation in former
    last = memory.incarnations.get(member.identity)
    return member.incarnation == last != other.incarnation


def _announced(member: Member, facts: Facts) -> bool:
    return member.draining or member.identity in facts.leaving or member.identity in facts.gone


def remember_lives(
    roster: Roster, memory: Memory, kept: frozenset[str]
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Per identity its newest life, and its earlier ones; of identities that are members or in ``kept``."""
    incarnations: dict[str, str] = {}
    former: dict[str, tuple[str, ...]] = {}
    for identity in sorted(kept | roster.current.keys()):
        last = memory.incarnations.get(identity)
        lives = list(memory.former.get(identity, ()))
        member = roster.current.get(identity)
        newest = member.incarnation if member is not None else last
        if newest is None:
            continue
        incarnations[identity] = newest
        earlier = [last] if last is not None else []
        earlier += [m.incarnation for m in roster.older if m.identity == identity]
        for life in earlier:
            if life not in lives:
                lives.append(life)
        lives = [life for life in lives if life != newest][-FORMER_LIVES:]
        if lives:
            former[identity] = tuple(lives)
    return incarnations, former
