"""One seed's history: a safety phase in which faults happen, then a liveness phase that must reach rest."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from cooperator.leader.group_record import OVERHEAD_BYTES
from cooperator.model import PolicyName, StateReplicas
from cooperator.wire import RestartRecord, encode_config
from tests.simulation import fleets
from tests.simulation.cleaner import Cleaner
from tests.simulation.faults import ALL as FAULTS
from tests.simulation.faults import (
    DRAWN_APART,
    ClockJumps,
    Fault,
    LearnersStall,
    MemberIsKilled,
    NodeIsInterrupted,
    OperatorIsKilled,
    OthersLoseBroker,
    PodIsDeleted,
    PodIsDeletedByForce,
    WorkerIsScaled,
)
from tests.simulation.learning import ACCEPTABLE_BYTES
from tests.simulation.patches import simulated
from tests.simulation.promises import ALL as PROMISES
from tests.simulation.promises import Broken, Promise
from tests.simulation.rest import Rest
from tests.simulation.seeds import FOUND, FOUND_WITHOUT_LIMITS
from tests.simulation.simulation import Shape, Simulation
from tests.simulation.spec import Times

WARM_UP_MS = 4_000
SAFETY_MS = 45_000
REST_WITHIN_MS = 90_000
ROLLED_WITHIN_MS = 25_000
"""A roll replaces one member after the other; each may hang in its stop, is killed, and warms up."""
EAGER_TIMES = 2
"""Under Eager each member that comes or goes stops all others, and the end of each lease is waited for."""
AFTERMATH_MS = 11_000
"""The longest time-out of any request: a fault's last consequences appear until then."""
QUIET_MS = 15_000
MOST_STEPS = 200_000
MEMBER_BYTES = 620
"""The bytes of a member, without its tasks, in the record of a group here, as its leader estimates them."""
LONG_NAME = 240


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A fault to come: ``index`` names it in a history, ``seed`` is for its own randomness."""

    index: int
    at_ms: int
    kind: type[Fault]
    seed: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """Parts to omit from a seed's history, for shrinking. ``until_ms`` leaves out later faults of the safety
    phase; None leaves out none."""

    kinds: frozenset[str] = frozenset()
    faults: frozenset[int] = frozenset()
    until_ms: int | None = None


NOTHING = Cuts()


@dataclass
class Outcome:
    seed: int
    simulation: Simulation
    broken: Broken | None = None
    faults: list[Scheduled] = field(default_factory=list)
    rest_after_ms: int = 0
    policy: PolicyName = PolicyName.DEFAULT
    reconciling: float = 0.0


def history(seed: int, has_state: bool = True) -> tuple[Shape, list[Scheduled], int]:
    """The content of a seed: a shape, faults to come, and the seed of everything else."""
    random = Random(seed)
    connectors = tuple((name, random.randint(1, 5)) for name in "ab"[: random.randint(1, 2)])
    shape = Shape(
        replicas=random.randint(3, 5),
        nodes=random.randint(2, 4),
        operators=random.randint(1, 2),
        connectors=connectors,
        restarts_in_place=random.random() < 0.7,
        slow=random.choice([1, 1, 3, 8]),
        hold_ms=random.choice([0, 3_000, 12_000, 12_000, 25_000]),
        fleet=fleets.drawn(random.random()),
        warm_up_ms=random.choice([0, 500, 2_000, 6_000]),
    )
    shape = _limited(seed, shape)
    if has_state:
        shape = _with_state(seed, shape)
    # Swarm testing: a few kinds at a time combine in ways that many would hide.
    possible = [kind for kind in FAULTS if kind.concerns_stock or not shape.fleet.has_stock]
    kinds = random.sample(possible, random.randint(2, 12))
    count = random.randint(3, 16)
    faults = [
        Scheduled(index, at_ms, random.choice(kinds), random.getrandbits(32))
        for index, at_ms in enumerate(_moments(random, count))
    ]
    more = [*_interruptions(seed, shape, count), *_of_learners(seed, shape, count + 1)]
    more += _drawn_apart(seed, shape, count + 1 + len(more))
    more += _of_clocks(seed, shape, count + 1 + len(more))
    more += _of_a_switch(seed, shape, count + 1 + len(more))
    return shape, [*faults, *more], random.getrandbits(64)


def _of_a_switch(seed: int, shape: Shape, index: int) -> list[Scheduled]:
    """In an eighth of all worlds without stock workers. Drawn by itself, like limits."""
    random = Random(f"switch of {seed}")
    if seed in FOUND or random.random() > 0.125 or shape.fleet.has_stock:
        return []
    return [Scheduled(index, random.randint(WARM_UP_MS, SAFETY_MS), OthersLoseBroker, random.getrandbits(32))]


def _interruptions(seed: int, shape: Shape, index: int) -> list[Scheduled]:
    """In a fourth of all worlds a machine ends after a notice. Drawn by itself, like limits."""
    random = Random(f"interruption of {seed}")
    kind = NodeIsInterrupted
    if seed in FOUND or random.random() > 0.25 or (shape.fleet.has_stock and not kind.concerns_stock):
        return []
    return [Scheduled(index, random.randint(WARM_UP_MS, SAFETY_MS), kind, random.getrandbits(32))]


def _drawn_apart(seed: int, shape: Shape, index: int) -> list[Scheduled]:
    """In a fourth of all worlds: faults that came later than ``ALL``. Drawn by itself, like limits."""
    random = Random(f"apart of {seed}")
    kinds = [kind for kind in DRAWN_APART if kind.concerns_stock or not shape.fleet.has_stock]
    if seed in FOUND or random.random() > 0.25:
        return []
    return [
        Scheduled(
            index + n, random.randint(WARM_UP_MS, SAFETY_MS), random.choice(kinds), random.getrandbits(32)
        )
        for n in range(random.randint(1, 4))
    ]


def _of_clocks(seed: int, shape: Shape, index: int) -> list[Scheduled]:
    """In a fourth of all worlds clocks are wrong from the beginning, and leaders and members come and go.
    Drawn by itself, like limits."""
    random = Random(f"clocks of {seed}")
    if seed in FOUND or random.random() > 0.25:
        return []
    possible = (OperatorIsKilled, OperatorIsKilled, PodIsDeletedByForce, WorkerIsScaled)
    kinds = [kind for kind in possible if kind.concerns_stock or not shape.fleet.has_stock]
    found = [(random.randint(0, WARM_UP_MS), ClockJumps) for _ in range(3)]
    found += [(random.randint(WARM_UP_MS, SAFETY_MS), random.choice(kinds)) for _ in range(5)]
    return [Scheduled(index + n, *each, random.getrandbits(32)) for n, each in enumerate(found)]


def _with_state(seed: int, shape: Shape) -> Shape:
    """In a third of the worlds of members of ours tasks have state. Drawn by itself, like limits."""
    random = Random(f"state of {seed}")
    if seed in FOUND or shape.fleet.has_stock or random.random() > 0.33:
        return shape
    state = StateReplicas(
        standbys=random.choice([0, 0, 1, 2]),
        max_warmups=random.choice([1, 2]),
        acceptable_lag_bytes=ACCEPTABLE_BYTES,
        warmup_timeout_ms=12_000,
    )
    return replace(shape, state=state, unlearnable=random.choice([-2, 0]))


def _of_learners(seed: int, shape: Shape, index: int) -> list[Scheduled]:
    """Learners lag, and members come and go for whom something has to be learned."""
    random = Random(f"learners of {seed}")
    if shape.state is None:
        return []
    kinds = [LearnersStall, WorkerIsScaled, PodIsDeleted, MemberIsKilled]
    return [
        Scheduled(
            index + n, random.randint(WARM_UP_MS, SAFETY_MS), random.choice(kinds), random.getrandbits(32)
        )
        for n in range(random.randint(1, 4))
    ]


def _limited(seed: int, shape: Shape) -> Shape:
    """A fourth of all worlds have a limit of the group's record that is around what members and tasks need.

    It is drawn by itself: otherwise the rest of every history would be another one. Names are long there, so
    that tasks, and not members, are what makes the record large.
    """
    random = Random(f"record of {seed}")
    if shape.fleet.has_stock or seed in FOUND_WITHOUT_LIMITS or random.random() > 0.25:
        return shape
    connectors = tuple((name * LONG_NAME, tasks_max) for name, tasks_max in shape.connectors)
    least_bytes = OVERHEAD_BYTES + MEMBER_BYTES * (shape.replicas + 1)
    return replace(shape, connectors=connectors, record_bytes=least_bytes + random.randint(0, 2_000))


def _moments(random: Random, count: int) -> list[int]:
    """When faults happen: some alone, most during the effects of another one."""
    moments: list[int] = []
    while len(moments) < count:
        if moments and random.random() < 0.65:
            moments.append(min(moments[-1] + int(random.expovariate(1 / 900)), SAFETY_MS))
        else:
            moments.append(random.randint(WARM_UP_MS, SAFETY_MS))
    return sorted(moments)


def run(
    seed: int,
    cuts: Cuts = NOTHING,
    promises: Collection[type[Promise]] = PROMISES,
    policy: PolicyName = PolicyName.DEFAULT,
    reconciling: float = 0.0,
) -> Outcome:
    """Play the history of ``seed``, up to the promise that it breaks, or to rest.

    ``policy``: under another one than Default the seed's world has members of ours only. ``reconciling``: as
    in ``Shape``.
    """
    # A group whose tasks learn stays in rounds.
    shape, faults, chance = history(seed, has_state=not reconciling)
    if policy is not PolicyName.DEFAULT:
        # Nothing is held for a member that is away: Eager has no delay.
        shape = replace(shape, policy=policy, fleet=fleets.Agents, hold_ms=0, state=None)
    shape = replace(shape, reconciling=reconciling)
    happening = [
        fault
        for fault in faults
        if fault.kind.__name__ not in cuts.kinds
        and fault.index not in cuts.faults
        and (cuts.until_ms is None or fault.at_ms <= cuts.until_ms)
    ]
    simulation = Simulation(shape, Random(chance), Times(hold_ms=shape.hold_ms))
    Cleaner(simulation, Random(chance + 1))
    outcome = Outcome(seed, simulation, faults=happening, policy=policy, reconciling=reconciling)
    with simulated(simulation):
        try:
            _live(simulation, happening, [promise(simulation) for promise in promises], outcome, cuts)
        except Broken as broken:
            simulation.tell(f"BROKEN {broken}")
            outcome.broken = broken
    return outcome


def _live(
    simulation: Simulation,
    faults: Sequence[Scheduled],
    promises: Sequence[Promise],
    outcome: Outcome,
    cuts: Cuts,
) -> None:
    begin_ms = simulation.now_ms
    simulation.begin()
    for fault in faults:
        simulation.scheduler.at(begin_ms + fault.at_ms, lambda fault=fault: _happen(simulation, fault))  # type: ignore[misc]
    _pass(simulation, begin_ms + min(SAFETY_MS, cuts.until_ms or SAFETY_MS), promises)
    heal(simulation)
    healed_ms = simulation.now_ms
    simulation.tell("(all faults are over)")
    rest = Rest(simulation)
    _pass(simulation, simulation.now_ms + AFTERMATH_MS, promises)
    within_ms = max(REST_WITHIN_MS, 15_000 + ROLLED_WITHIN_MS * simulation.spec.replicas)
    if outcome.policy is PolicyName.EAGER:
        within_ms *= EAGER_TIMES
    while rest.lacks():
        if simulation.now_ms > healed_ms + within_ms:
            raise Broken("Rest", f"not within {within_ms} ms after the last fault: {rest.lacks()}")
        _pass(simulation, simulation.now_ms + 500, promises)
    outcome.rest_after_ms = simulation.now_ms - healed_ms
    simulation.tell("(rest)")
    before = rest.picture()
    _pass(simulation, simulation.now_ms + QUIET_MS, promises)
    after = rest.picture()
    if before != after:
        raise Broken("Rest", f"something moved after rest: {_difference(before, after)}")


def _difference(before: dict[str, object], after: dict[str, object]) -> str:
    return "; ".join(f"{key}: {before[key]} -> {after[key]}" for key in before if before[key] != after[key])


def _happen(simulation: Simulation, fault: Scheduled) -> None:
    line = fault.kind(simulation, Random(fault.seed)).happen()
    if line:
        simulation.tell(f"FAULT {fault.index} {fault.kind.__name__}: {line}")


def _pass(simulation: Simulation, until_ms: int, promises: Sequence[Promise]) -> None:
    scheduler = simulation.scheduler
    while scheduler.step(until_ms):
        for promise in promises:
            promise.check()
        if scheduler.steps > MOST_STEPS:
            raise Broken("Rest", f"{MOST_STEPS} events, and no end")


def heal(simulation: Simulation) -> None:
    """End all faults that still last."""
    for undo in list(simulation.healing):
        undo()
    simulation.healing.clear()
    assert not simulation.network.cuts, simulation.network.cuts
    for node in simulation.cluster.machines:
        simulation.cluster.register(node)
    for member in simulation.members:
        member.runtime.failing = 0
        # Nobody restarts a failed task automatically: its user does.
        for connector in sorted({task.connector for task in member.failed_tasks()}):
            record = encode_config(RestartRecord(connector, include_tasks=True, only_failed=True))
            simulation.topics.append(simulation.topic_names.config, [record], marker=False)
