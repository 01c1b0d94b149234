"""Exchanges that spread connectors further, without additional moves or changes to the balance.

    cost = Σ n(c, m)² + Σ n(c, zone)², the latter if there are several zones
    moving one task of c from m to m' lowers it by 2·gain,
    gain = n(c, m) − 1 − n(c, m'), and the same of their zones, if these differ

A unit is a task on its way to a member; its home is the member that releases it, if it runs. These exchanges
are made as long as they lower the cost:

    swap    two units exchange their destinations
    stay    a unit stays at home, and another task of that home goes in its place
    shift   a unit goes to a member at the level instead of one above it

When none of them lowers the cost, the plan is a local optimum; tests measure its distance from the optimum.
"""

from collections.abc import Iterable
from functools import cached_property

from cooperator.model import TaskId
from cooperator.planner.itemsets import connector_counts
from cooperator.planner.problem import PlacementProblem


class Exchange:
    """The exchanges among the tasks of one plan.

    ``placed`` (unit to destination), ``homes`` (unit to home) and ``loads`` (per identity, all placed) are
    modified in place. ``level``: members have this load, or one more.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        placed: dict[TaskId, str],
        homes: dict[TaskId, str],
        loads: dict[str, int],
        level: int,
    ) -> None:
        self._kept, self._owed, self._sizes = problem.kept, problem.owed, problem.sizes
        self._placed, self._homes, self._loads, self._level = placed, homes, loads, level
        zones = {identity: problem.zones.get(identity, "") for identity in loads}
        self._zones = zones if len(set(zones.values())) > 1 else {}
        self._at: dict[str, dict[TaskId, None]] = {}
        for unit, identity in placed.items():
            self._at.setdefault(identity, {})[unit] = None
        self._away: dict[str, dict[TaskId, None]] = {}
        for unit, identity in homes.items():
            self._away.setdefault(identity, {})[unit] = None
        self._counts: dict[str, dict[str, int]] = {}
        self._in_zones: dict[str, dict[str, int]] = {}
        self._returns: dict[str, dict[str, int]] = {}
        self._sorted: dict[str, list[TaskId]] = {}

    def improve(self, connectors: Iterable[str]) -> None:
        """Exchange until nothing is gained. ``connectors``: the connectors that are not spread evenly."""
        candidates = dict.fromkeys(connectors)
        gained = True
        while gained:
            gained = False
            # An exchange can enable another one, of a connector that was examined before.
            for connector in list(candidates):
                while self._improve(connector, candidates):
                    gained = True

    def _improve(self, connector: str, touched: dict[str, None]) -> bool:
        """Make one exchange that moves a task of ``connector`` to a member with fewer of its tasks."""
        counts = self._count(connector)
        if not self._zones:
            least = min(counts.values(), default=0) if len(counts) == len(self._loads) else 0
            if max(counts.values(), default=0) - least < 2:
                return False
        for unit in [unit for unit in self._tasks(connector) if unit in self._placed]:
            source = self._placed[unit]
            if counts[source] < 2 and not self._zones:
                continue
            for target in self._loads:
                gain = self._gain(connector, source, target)
                if gain > 0 and self._send(unit, source, target, gain, touched):
                    return True
        return any(home in self._away and self._replace(connector, home, touched) for home in list(counts))

    def _send(self, unit: TaskId, source: str, target: str, gain: int, touched: dict[str, None]) -> bool:
        """Send ``unit`` from ``source`` to ``target``, which has fewer tasks of its connector."""
        if self._homes.get(unit) == target:
            for other in self._staying(target, running=unit in self._kept[target]):
                if self._gain(other.connector, target, source) + gain > 0:
                    self._return(unit, other, touched)
                    return True
            return False
        if self._loads[source] > self._level >= self._loads[target]:
            self._loads[source] -= 1
            self._loads[target] += 1
            self._move(unit, target, touched)
            return True
        for other in self._at.get(target, ()):
            if self._gain(other.connector, target, source) + gain > 0:
                self._move(unit, target, touched)
                self._move(other, source, touched)
                return True
        return False

    def _replace(self, connector: str, home: str, touched: dict[str, None]) -> bool:
        """Let a task of ``connector`` leave ``home`` in place of another task that leaves it."""
        if not self._count(connector)[home]:
            return False
        gains = {target: self._gain(connector, home, target) for target in self._best_returns(home)}
        best = self._best_returns(home)
        gains = {target: gain for target, gain in gains.items() if 0 < gain > -best[target]}
        if not gains:
            return False
        staying = {
            item in self._kept[home]: item for item in self._tasks(connector) if self._stays(item, home)
        }
        for unit in self._away[home]:
            target = self._placed[unit]
            gain, other = gains.get(target), staying.get(unit in self._kept[home])
            if gain is not None and other is not None and self._gain(unit.connector, target, home) + gain > 0:
                self._return(unit, other, touched)
                return True
        return False

    def _best_returns(self, home: str) -> dict[str, int]:
        """Return, per destination of ``home``'s units, the largest gain from one of them staying at home."""
        best = self._returns.get(home)
        if best is None:
            best = self._returns[home] = {}
            for unit in self._away[home]:
                target = self._placed[unit]
                gain = self._gain(unit.connector, target, home)
                best[target] = max(best.get(target, gain), gain)
        return best

    def _return(self, unit: TaskId, other: TaskId, touched: dict[str, None]) -> None:
        """Keep ``unit`` at home, and send ``other`` from there in its place."""
        home, target = self._homes.pop(unit), self._placed.pop(unit)
        del self._at[target][unit], self._away[home][unit]
        self._recount(unit.connector, target, home, touched)
        self._homes[other] = home
        self._away[home][other] = None
        self._placed[other] = target
        self._at[target][other] = None
        self._recount(other.connector, home, target, touched)

    def _move(self, unit: TaskId, target: str, touched: dict[str, None]) -> None:
        source = self._placed[unit]
        self._placed[unit] = target
        del self._at[source][unit]
        self._at.setdefault(target, {})[unit] = None
        self._recount(unit.connector, source, target, touched)

    def _recount(self, connector: str, source: str, target: str, touched: dict[str, None]) -> None:
        counts = self._count(connector)
        counts[source] -= 1
        counts[target] = counts.get(target, 0) + 1
        if self._zones:
            in_zones = self._in_zones[connector]
            in_zones[self._zones[source]] -= 1
            in_zones[self._zones[target]] = in_zones.get(self._zones[target], 0) + 1
        touched[connector] = None
        self._returns.clear()

    def _gain(self, connector: str, source: str, target: str) -> int:
        """Return by how much the cost falls, in units of 2, when a task of ``connector`` moves."""
        counts = self._count(connector)
        gain = counts[source] - 1 - counts.get(target, 0)
        if self._zones and self._zones[source] != self._zones[target]:
            in_zones = self._in_zones[connector]
            gain += in_zones[self._zones[source]] - 1 - in_zones.get(self._zones[target], 0)
        return gain

    def _stays(self, item: TaskId, identity: str) -> bool:
        return item not in self._homes and self._owner.get(item) == identity

    def _staying(self, identity: str, running: bool) -> Iterable[TaskId]:
        """Return the tasks that ``identity`` keeps, or those that it gets back if not ``running``."""
        if identity not in self._sorted:
            self._sorted[identity] = sorted(item for item, owner in self._owner.items() if owner == identity)
        kept = self._kept[identity]
        return (t for t in self._sorted[identity] if t not in self._homes and (t in kept) is running)

    @cached_property
    def _owner(self) -> dict[TaskId, str]:
        """The member that keeps or gets back each item, before anything is placed."""
        own = (self._kept, self._owed)
        return {
            item: i for source in own for i, items in source.items() for item in items if i in self._loads
        }

    def _tasks(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, number) for number in range(self._sizes.get(connector, 0))]

    def _count(self, connector: str) -> dict[str, int]:
        """Return how many tasks of ``connector`` each member runs once everything is placed."""
        counts = self._counts.get(connector)
        if counts is None:
            counts = self._counts[connector] = self._count_anew(connector)
            if self._zones:
                in_zones = self._in_zones[connector] = {}
                for identity, count in counts.items():
                    in_zones[self._zones[identity]] = in_zones.get(self._zones[identity], 0) + count
        return counts

    def _count_anew(self, connector: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        if self._owed or self._sizes.get(connector, 0) < len(self._loads):
            for item in self._tasks(connector):
                identity = self._placed.get(item) or self._owner.get(item)
                if identity is not None:
                    counts[identity] = counts.get(identity, 0) + 1
            return counts
        changes = self._changes.get(connector)
        for identity in self._loads:
            count = self._kept_counts[identity].get(connector, 0)
            count += changes.get(identity, 0) if changes else 0
            if count:
                counts[identity] = count
        return counts

    @cached_property
    def _kept_counts(self) -> dict[str, dict[str, int]]:
        """Per member and connector, the number of tasks that the member runs."""
        return {identity: connector_counts(kept) for identity, kept in self._kept.items()}

    @cached_property
    def _changes(self) -> dict[str, dict[str, int]]:
        """Per connector and member, the number of tasks received minus those released."""
        changes: dict[str, dict[str, int]] = {}
        for step, units in ((1, self._placed), (-1, self._homes)):
            for unit, identity in units.items():
                here = changes.setdefault(unit[0], {})
                here[identity] = here.get(identity, 0) + step
        return changes
