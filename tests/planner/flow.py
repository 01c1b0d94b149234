"""The cost of an optimal plan, from a library's min-cost flow, independent of the planner's code."""

from collections import Counter
from collections.abc import Iterable, Mapping

import networkx as nx

from cooperator.model import TaskId

MOVE_COST = 10**6


def best_plan(kept: Mapping[str, Iterable[TaskId]], free: Iterable[TaskId]) -> tuple[int, int]:
    """The fewest moves for a balance within 1, and the least Σ n(connector, member)² with that many moves.

    Flow: from each (connector, member) as it is, and from the free tasks of a connector, through
    (connector, member) as it will be, through the member, to the sink. An arc that leaves a member costs a
    move; the n-th task of a connector on a member costs 2n − 1; a member holds ``min`` tasks or one more.
    """
    members = sorted(kept)
    own = Counter((task.connector, member) for member in members for task in kept[member])
    spare = Counter(task.connector for task in free)
    total = own.total() + spare.total()
    smallest, extras = divmod(total, len(members))
    graph = nx.MultiDiGraph()
    graph.add_node("sink", demand=total)
    for connector in sorted({connector for connector, _ in own} | set(spare)):
        size = spare[connector] + sum(own[connector, member] for member in members)
        graph.add_node(("pool", connector), demand=-spare[connector])
        for member in members:
            cell = ("cell", connector, member)
            graph.add_node(cell, demand=-own[connector, member])
            graph.add_edge(cell, ("pool", connector), weight=MOVE_COST, capacity=own[connector, member])
            graph.add_edge(("pool", connector), cell, weight=0, capacity=size)
            for number in range(1, size + 1):
                graph.add_edge(cell, ("member", member), weight=2 * number - 1, capacity=1)
    for member in members:
        graph.add_edge(("member", member), "sink", weight=0, capacity=smallest)
        graph.add_edge(("member", member), "extra", weight=0, capacity=1)
    graph.add_edge("extra", "sink", weight=0, capacity=extras)
    cost, _ = nx.network_simplex(graph)
    return divmod(cost, MOVE_COST)


def fewest_moves_to_even_connectors(kept: Mapping[str, Iterable[TaskId]], free: Iterable[TaskId]) -> int:
    """The fewest moves after which every connector and all loads are within 1.

    Flow: a connector's ceilings to the members that run one more of it than its floor, each of which saves
    a move if the member has that many already, to the seats that are left above all floors.
    """
    members = sorted(kept)
    own = Counter((task.connector, member) for member in members for task in kept[member])
    spare = Counter(task.connector for task in free)
    sizes = {c: spare[c] + sum(own[c, m] for m in members) for c in sorted({c for c, _ in own} | set(spare))}
    smallest, extras = divmod(sum(sizes.values()), len(members))
    floors = {c: size // len(members) for c, size in sizes.items()}
    graph = nx.DiGraph()
    total = 0
    for connector, size in sizes.items():
        ceilings = size % len(members)
        total += ceilings
        graph.add_node(("c", connector), demand=-ceilings)
        for member in members:
            saves = own[connector, member] > floors[connector]
            graph.add_edge(("c", connector), ("m", member), weight=-int(saves), capacity=1)
    for member in members:
        graph.add_edge(("m", member), "sink", weight=0, capacity=smallest - sum(floors.values()))
        graph.add_edge(("m", member), "extra", weight=0, capacity=1)
    graph.add_edge("extra", "sink", weight=0, capacity=extras)
    graph.add_node("sink", demand=total)
    saved, _ = nx.network_simplex(graph)
    stays = sum(min(own[c, m], floors[c]) for c in sizes for m in members) - saved
    return own.total() - stays
