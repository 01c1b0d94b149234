"""Spread: every connector and the total are even over the members (skew ≤ 1); few moves come second.

    n(c) tasks of connector c in play, W members:  floor(c), ceilings(c) = divmod(n(c), W)
    every member runs floor(c) or floor(c) + 1 of c, the latter for ``ceilings(c)`` members
    quota(m) = min or min + 1, the larger ones for members with few connector instances
    seats(m) = quota(m) − Σ floor(c): the number of connectors of which m runs one more than their floor

Connectors take seats where they have more than their floor already, which saves a move each; the rest is
completed along augmenting paths, of which there is always one (Gale and Ryser: the seats are as even as
possible). The number of moves is not minimal for this goal; tests compare it with a library's min-cost flow.
"""

from collections import Counter, deque
from collections.abc import Mapping

from cooperator.model import TaskId
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.problem import Placement, PlacementProblem


class Spread:
    """The assignor ``Spread``, which ``spread: Strict`` selects, too. It ignores weights."""

    def assign(self, problem: PlacementProblem) -> Placement:
        """Spread all tasks; instances, of which a connector has one, are placed as by ``Sticky``."""
        if not problem.balance or not problem.sizes:
            return Sticky().assign(problem)
        return _Seating(problem).placement()


class _Seating:
    """One run: ``_seated`` has the members that run one more of a connector than its floor."""

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self._members = sorted(problem.kept)
        self._owners = {item: i for i, items in problem.kept.items() for item in items}
        self._own = {item: i for i in problem.kept for item in problem.owed.get(i, ())} | self._owners
        self._sizes = Counter(item.connector for item in (*self._own, *problem.pool))
        self._cells = Counter((item.connector, identity) for item, identity in self._own.items())
        self._seats = self._free_seats()
        self._seated: dict[str, dict[str, None]] = {}
        self._at: dict[str, dict[str, None]] = {identity: {} for identity in self._members}

    def placement(self) -> Placement:
        missing = {c: size % len(self._members) for c, size in sorted(self._sizes.items())}
        self._seated = {connector: {} for connector in missing}
        for connector in missing:
            floor = self._sizes[connector] // len(self._members)
            saving = [m for m in self._members if self._cells[connector, m] > floor and self._seats[m]]
            saving.sort(key=lambda m: (-self._seats[m], m))
            for identity in saving[: missing[connector]]:
                self._sit(connector, identity)
        for connector, wanted in sorted(missing.items(), key=lambda pair: (-pair[1], pair[0])):
            while len(self._seated[connector]) < wanted:
                self._augment(connector)
        return self._answer()

    def _free_seats(self) -> dict[str, int]:
        problem, total = self._problem, self._sizes.total()
        smallest, extras = divmod(total, len(self._members))
        loads = problem.loads()
        order = sorted(self._members, key=lambda m: (problem.of_other_kind.get(m, 0), -loads[m], m))
        floors = sum(size // len(self._members) for size in self._sizes.values())
        return {m: smallest - floors + (number < extras) for number, m in enumerate(order)}

    def _sit(self, connector: str, identity: str) -> None:
        self._seated[connector][identity] = None
        self._at[identity][connector] = None
        self._seats[identity] -= 1

    def _augment(self, connector: str) -> None:
        """Seat ``connector`` once more; others change their seats for it if necessary."""
        free = [m for m in self._members if self._seats[m] > 0 and m not in self._seated[connector]]
        if free:
            self._sit(connector, max(free, key=lambda m: (self._seats[m], m)))
            return
        came_from: dict[str, tuple[str, str] | None] = {}
        queue = deque[str]()
        for identity in self._members:
            if identity not in self._seated[connector]:
                came_from[identity] = None
                queue.append(identity)
        while queue:
            identity = queue.popleft()
            if self._seats[identity] > 0:
                self._shift(connector, identity, came_from)
                return
            for other in self._at[identity]:
                for place in self._members:
                    if place not in came_from and place not in self._seated[other]:
                        came_from[place] = (identity, other)
                        queue.append(place)
        raise AssertionError(f"no seat for {connector}: quotas and sizes do not fit")

    def _shift(self, connector: str, place: str, came_from: Mapping[str, tuple[str, str] | None]) -> None:
        """Shift everyone one seat further along the path that ends at the free seat ``place``."""
        step = came_from[place]
        while step is not None:
            source, other = step
            del self._seated[other][source], self._at[source][other]
            self._seats[source] += 1
            self._sit(other, place)
            place, step = source, came_from[source]
        self._sit(connector, place)

    def _answer(self) -> Placement:
        waiting: dict[str, list[TaskId]] = {}
        for item in self._problem.pool:
            waiting.setdefault(item.connector, []).append(item)
        room: dict[str, list[str]] = {}
        left = {
            (connector, identity): self._sizes[connector] // len(self._members)
            + (identity in self._seated[connector])
            for connector in self._sizes
            for identity in self._members
        }
        released: dict[str, list[TaskId]] = {}
        # Running items keep their places before owed ones.
        for item in sorted(self._own, key=lambda item: (item not in self._owners, item)):
            identity = self._own[item]
            if left[item.connector, identity]:
                left[item.connector, identity] -= 1
                continue
            waiting.setdefault(item.connector, []).append(item)
            if item in self._owners:
                released.setdefault(identity, []).append(item)
        for (connector, identity), count in left.items():
            room.setdefault(connector, []).extend([identity] * count)
        placed = {
            item: identity
            for connector, items in waiting.items()
            for item, identity in zip(items, room[connector], strict=True)
        }
        return Placement(released, placed)
