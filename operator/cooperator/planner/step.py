"""The next safe step towards a target, and the memory that goes with it.

    assigned(m) = what m is owed or was placed with it, if no member reports it and no hold covers it
    revoked(m)  = what m runs and must release: for balance, or regardless of it
    given'(m)   = stays(m) − revoked(m) ∪ assigned(m) ∪ reserved(m)

assigned ∩ revoked = ∅ for the whole round, since assigned ∩ occupied = ∅ and revoked ⊆ occupied.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cooperator.model import Assignment, Memory, TaskId, Unstopped, Warmup
from cooperator.planner.claims import Claims
from cooperator.planner.holds import Settled
from cooperator.planner.plan import Plan, Reason, Why
from cooperator.planner.problem import DealtInTurn
from cooperator.planner.roster import Roster, remember_incarnations
from cooperator.planner.view import View


@dataclass(frozen=True, slots=True)
class RoundDecision:
    """All findings of one round.

    ``unreported``: configured tasks that no member reports. ``free``: the tasks that may be assigned, and
    why each is free. ``placed`` and ``released``: as in ``target.Target``, for both kinds. ``warmups``,
    ``standbys``, ``departing``: as in ``Memory``.
    """

    roster: Roster
    claimed: Claims
    settled: Settled
    unreported: frozenset[TaskId]
    free: Mapping[TaskId, Reason]
    placed: Sequence[Mapping[TaskId, str]]
    released: Sequence[Mapping[str, Collection[TaskId]]]
    joins: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    warmups: tuple[Warmup, ...] = ()
    standbys: Mapping[str, frozenset[TaskId]] = field(default_factory=dict)
    departing: Mapping[str, int] = field(default_factory=dict)


def take(view: View, memory: Memory, decision: RoundDecision) -> tuple[Plan, Memory]:
    """Return the plan of this round, and the memory after it."""
    assigned, assigned_why = _assignments(view, decision)
    revoked = _revocations(view, decision)
    assignments: dict[str, Assignment] = {}
    empty = Assignment()
    for member in view.members:
        speaks = decision.roster.current.get(member.identity) is member
        new = assigned.get(member.identity, ()) if speaks else ()
        gone = revoked.get(member.member_id, {})
        assignments[member.member_id] = Assignment(tuple(new), tuple(sorted(gone))) if new or gone else empty
    after = _remember(view, memory, decision, assigned, revoked)
    timers_ms = decision.settled.timers_ms
    revoked_why: dict[TaskId, Reason] = {}
    for why in revoked.values():
        revoked_why.update(why)
    plan = Plan(
        assignments=assignments,
        held=decision.settled.held,
        rejoin_at_ms=min(timers_ms, default=None),
        assigned_why=assigned_why,
        revoked_why=revoked_why,
        warnings=decision.warnings,
    )
    return plan, after


def _assignments(
    view: View, decision: RoundDecision
) -> tuple[Mapping[str, Sequence[TaskId]], Mapping[TaskId, Reason]]:
    """Return the newly assigned tasks per identity, and the reason of each."""
    owed_to: defaultdict[str, list[TaskId]] = defaultdict(list)
    why: dict[TaskId, Reason] = {}
    balance = Reason(Why.BALANCE, view.cause)
    for identity, owed in decision.settled.owed.items():
        for task, reason in owed.items():
            to = next((placed[task] for placed in decision.placed if task in placed), identity)
            owed_to[to].append(task)
            why[task] = reason if to == identity else balance
    free = decision.free
    # In this case exactly the pool was dealt, and all of it is free.
    everything = not (why or decision.claimed.in_flight or any(decision.released))
    assigned: dict[str, Sequence[TaskId]] = dict(owed_to)
    for placed in decision.placed if free else ():
        dealt: Iterable[tuple[str, Sequence[TaskId]]]
        if isinstance(placed, DealtInTurn):
            dealt = placed.by_receiver()
            if not everything:
                dealt = ((receiver, [*filter(free.__contains__, items)]) for receiver, items in dealt)
        else:
            found: defaultdict[str, list[TaskId]] = defaultdict(list)
            for task, receiver in placed.items():
                if task in free:
                    found[receiver].append(task)
            dealt = found.items()
        for receiver, items in dealt:
            # Tuples that are dealt in turn stay as they are: each copy would look at 100,000 items once more.
            assigned[receiver] = (*assigned[receiver], *items) if receiver in assigned else items
    if not why and sum(map(len, assigned.values())) == len(free):
        return assigned, free
    why.update((task, free[task]) for tasks in assigned.values() for task in tasks if task not in why)
    return assigned, why


def _revocations(view: View, decision: RoundDecision) -> dict[str, dict[TaskId, Reason]]:
    """Return the tasks that each member id must release, and why."""
    revoked = {member_id: dict(gone) for member_id, gone in decision.claimed.let_go.items()}
    balance = Reason(Why.BALANCE, view.cause)
    for released in decision.released:
        for identity, tasks in released.items():
            member_id = decision.roster.receivers[identity].member_id
            revoked.setdefault(member_id, {}).update(dict.fromkeys(tasks, balance))
    return revoked


def _remember(
    view: View,
    memory: Memory,
    decision: RoundDecision,
    assigned: Mapping[str, Sequence[TaskId]],
    revoked: Mapping[str, Mapping[TaskId, Reason]],
) -> Memory:
    settled = decision.settled
    given: dict[str, frozenset[TaskId]] = {}
    unstopped = list(settled.unstopped)
    for member in decision.roster.present:
        stays = decision.claimed.stays[member.member_id].all
        gone = frozenset(revoked.get(member.member_id, ()))
        if gone:
            stays -= gone
        if len(stays) != len(member.owned):
            is_gone = len(stays) + len(gone) == len(member.owned)
            stopping = gone if is_gone else decision.claimed.reports[member.member_id].all - stays
            unstopped.append(Unstopped(member.identity, member.incarnation, stopping, leased=member.is_agent))
        if decision.roster.current[member.identity] is member:
            new = assigned.get(member.identity, ())
            reserved = settled.reserved.get(member.identity, frozenset())
            given[member.identity] = stays.union(new, reserved) if new or reserved else stays
    incarnations, former = remember_incarnations(decision.roster, memory, frozenset(settled.holds))
    current = decision.roster.current
    leaseless = {i for i in memory.leaseless if i in incarnations and i not in current}
    leaseless.update(identity for identity, member in current.items() if not member.is_agent)
    return Memory(
        term=memory.term,
        generation=view.generation,
        given=given,
        incarnations=incarnations,
        holds=settled.holds,
        returns=settled.returns,
        former=former,
        joins=decision.joins,
        unstopped=tuple(unstopped),
        moving=_moving(memory, decision, assigned, revoked),
        leaseless=tuple(sorted(leaseless)),
        kip415=memory.kip415,
        warmups=decision.warmups,
        standbys=decision.standbys,
        departing=decision.departing,
    )


def _moving(
    memory: Memory,
    decision: RoundDecision,
    assigned: Mapping[str, Sequence[TaskId]],
    revoked: Mapping[str, Mapping[TaskId, Reason]],
) -> dict[str, frozenset[TaskId]]:
    """Return the tasks revoked in this round, and those revoked earlier that are assigned nowhere yet."""
    moving: dict[str, set[TaskId]] = {}
    if memory.moving:
        homeless = (decision.claimed.in_flight | decision.unreported).difference(*assigned.values())
        moving = {key: set(tasks & homeless) for key, tasks in memory.moving.items()}
    for gone in revoked.values():
        # A member releases all its tasks for one reason, or for a few.
        reasons = {id(reason): reason for reason in gone.values()}
        for reason in reasons.values():
            if reason.why is not Why.DELETED:
                alone = len(reasons) == 1
                tasks = frozenset(gone if alone else [task for task, why in gone.items() if why is reason])
                for others in moving.values():
                    others.difference_update(tasks)
                moving.setdefault(f"{reason.why}:{reason.cause}", set()).update(tasks)
    return {key: frozenset(moving[key]) for key in sorted(moving) if moving[key]}
