"""Members whose runtime starts slowly, on a real broker; measured where the tasks run."""

import itertools

import pytest

from tests.harness.journal import Run
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

TASKS = [f"a-{number}" for number in range(10)]
CONNECTORS = {"a": {"connector.class": "noop", "tasks.max": "10", "units": "10"}}
POLICY = {"scheduled_rebalance_max_delay_ms": 60_000, "lease_ms": 40_000, "join_wait_ms": 2_000}


def moves(group: MemberGroup) -> list[tuple[Run, Run]]:
    """The pairs of a moved task's incarnations: the old one and its successor elsewhere."""
    found = []
    for task in TASKS:
        incarnations = sorted(
            (run for run in group.journal.counted() if run.task == task), key=lambda run: run.start_ms
        )
        found += [
            (here, there) for here, there in itertools.pairwise(incarnations) if here.member != there.member
        ]
    return found


def check_that_no_task_waited_for_a_warm_up(group: MemberGroup, *newcomers: str) -> None:
    # A task released for the first warm member may go to the second one, if that is warm by then.
    first_ms = min(map(group.warm_ms, newcomers))
    for here, there in moves(group):
        assert here.end_ms is not None
        assert here.end_ms >= first_ms, f"{here.task} stopped before any new member was warm"
        assert there.start_ms >= group.warm_ms(there.member)


def test_a_scale_up_revokes_nothing_before_the_new_members_are_warm(group: MemberGroup) -> None:
    leader = group.leader(CONNECTORS, ("w-0", "w-1", "w-2"), policy=POLICY)
    for identity in ("w-0", "w-1", "w-2"):
        group.member(identity)
    eventually(lambda: len(set(group.journal.running().values())) == 3, 60, "each has tasks")
    eventually(lambda: leader.status()["settled"], 60)
    group.runs(*TASKS)
    group.journal.at_rest()
    starts = group.journal.starts()
    newcomers = ("w-3", "w-4")
    for identity in newcomers:
        group.member(identity, cold=True)
    group.facts(leader, ("w-0", "w-1", "w-2", *newcomers))

    def phases() -> list[str]:
        return [member["runtime"] for member in leader.status()["members"]]

    eventually(lambda: phases().count("Warming") == 2, 60, "the leader knows that they are warming up")
    assert not leader.status()["settled"]
    assert group.journal.starts() == starts
    for identity in newcomers:
        group.warm_up(identity)
    eventually(
        lambda: phases() == ["Warm"] * 5 and leader.status()["settled"], 90, "all are warm, and at rest"
    )
    running = group.runs(*TASKS)
    assert sorted(list(running.values()).count(identity) for identity in running.values()) == [2] * 10
    assert moves(group)
    check_that_no_task_waited_for_a_warm_up(group, *newcomers)


def test_a_drained_member_runs_on_until_its_successor_is_warm(group: MemberGroup) -> None:
    leader = group.leader(CONNECTORS, ("w-0",), policy=POLICY)
    drained = group.member("w-0")
    group.runs(*TASKS)
    group.member("w-1", cold=True)
    group.facts(leader, ("w-0", "w-1"))
    eventually(lambda: len(leader.status()["members"]) == 2, 60, "the successor has joined")
    drained.terminate()

    def draining() -> list[str]:
        return [member["identity"] for member in leader.status()["members"] if member["draining"]]

    eventually(lambda: draining() == ["w-0"], 60, "the leader knows that it departs")
    assert set(group.runs(*TASKS).values()) == {"w-0"}
    group.warm_up("w-1")
    assert drained.child.wait(90) == 0
    assert set(group.runs(*TASKS).values()) == {"w-1"}
    assert len(moves(group)) == 10
    check_that_no_task_waited_for_a_warm_up(group, "w-1")


def test_a_returning_member_has_its_own_tasks_while_it_warms_up(group: MemberGroup) -> None:
    leader = group.leader(CONNECTORS, ("w-0", "w-1"), policy=POLICY)
    for identity in ("w-0", "w-1"):
        group.member(identity)
    before = group.runs(*TASKS)
    killed = group.members[1]
    killed.kill()
    group.facts(leader, ("w-0", "w-1"))
    group.member("w-1", cold=True)

    def given() -> bool:
        members = {member["identity"]: member for member in leader.status()["members"]}
        back = members.get("w-1", {"incarnation": "", "owned": [], "runtime": ""})
        again = back["incarnation"] not in ("", killed.incarnation)
        return again and back["runtime"] == "Warming" and len(back["owned"]) >= 5

    eventually(given, 60, "its own tasks are its own at once")
    group.warm_up("w-1")
    assert group.runs(*TASKS, timeout_s=90) == before
    assert not moves(group)
