"""Sticky, the default: balanced within 1, with the minimum number of moves, connectors spread.

    L(m)     = what m keeps, gets back, or will get back     N = Σ L(m) + pool, over W receivers
    min, extras = divmod(N, W)
    quota(m) ∈ {min, min + 1}, min + 1 for ``extras`` members
    surplus  = Σ max(0, L(m) − quota(m))
    moves    = surplus: fewer are impossible, since a member above its quota must release the difference,
               and the larger quotas go to members that can fill them
    pool    := pool ∪ surplus, dealt to the members below their quota

The choice of the surplus items (``release``), of each pool item's receiver (``deal``) and of exchanges
(``exchange``) is free; it spreads each connector's tasks over members and zones. ``weighted`` handles weights
and capacities.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter

from cooperator.model import TaskId
from cooperator.planner.assignors.deal import Dealer, water_level
from cooperator.planner.assignors.exchange import Exchange
from cooperator.planner.assignors.release import Releaser
from cooperator.planner.assignors.running import Running
from cooperator.planner.assignors.weighted import place_by_weight
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.problem import DealtInTurn, Placement, PlacementProblem


class Sticky:
    """The assignor ``Sticky``."""

    def assign(self, problem: PlacementProblem) -> Placement:
        """Place the pool; if ``balance``, level the loads."""
        if not problem.is_even:
            return place_by_weight(problem)
        loads, pool = problem.loads(), problem.pool
        surpluses = _surpluses(problem, loads) if problem.balance else {}
        if not (pool or surpluses):
            return Placement()
        if _is_even_start(problem, loads):
            in_turn = sorted(loads, key=lambda identity: (problem.of_other_kind.get(identity, 0), identity))
            return Placement(placed=DealtInTurn(pool, in_turn))
        homes: dict[TaskId, str] = {}
        crowded: set[str] = set()
        if surpluses:
            releaser = Releaser(problem, surpluses)
            homes, crowded = releaser.release(), releaser.crowded
            for identity, count in surpluses.items():
                loads[identity] -= count
        groups = _by_connector(problem, homes)
        level, _ = water_level(loads.values(), len(pool) + len(homes))
        running = Running(problem, homes, groups)
        dealer = Dealer(loads, running, problem.of_other_kind, problem.zones)
        placed = dealer.deal(groups)
        if len(set(problem.zones.values())) > 1:
            crowded.update(groups, *(connector_counts(problem.kept[identity]) for identity in surpluses))
        else:
            # Dealt connectors are even, unless the dealer lists them as uneven.
            crowded.difference_update(groups)
            crowded.update(dealer.uneven)
        if crowded and problem.sizes:
            placed = dict(placed)
            for identity, count in Counter(placed.values()).items():
                loads[identity] += count
            Exchange(problem, placed, homes, loads, level).improve(sorted(crowded))
        return Placement(_that_runs(problem, homes), placed)


def _is_even_start(problem: PlacementProblem, loads: Mapping[str, int]) -> bool:
    """Return whether nothing runs, and connectors of the same size fill all members to the same level: each
    pass of ``Dealer`` then continues with the member after the last one."""
    pool, sizes = problem.pool, problem.sizes
    if any(loads.values()) or len(pool) % len(loads) or len(set(problem.zones.values())) > 1:
        return False
    if not sizes:
        return len(set(map(itemgetter(0), pool))) == len(pool)
    return len(set(sizes.values())) == 1 and len(pool) == sum(sizes.values())


def _that_runs(problem: PlacementProblem, homes: Mapping[TaskId, str]) -> dict[str, list[TaskId]]:
    """Return those of ``homes`` that their members run; owed items do not run yet."""
    released: dict[str, list[TaskId]] = {}
    for identity, leaving in groupby(homes.items(), itemgetter(1)):
        items: Iterable[TaskId] = map(itemgetter(0), leaving)
        if problem.owed.get(identity):
            items = filter(problem.kept[identity].__contains__, items)
        released.setdefault(identity, []).extend(items)
    return {identity: items for identity, items in released.items() if items}


def _surpluses(problem: PlacementProblem, loads: Mapping[str, int]) -> dict[str, int]:
    """Return how far each member is above its quota, in order of identity."""
    smallest, extras = divmod(sum(loads.values()) + len(problem.pool), len(loads))
    above = [identity for identity, load in loads.items() if load > smallest]
    kept, owed, others = problem.kept, problem.owed, problem.of_other_kind
    # The larger quotas go to members that would have to stop something, then to those that get back the
    # least, then to those with the least of the other kind.
    above.sort(key=lambda i: (len(kept[i]) <= smallest, len(owed.get(i, ())), others.get(i, 0), i))
    larger = set(above[:extras])
    surpluses: dict[str, int] = {}
    for identity in sorted(above):
        # Items that it will get back later can still move then, so nothing that runs is stopped for them.
        later = len(problem.reserved.get(identity, ()))
        surplus = loads[identity] - smallest - (identity in larger) - later
        if surplus > 0:
            surpluses[identity] = surplus
    return surpluses


def _by_connector(problem: PlacementProblem, homes: Collection[TaskId]) -> dict[str, Sequence[TaskId]]:
    """Group the items to deal by connector, in order of name."""
    pool, sizes = problem.pool, problem.sizes
    if not homes and len(pool) == sum(sizes.values()):
        # The pool is everything: the sizes say where each connector ends.
        in_order = sorted(sizes)
        ends = zip(in_order, accumulate(map(sizes.__getitem__, in_order)), strict=True)
        return {connector: pool[end - sizes[connector] : end] for connector, end in ends if sizes[connector]}
    groups = _grouped(pool)
    if not homes:
        return groups
    leaving = _grouped(sorted(homes, key=itemgetter(0)))
    if not groups and len(leaving) == len(homes):
        return leaving
    for connector, items in leaving.items():
        of_both = [*groups.get(connector, ()), *items]
        groups[connector] = sorted(of_both) if len(of_both) > 1 else of_both
    return {connector: groups[connector] for connector in sorted(groups)}


def _grouped(items: Sequence[TaskId]) -> dict[str, Sequence[TaskId]]:
    """Group ``items``, which are in order of connector."""
    single: dict[str, Sequence[TaskId]] = dict(
        zip(map(itemgetter(0), items), zip(items, strict=True), strict=True)
    )
    if len(single) == len(items):
        return single
    return {connector: list(own) for connector, own in groupby(items, itemgetter(0))}
