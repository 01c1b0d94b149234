"""Same view and memory, same plan: whatever the process, its hash seed, or the order of a set."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import random
from tests.planner.unreliable_group import UnreliableGroup
from cooperator.model import Policy, StateReplicas

rng = random.Random(7)
world = UnreliableGroup(Policy(scheduled_rebalance_max_delay_ms=60_000), a=7, b=3, c=12, d=1)
world.stateful = {"c": StateReplicas(standbys=1, acceptable_lag_bytes=10)}
for step in range(60):
    match rng.randrange(6):
        case 0: world.join(f"w{rng.randrange(6)}", learns=True)
        case 1 if world.processes: world.kill(rng.choice(world.processes), proven=rng.random() < 0.5)
        case 2: world.task_counts[rng.choice("abcde")] = rng.randrange(9)
        case 3 if world.members(): world.stopped(rng.choice(world.members()))
        case 4: world.advance(rng.choice([1000, 20_000, 60_000]))
    for process in world.members():
        world.learn(process, rng.choice([0, 60]))
    plan = world.round()
    print(step, plan.assignments, sorted(plan.held.items()), plan.rejoin_at_ms)
    print(sorted(plan.assigned_why.items()))
    memory = world.memory
    print({i: sorted(given) for i, given in memory.given.items()}, memory.incarnations, memory.former)
    print({key: sorted(tasks) for key, tasks in memory.moving.items()}, memory.returns, memory.joins)
    print(memory.warmups, {i: sorted(tasks) for i, tasks in memory.standbys.items()}, memory.departing)
"""


def played(hash_seed: str) -> str:
    root = Path(__file__).parents[2]
    path = os.pathsep.join((str(root / "operator"), str(root)))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_history_is_the_same_in_every_process() -> None:
    first = played("1")
    assert "TaskId" in first
    assert first == played("2") == played("3")
