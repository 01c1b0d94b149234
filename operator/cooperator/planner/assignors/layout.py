"""Uniform and Range follow a layout: an item's place depends on the members and the items only.

Items that run elsewhere are released and moved: the same members and tasks always end in the same layout,
whatever came before, at the price of moves. While nothing may be released (tasks are held for a member, or a
member is expected) the pool is dealt as by ``Sticky``, and the layout is restored later. Weights and
capacities are ignored.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import cycle, groupby
from operator import itemgetter

from cooperator.model import TaskId
from cooperator.planner.assignors.sticky import Sticky
from cooperator.planner.problem import Placement, PlacementProblem


class LayoutAssignor(ABC):
    """The common part of Uniform and Range."""

    @abstractmethod
    def layout(self, members: Sequence[str], items: Sequence[TaskId]) -> dict[TaskId, str]:
        """Return the member to which each of ``items`` belongs; both arguments are sorted."""

    def assign(self, problem: PlacementProblem) -> Placement:
        """Restore the layout, if ``balance`` allows it."""
        if not problem.balance:
            return Sticky().assign(problem)
        owners = {item: i for i, items in problem.kept.items() for item in items}
        own = {item: i for i in problem.kept for item in problem.owed.get(i, ())} | owners
        belongs = self.layout(sorted(problem.kept), sorted([*own, *problem.pool]))
        placed = {item: member for item, member in belongs.items() if own.get(item) != member}
        released: dict[str, list[TaskId]] = {}
        for item in placed:
            if item in owners:
                released.setdefault(owners[item], []).append(item)
        return Placement(released, placed)


class Uniform(LayoutAssignor):
    """Deals items round-robin: connector by connector, task by task, continuing with the next member.

    Loads, and the tasks of each connector, differ by at most 1.
    """

    def layout(self, members: Sequence[str], items: Sequence[TaskId]) -> dict[TaskId, str]:
        """Return the member to which each of ``items`` belongs."""
        return dict(zip(items, cycle(members), strict=False))


class Range(LayoutAssignor):
    """Gives each member one range of a connector's task numbers; the longer ranges rotate among the members.

    Loads, and the tasks of each connector, differ by at most 1.
    """

    def layout(self, members: Sequence[str], items: Sequence[TaskId]) -> dict[TaskId, str]:
        """Return the member to which each of ``items`` belongs."""
        placed: dict[TaskId, str] = {}
        turn = 0
        for _, group in groupby(items, itemgetter(0)):
            tasks = list(group)
            length, longer = divmod(len(tasks), len(members))
            start = 0
            for number, member in enumerate(members):
                end = start + length + ((number - turn) % len(members) < longer)
                placed.update(dict.fromkeys(tasks[start:end], member))
                start = end
            turn = (turn + longer) % len(members)
        return placed
