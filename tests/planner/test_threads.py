"""A process leads many groups, each in a thread of its own: planning one group does not affect another."""

import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cooperator.model import Memory, Policy
from cooperator.planner import Plan, View, Workspace, plan
from cooperator.wire import AssignmentEncoder, ExtendedAssignment, Protocol, decode_assignment
from tests.planner.unreliable_group import UnreliableGroup

GROUPS, THREADS, ROUNDS, TIMES = 20, 8, 30, 10


@pytest.fixture(autouse=True)
def threads_that_take_turns_often() -> Iterator[None]:
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)


def test_groups_that_are_planned_at_once_are_planned_as_each_alone() -> None:
    histories = [history(number) for number in range(GROUPS)]
    alone = [[plan(view, memory) for view, memory in rounds] for rounds in histories]
    moving = [rounds for rounds in alone if any(decided.revoked_why for decided, _ in rounds)]
    assert len(moving) > GROUPS / 2

    def lead(number: int) -> None:
        """Plan every round of one group, again and again, with the workspace of its leader."""
        workspace = Workspace()
        together.wait(60)
        for _ in range(TIMES):
            for (view, memory), (decided, after) in zip(histories[number], alone[number], strict=True):
                assert plan(view, memory, workspace) == (decided, after)
                assert sent(decided) == assignments[number][view.generation]

    assignments = [{after.generation: sent(decided) for decided, after in rounds} for rounds in alone]
    for first in range(0, GROUPS, THREADS):
        numbers = range(first, min(first + THREADS, GROUPS))
        together = threading.Barrier(len(numbers))
        with ThreadPoolExecutor(len(numbers)) as threads:
            list(threads.map(lead, numbers))


def history(number: int) -> list[tuple[View, Memory]]:
    """The views and memories of one group's leader, round by round."""
    rng = random.Random(number)
    connectors = [f"of-{number}-{n}" for n in range(4)]
    policy = Policy(scheduled_rebalance_max_delay_ms=rng.choice([0, 60_000]))
    group = UnreliableGroup(policy, **dict.fromkeys(connectors, 5))
    rounds = []
    for _ in range(ROUNDS):
        match rng.randrange(5):
            case 0 | 1:
                group.join(f"w{rng.randrange(8)}")
            case 2 if group.processes:
                group.kill(rng.choice(group.processes), proven=rng.random() < 0.5)
            case 3 if group.members():
                group.stopped(rng.choice(group.members()))
            case 4:
                group.advance(rng.choice([1000, 60_000]))
        group.task_counts[rng.choice(connectors)] = rng.randrange(9)
        rounds.append((group.view(), group.memory))
        group.round()
    return rounds


def sent(decided: Plan) -> dict[str, bytes]:
    """The assignments of a plan in bytes, which say what the plan says."""
    encoder = AssignmentEncoder(ExtendedAssignment(0, "leader", "http://leader/", 1), Protocol.SESSIONED)
    data = {}
    for member_id, assignment in decided.assignments.items():
        data[member_id] = encoder.encode(assignment.assigned, assignment.revoked)
        read = decode_assignment(data[member_id])
        assert sorted(read.assigned) == sorted(assignment.assigned)
        assert sorted(read.revoked) == sorted(assignment.revoked)
    return data
