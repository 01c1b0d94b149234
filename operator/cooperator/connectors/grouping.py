"""Groups units into tasks: evenly, and with the fewest changed tasks when units come and go.

Theory: with ``n`` units and ``k`` tasks a balanced grouping has ``n mod k`` large groups of ``n // k + 1``
units and small ones of ``n // k``. An earlier group can stay exactly when all of its units still exist, its
index is below ``k`` and it has one of the two sizes; of each size no more can stay than the grouping needs.
The others can be filled to fit, independently of which of them stay. So keeping as many as there is room
for, size by size, is not a heuristic: no balanced grouping changes fewer tasks.
"""

from collections.abc import Sequence

Groups = list[tuple[str, ...]]


def regroup(earlier: Sequence[Sequence[str]], units: Sequence[str], tasks_max: int) -> Groups:
    """Returns the units of task 0, 1, …, given the ``earlier`` groups.

    Every unit is in exactly one group; sizes differ by at most one; no group is empty; there are at most
    ``tasks_max`` groups; and as many groups as possible stay as they were.

    An added unit goes to the smallest group, ties by index; a removed unit leaves its group. Units that need
    not move stay, in their order. ``units`` are distinct; ``earlier`` may be anything (a unit in two groups
    counts for the first).
    """
    count = min(tasks_max, len(units))
    if count == 0:
        return []
    size, large = divmod(len(units), count)
    groups = _remaining(earlier, units, count)
    kept = _kept(earlier, groups, size, large)
    # The largest of the other groups become the large ones, so that fewer units move.
    others = sorted(set(range(count)) - kept, key=lambda index: (-len(groups[index]), index))
    free = large - sum(len(groups[index]) > size for index in kept)
    for rank, index in enumerate(others):
        del groups[index][size + (rank < free) :]
    placed = {unit for group in groups for unit in group}
    missing = iter([unit for unit in units if unit not in placed])
    for index in sorted(others):
        target = size + (others.index(index) < free)
        groups[index] += [next(missing) for _ in range(target - len(groups[index]))]
    return [tuple(group) for group in groups]


def _remaining(earlier: Sequence[Sequence[str]], units: Sequence[str], count: int) -> list[list[str]]:
    left = set(units)
    groups: list[list[str]] = [[] for _ in range(count)]
    for group, before in zip(groups, earlier, strict=False):
        for unit in before:
            if unit in left:
                left.remove(unit)
                group.append(unit)
    return groups


def _kept(earlier: Sequence[Sequence[str]], groups: list[list[str]], size: int, large: int) -> set[int]:
    """Returns the groups that stay as they were: the last ones, so that the first ones take added units."""
    both = range(min(len(earlier), len(groups)))
    intact = [index for index in both if groups[index] == list(earlier[index])]
    of_large = [index for index in intact if len(groups[index]) == size + 1]
    of_small = [index for index in intact if len(groups[index]) == size]
    small = len(groups) - large
    return set(of_large[-large:] if large else []) | set(of_small[-small:] if small else [])
