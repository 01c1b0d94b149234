"""Uniform follows a layout: an item's place depends on the members and the items only.

Items that run elsewhere are released and moved: the same members and tasks always end in the same layout,
whatever came before, at the price of moves. While nothing may be released (tasks are held for a member, or a
member is expected) the pool is dealt as by ``Sticky``, and the layout is restored later. Weights and
capacities are ignored.
"""

from itertools import cycle

from cooperator.model import TaskId
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.problem import Placement, PlacementProblem


class Uniform:
    """Deals items round-robin: connector by connector, task by task, continuing with the next member.

    Loads, and the tasks of each connector, differ by at most 1.
    """

    def assign(self, problem: PlacementProblem) -> Placement:
        """Restore the layout, if ``balance`` allows it."""
        if not problem.balance:
            return Sticky().assign(problem)
        owners = {item: i for i, items in problem.kept.items() for item in items}
        own = {item: i for i in problem.kept for item in problem.owed.get(i, ())} | owners
        belongs = dict(zip(sorted([*own, *problem.pool]), cycle(sorted(problem.kept)), strict=False))
        placed = {item: member for item, member in belongs.items() if own.get(item) != member}
        released: dict[str, list[TaskId]] = {}
        for item in placed:
            if item in owners:
                released.setdefault(owners[item], []).append(item)
        return Placement(released, placed)
