"""The three figures of the article on incremental cooperative rebalancing, on a real broker.

``Kip415`` behaves as described there, ``Default`` better; measured where the tasks run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually

pytestmark = pytest.mark.real

HOLD_MS = 15_000
CONNECTORS = {
    "a": {"connector.class": "noop", "tasks.max": "2", "units": "2"},
    "b": {"connector.class": "noop", "tasks.max": "1", "units": "1"},
}
ALL = ("a-0", "a-1", "b-0")
WORKERS = ("w-1", "w-2", "w-3")
# The planner's tests compare Kip415 with Kafka's own leader round by round; members behave the same under
# both.
# Every run has the faults under Default, and each decision of Kip415 in memory.
LIKE_KAFKA = pytest.mark.long("tests/planner/test_kip415_vectors.py::test_one_decision_of_kafka_s_leader")
POLICIES = [pytest.param("Kip415", marks=LIKE_KAFKA), "Default"]


def policy(name: str) -> dict[str, object]:
    return {
        "name": name,
        "scheduled_rebalance_max_delay_ms": HOLD_MS,
        "lease_ms": 35_000,
        "join_wait_ms": 1_000,
    }


def settled(leader: LeaderService, members: int) -> Callable[[], bool]:
    def now() -> bool:
        status = leader.status()
        return bool(status["settled"]) and len(status["members"]) == members

    return now


@dataclass
class Figures:
    """A group that begins with two members, and goes from one figure to the next."""

    name: str
    group: MemberGroup
    leader: LeaderService

    def at_rest(self, *workers: str) -> dict[str, str]:
        """Where the tasks run, once these are the members and nothing moves."""
        self.group.facts(self.leader, workers)
        eventually(settled(self.leader, len(workers)), 60, "the group is at rest")
        running = self.group.runs(*ALL)
        assert set(running.values()) == set(workers)
        return running

    def member(self, identity: str) -> MemberProcess:
        return next(each for each in reversed(self.group.members) if each.identity == identity)


@pytest.fixture(scope="module", params=POLICIES)
def figures(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Figures]:
    directory = tmp_path_factory.mktemp("figures")
    group = MemberGroup(broker.bootstrap_servers, directory, f"figures-{request.param.lower()}")
    leader = group.leader(CONNECTORS, WORKERS[:2], policy=policy(request.param))
    for worker in WORKERS[:2]:
        group.member(worker)
    yield Figures(request.param, group, leader)
    group.close()


def test_figure_1_a_new_worker_gets_one_task_and_the_others_run_on(figures: Figures) -> None:
    group = figures.group
    before, starts = figures.at_rest("w-1", "w-2"), group.journal.starts()
    group.member("w-3")
    group.facts(figures.leader, WORKERS)
    eventually(lambda: len(group.journal.running_at("w-3")) == 1, 30)
    after = group.runs(*ALL)
    moved = [task for task in ALL if before[task] != after[task]]
    assert len(moved) == 1
    assert group.journal.starts() == starts + 1
    assert sorted(after.values()) == ["w-1", "w-2", "w-3"]


def test_figure_2_a_worker_bounces_and_has_its_tasks_again(figures: Figures) -> None:
    group, leader = figures.group, figures.leader
    before, starts = figures.at_rest(*WORKERS), group.journal.starts()
    member = figures.member("w-2")
    lost = group.journal.running_at("w-2")
    member.kill()
    killed_ms = group.journal.ended[member.incarnation]
    group.facts(leader, WORKERS)
    eventually(lambda: len(leader.status()["members"]) == 2, 20, "the dead member is out of the group")
    assert not lost & set(group.journal.running())
    group.member("w-2")
    assert group.runs(*ALL, timeout_s=HOLD_MS / 1000 + 20) == before
    assert group.journal.starts() == starts + len(lost)
    back_ms = min(r.start_ms for r in group.journal.runs() if r.task in lost and r.start_ms > killed_ms)
    returned_early = back_ms - killed_ms < HOLD_MS
    assert returned_early == (figures.name == "Default")


def test_figure_3_a_worker_leaves_for_good_and_its_tasks_move_when_the_delay_is_over(
    figures: Figures,
) -> None:
    group = figures.group
    before, starts = figures.at_rest(*WORKERS), group.journal.starts()
    member = figures.member("w-2")
    lost = group.journal.running_at("w-2")
    member.kill()
    killed_ms = group.journal.ended[member.incarnation]
    group.facts(figures.leader, WORKERS)
    after = group.runs(*ALL, timeout_s=HOLD_MS / 1000 + 20)
    assert {task for task in ALL if after[task] != before[task]} == lost
    assert set(after.values()) == {"w-1", "w-3"}
    moved_ms = min(r.start_ms for r in group.journal.runs() if r.task in lost and r.start_ms > killed_ms)
    assert moved_ms - killed_ms >= HOLD_MS - 1_000
    assert group.journal.starts() == starts + len(lost)


def test_unlike_figure_3_an_announced_departure_moves_tasks_first(figures: Figures) -> None:
    group = figures.group
    figures.at_rest("w-1", "w-3")
    starts = group.journal.starts()
    member = figures.member("w-3")
    moving = group.journal.running_at("w-3")
    member.terminate()
    group.facts(figures.leader, ("w-1",), leaving=frozenset({"w-3"}))
    assert member.child.wait(30) == 0
    assert set(group.runs(*ALL, timeout_s=15).values()) == {"w-1"}
    runs = [run for run in group.journal.runs() if run.task in moving]
    gap_ms = max(r.start_ms for r in runs) - max(r.end_ms for r in runs if r.end_ms is not None)
    assert gap_ms < HOLD_MS / 2
    assert group.journal.starts() == starts + len(moving)
