"""Simulated workers: what a process runs, in the order in which it would report it.

The order is Kafka's: newly assigned items first, then the old ones, and on the wire grouped by connector
(docs/protocol.md, sections 6 and 7); Kafka's leader takes surplus from the front.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from string import ascii_lowercase

from cooperator.model import Memory, TaskId, Warmth
from cooperator.model.java import hash_set_order, spread_hash

_ORDER_BITS = 1023


@dataclass(slots=True)
class Process:
    """One incarnation of a pod. ``member_id`` changes when it joins anew; ``incarnation`` names the process.

    ``identity``: the name of a pod that is not named after its number. ``stopping``: the part of ``running``
    that it was asked to stop before the simulation began, and releases after the first round. ``joined``:
    rank among all joins. ``frozen``: the config offset and the config at which it stopped reading, if it did.
    ``scheduled_ms``: when its own delay timer ends. ``lease_expires_ms``: until when it may run anything
    while it is out of the group. ``memory``: its memory as a leader.
    """

    pod: int
    incarnation: str
    member_id: str = ""
    identity: str = ""
    capacity: float = 1.0
    zone: str = ""
    is_agent: bool = True
    joined: int = -1
    in_group: bool = False
    dead: bool = False
    draining: bool = False
    warmth: Warmth = Warmth.WARM
    running: dict[TaskId, None] = field(default_factory=dict)
    stopping: frozenset[TaskId] = frozenset()
    frozen: tuple[int, Mapping[str, int]] | None = None
    last_completed_generation: int = -1
    scheduled_ms: int | None = None
    lease_expires_ms: int | None = None
    memory: Memory | None = None

    @property
    def name(self) -> str:
        return self.identity or pod_name(self.pod)

    def report(self) -> tuple[TaskId, ...]:
        """Return what it runs, as its leader reads it."""
        return wire_order(self.running)

    def take(self, assigned: Iterable[TaskId], revoked: Iterable[TaskId]) -> None:
        """Merge an assignment: new items first, then the old ones without those revoked."""
        gone = set(revoked)
        old = [item for item in self.running if item not in gone]
        self.running = dict.fromkeys((*wire_order(assigned), *old))


def pod_name(pod: int) -> str:
    return f"w{pod:02d}"


@cache
def member_id(pod: int, count: int) -> str:
    """Return the id of the ``count``-th membership of a pod.

    As in the vectors, ids are chosen so that a Java HashMap iterates over members in order of their pods.
    """
    stem = f"{pod_name(pod)}-{count:02d}"
    suffixes = map("".join, product(ascii_lowercase, repeat=4))
    return next(stem + s for s in suffixes if spread_hash(stem + s) & _ORDER_BITS == pod & _ORDER_BITS)


def wire_order(items: Iterable[TaskId]) -> tuple[TaskId, ...]:
    """Return ``items`` as after a round trip: connectors with an instance first, and tasks by connector."""
    ordered = list(items)
    instances = hash_set_order(item.connector for item in ordered if item.is_instance)
    tasks: dict[str, list[TaskId]] = {connector: [] for connector in instances}
    for item in ordered:
        if not item.is_instance:
            tasks.setdefault(item.connector, []).append(item)
    heads = tuple(TaskId(connector, -1) for connector in instances)
    return heads + tuple(item for group in tasks.values() for item in group)
