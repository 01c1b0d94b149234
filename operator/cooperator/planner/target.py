"""Where every item of one kind should run: balanced within 1, with the fewest moves, connectors spread.

    L(m)     = what m keeps, gets back, or will get back     N = Σ L(m) + pool, over W receivers
    min, extras = divmod(N, W)
    quota(m) ∈ {min, min + 1}, min + 1 for ``extras`` members
    surplus  = Σ max(0, L(m) − quota(m))
    moves    = surplus: fewer are impossible, since a member above its quota must let go of the difference,
               and the larger quotas go to members that can fill them
    pool    := pool ∪ surplus, dealt to the members below their quota

Which items make up the surplus (``release``), who gets which item of the pool (``deal``) and what is gained
by exchanging them (``spread``) is free: it is chosen to spread each connector's tasks over the members.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from cooperator.model import TaskId
from cooperator.planner.deal import Dealer, water_level
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.release import Releaser
from cooperator.planner.spread import Spread


@dataclass(frozen=True, slots=True)
class Loads:
    """What counts as the receivers' own, of one kind; the keys of ``kept`` are the receivers.

    ``owed``: what they get back now. ``reserved``: how many more they will get back. ``of_other_kind``:
    their target load of the other kind, which decides ties.
    """

    kept: Mapping[str, frozenset[TaskId]]
    owed: Mapping[str, Sequence[TaskId]] = field(default_factory=dict)
    reserved: Mapping[str, int] = field(default_factory=dict)
    of_other_kind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """``released``: per identity, what it keeps now and must let go of for balance.

    ``placed``: for every item of the pool, and for every owed item that is better placed elsewhere, the
    identity that should run it. ``surplus``: how many items are above their member's quota, let go or not.
    ``loads``: per identity, how many it runs once everything is placed.
    """

    released: Mapping[str, Collection[TaskId]]
    placed: Mapping[TaskId, str]
    surplus: int
    loads: Mapping[str, int]


def compute(own: Loads, pool: Sequence[TaskId], sizes: Mapping[str, int], balance: bool) -> Target:
    """The target of one kind.

    ``pool``: what is free or will be, sorted. ``sizes``: connector name to its number of items of this kind.
    ``balance``: whether members above their quota let go of the surplus now.
    """
    loads = {
        identity: len(kept) + len(own.owed.get(identity, ())) + own.reserved.get(identity, 0)
        for identity, kept in own.kept.items()
    }
    surpluses = _surpluses(own, loads, len(pool)) if loads else {}
    surplus = sum(surpluses.values())
    if not loads or not (pool or (balance and surplus)):
        return Target({}, {}, surplus, loads)
    homes: dict[TaskId, str] = {}
    crowded: set[str] = set()
    if balance and surplus:
        releaser = Releaser(own.kept, own.owed, sizes, pool, surpluses)
        homes, crowded = releaser.release(), releaser.crowded
        for identity, count in surpluses.items():
            loads[identity] -= count
    groups = _by_connector(pool, homes)
    level, _ = water_level(loads.values(), len(pool) + len(homes))
    dealer = Dealer(loads, _running(own, homes, groups), own.of_other_kind)
    placed = dealer.deal(groups)
    for identity in placed.values():
        loads[identity] += 1
    crowded.update(dealer.uneven)
    if crowded:
        Spread(own.kept, own.owed, sizes, placed, homes, loads, level).improve(sorted(crowded))
    released: dict[str, list[TaskId]] = {}
    for item, identity in homes.items():
        if item in own.kept[identity]:
            released.setdefault(identity, []).append(item)
    return Target(released, placed, surplus, loads)


def _by_connector(pool: Iterable[TaskId], homes: Iterable[TaskId]) -> dict[str, list[TaskId]]:
    groups: dict[str, list[TaskId]] = {}
    for item in pool:
        groups.setdefault(item[0], []).append(item)
    for connector, items in groupby(sorted(homes), itemgetter(0)):
        groups[connector] = sorted([*groups.get(connector, ()), *items])
    return groups


def _running(
    own: Loads, homes: Mapping[TaskId, str], connectors: Collection[str]
) -> dict[str, dict[str, int]]:
    """Per connector of ``connectors``, how many of its items each member keeps or gets back."""
    running: dict[str, dict[str, int]] = {}
    for identity, kept in own.kept.items():
        here = dict(connector_counts(kept))
        for item in own.owed.get(identity, ()):
            here[item.connector] = here.get(item.connector, 0) + 1
        for connector in connectors if len(connectors) < len(here) else here:
            if connector in here and connector in connectors:
                running.setdefault(connector, {})[identity] = here[connector]
    for item, home in homes.items():
        running[item.connector][home] -= 1
    return running


def _surpluses(own: Loads, loads: Mapping[str, int], pool: int) -> dict[str, int]:
    """By how much each member is above its quota, in order of identity."""
    smallest, extras = divmod(sum(loads.values()) + pool, len(loads))
    above = [identity for identity, load in loads.items() if load > smallest]
    # The larger quotas go to those that would have to stop something, then to those with the least of the
    # other kind.
    above.sort(key=lambda i: (len(own.owed.get(i, ())), own.of_other_kind.get(i, 0), i))
    larger = set(above[:extras])
    quotas = {identity: smallest + (identity in larger) for identity in above}
    return {i: loads[i] - quotas[i] for i in sorted(above) if loads[i] > quotas[i]}
