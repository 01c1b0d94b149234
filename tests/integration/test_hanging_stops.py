"""A task that hangs in its stop does not block its move: its member is ended, and the task runs elsewhere."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cooperator.leader.service import LeaderService
from cooperator.model import Desired, DesiredConnector
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

TIMEOUT_MS = 6_000
RUNS_ELSEWHERE_WITHIN_MS = TIMEOUT_MS + 4_000
CALM = {"connector.class": "noop", "tasks.max": "2", "units": "2"}
BLOCKS = {**CALM, "stop.delay.ms": "3600000"}
TASKS = ("bad-0", "bad-1", "calm-0", "calm-1")
EVERYTHING = pytest.mark.long(
    "tests/integration/test_hanging_stops.py::test_it_runs_elsewhere_by_the_deadline_and_others_do_not_stop"
)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("run", [0, *(pytest.param(n, marks=EVERYTHING) for n in range(1, 20))])
def test_it_runs_elsewhere_by_the_deadline_and_others_do_not_stop(group: MemberGroup, run: int) -> None:
    leader = group.leader({"calm": CALM}, ("w-0", "w-1"), policy={"join_wait_ms": 90_000})
    members = {
        identity: group.member(identity, revocation_timeout_ms=str(TIMEOUT_MS)) for identity in ("w-0", "w-1")
    }
    victim, other = ("w-0", "w-1") if run % 2 else ("w-1", "w-0")
    eventually(lambda: len(set(group.journal.running().values())) == 2, 90, "both have tasks")
    eventually(lambda: leader.status()["settled"], 60)
    # No task moves for balance until the test allows it.
    journal = {"journal": str(group.journal.path)}
    leader.set_desired(
        Desired(
            2, {"bad": DesiredConnector({**BLOCKS, **journal}), "calm": DesiredConnector({**CALM, **journal})}
        )
    )
    before = group.runs(*TASKS)
    eventually(lambda: leader.status()["settled"], 30)
    stays = [task for task, member in before.items() if member == other]
    moves = [task for task, member in before.items() if member == victim and task.startswith("bad")]
    assert moves, before
    starts = group.journal.starts(*stays)

    with ThreadPoolExecutor(1) as host:
        # Act as the host: supervise the processes, and report the end of one.
        host.submit(_report_the_end, group, leader, members[victim], other)
        group.facts(leader, (other,), leaving=frozenset({victim}))
        eventually(lambda: all((victim, task) in group.stops() for task in moves), 30, "they are revoked")
        since_ms = time.monotonic() * 1000
        named = eventually(lambda: _hung(leader), TIMEOUT_MS / 1000, "the leader names it")
        assert victim in named, named
        assert any(f"{task} (unit unit-" in named for task in moves), named
        limit_s = (RUNS_ELSEWHERE_WITHIN_MS - (time.monotonic() * 1000 - since_ms)) / 1000
        running = eventually(lambda: _all_at(group, other, moves), limit_s, f"{moves} run at {other}")
    assert running
    assert group.journal.starts(*stays) == starts, "no task of the other member was stopped"
    assert members[victim].child.returncode != 0
    assert (victim, members[victim].incarnation) in group.ended, "nothing of it is left"
    eventually(lambda: not _hung(leader), 30, "the condition is over")


def _report_the_end(group: MemberGroup, leader: LeaderService, member: Any, other: str) -> None:
    member.wait_ended()
    group.facts(leader, (other,), gone=frozenset({member.identity}))


def _hung(leader: LeaderService) -> str:
    found = [each for each in leader.status()["conditions"] if each["type"] == "Hung"]
    return str(found[0]["message"]) if found and found[0]["status"] == "True" else ""


def _all_at(group: MemberGroup, member: str, tasks: list[str]) -> bool:
    running = group.journal.running()
    return all(running.get(task) == member for task in tasks)
