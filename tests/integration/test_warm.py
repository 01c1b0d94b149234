"""Members whose runtime takes long to come up, on a real broker: measured where the tasks run."""

import itertools

import pytest

from journal import Run
from stage import Stage
from support import eventually

pytestmark = pytest.mark.real

WARM_UP_MS = 15_000
"""Longer than a hand-over takes on a machine that is busy."""
TASKS = [f"a-{number}" for number in range(10)]
CONNECTORS = {"a": {"connector.class": "noop", "tasks.max": "10", "units": "10"}}
POLICY = {"scheduled_rebalance_max_delay_ms": 60_000, "lease_ms": 40_000, "join_wait_ms": 2_000}


def moves(stage: Stage) -> list[tuple[Run, Run]]:
    """Of every task that has moved, its life here and its next one there."""
    found = []
    for task in TASKS:
        lives = sorted(
            (run for run in stage.journal.runs() if run.task == task), key=lambda run: run.start_ms
        )
        found += [(here, there) for here, there in itertools.pairwise(lives) if here.member != there.member]
    return found


def check_that_none_was_away_for_a_warm_up(stage: Stage, *newcomers: str) -> None:
    # What is let go of for the first that is warm may go to the second, if that is warm by then.
    first_ms = min(map(stage.warm_ms, newcomers))
    for here, there in moves(stage):
        assert here.end_ms is not None
        assert here.end_ms >= first_ms, f"{here.task} stopped before anybody was warm for it"
        assert there.start_ms >= stage.warm_ms(there.member)
        away_ms = there.start_ms - here.end_ms
        assert away_ms < WARM_UP_MS, f"{here.task} on its way from {here.member} to {there.member}"


def test_a_scale_up_takes_nothing_from_anybody_before_the_newcomers_are_warm(stage: Stage) -> None:
    leader = stage.leader(CONNECTORS, ("w-0", "w-1", "w-2"), policy=POLICY)
    for identity in ("w-0", "w-1", "w-2"):
        stage.member(identity)
    stage.runs(*TASKS)
    starts = stage.journal.starts()
    newcomers = ("w-3", "w-4")
    for identity in newcomers:
        stage.member(identity, warm_up_ms=WARM_UP_MS)
    stage.facts(leader, ("w-0", "w-1", "w-2", *newcomers))

    def phases() -> list[str]:
        return [member["runtime"] for member in leader.status()["members"]]

    eventually(lambda: phases().count("Warming") == 2, 60, "the leader knows that they are warming up")
    assert not leader.status()["settled"]
    assert stage.journal.starts() == starts
    eventually(
        lambda: phases() == ["Warm"] * 5 and leader.status()["settled"], 90, "all are warm, and at rest"
    )
    running = stage.runs(*TASKS)
    assert sorted(list(running.values()).count(identity) for identity in running.values()) == [2] * 10
    assert moves(stage)
    check_that_none_was_away_for_a_warm_up(stage, *newcomers)


def test_who_is_drained_runs_on_until_its_successor_is_warm(stage: Stage) -> None:
    leader = stage.leader(CONNECTORS, ("w-0",), policy=POLICY)
    drained = stage.member("w-0")
    stage.runs(*TASKS)
    stage.member("w-1", warm_up_ms=WARM_UP_MS)
    stage.facts(leader, ("w-0", "w-1"))
    eventually(lambda: len(leader.status()["members"]) == 2, 60, "the successor has joined")
    drained.terminate()
    assert drained.child.wait(90) == 0
    assert set(stage.runs(*TASKS).values()) == {"w-1"}
    assert len(moves(stage)) == 10
    check_that_none_was_away_for_a_warm_up(stage, "w-1")


def test_who_returns_has_its_own_while_it_warms_up(stage: Stage) -> None:
    leader = stage.leader(CONNECTORS, ("w-0", "w-1"), policy=POLICY)
    for identity in ("w-0", "w-1"):
        stage.member(identity)
    before = stage.runs(*TASKS)
    killed = stage.members[1]
    killed.kill()
    stage.facts(leader, ("w-0", "w-1"))
    stage.member("w-1", warm_up_ms=WARM_UP_MS)

    def given() -> bool:
        members = {member["identity"]: member for member in leader.status()["members"]}
        back = members.get("w-1", {"incarnation": "", "owned": [], "runtime": ""})
        again = back["incarnation"] not in ("", killed.incarnation)
        return again and back["runtime"] == "Warming" and len(back["owned"]) >= 5

    eventually(given, 60, "its own tasks are its own at once")
    assert stage.runs(*TASKS, timeout_s=90) == before
    assert not moves(stage)
