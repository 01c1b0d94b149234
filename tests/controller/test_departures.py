"""Deaths, drains and rolls of pods: what departs, what waits, what moves; measured at the members."""

import time

import pytest

from tests.harness.installation import SIX, Installation, started

pytestmark = pytest.mark.real


def of(running: dict[str, str], member: str) -> set[str]:
    return {task for task, at in running.items() if at == member}


def starts(installation: Installation) -> dict[str, int]:
    """Number of starts of each task, as the members recorded them."""
    count: dict[str, int] = {}
    for run in installation.journal.runs():
        count[run.task] = count.get(run.task, 0) + 1
    return count


def test_a_container_that_dies_and_comes_back_gets_its_own_tasks_again(installation: Installation) -> None:
    before = started(installation)
    count = starts(installation)
    installation.kubelet.crash("lake-1")
    installation.eventually(lambda: all(starts(installation)[t] > count[t] for t in of(before, "lake-1")))
    assert installation.runs(*SIX) == before
    others = set(SIX) - of(before, "lake-1")
    assert {task: starts(installation)[task] for task in others} == {task: count[task] for task in others}
    pod = installation.pods()["lake-1"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


def test_tasks_of_a_pod_that_stays_away_are_held_and_then_move(installation: Installation) -> None:
    before = started(installation, scheduledRebalanceMaxDelayMs=8_000)
    lost = of(before, "lake-1")
    installation.kubelet.restart_s = 60
    began = time.monotonic()
    installation.kubelet.crash("lake-1")
    assert set(installation.held(lost).values()) == {"lake-1"}
    after = installation.runs(*SIX)
    assert time.monotonic() - began >= 8
    assert set(after.values()) == {"lake-0", "lake-2"}
    assert {task: at for task, at in after.items() if task not in lost} == {
        task: at for task, at in before.items() if task not in lost
    }


def test_a_pod_that_is_deleted_hands_over_before_it_ends(installation: Installation) -> None:
    before = started(installation)
    uid = installation.pods()["lake-2"]["metadata"]["uid"]
    installation.delete_pod("lake-2")
    moved = of(before, "lake-2")
    installation.eventually(
        lambda: installation.pods().get("lake-2", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid
    )
    # It comes back under its name, and takes its part again.
    installation.eventually(lambda: "lake-2" in installation.runs(*SIX).values(), 90)
    runs = installation.journal.runs()
    for task in moved:
        ended = next(r for r in runs if r.task == task and r.member == "lake-2")
        assert ended.end_ms is not None, "it was stopped, not cut off"


def test_scaled_down_the_highest_leaves_and_its_tasks_move_first(installation: Installation) -> None:
    before = started(installation)
    count = starts(installation)
    began = time.monotonic()
    installation.worker(replicas=2)
    installation.eventually(lambda: set(installation.pods()) == {"lake-0", "lake-1"}, 90)
    after = installation.runs(*SIX)
    took_ms = (time.monotonic() - began) * 1000
    assert set(after.values()) == {"lake-0", "lake-1"}
    installation.settled()
    last = installation.get("workers", "lake")["status"]["lastRebalance"]
    assert last["assigned"] >= len(of(before, "lake-2"))
    assert 0 < last["durationMs"] <= took_ms, "from the decision to the last start"
    stayed = set(SIX) - of(before, "lake-2")
    assert {task: starts(installation)[task] for task in stayed} == {task: count[task] for task in stayed}


def test_a_roll_replaces_one_pod_after_the_other_and_moves_nothing(installation: Installation) -> None:
    before = started(installation)
    uids = {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()}
    installation.worker(replicas=3, restartNonce="again")
    installation.eventually(
        lambda: (
            len(pods := installation.pods()) == 3
            and not {pod["metadata"]["uid"] for pod in pods.values()} & set(uids.values())
        ),
        180,
    )
    installation.settled()
    assert installation.runs(*SIX) == before, "every task is where it was"
    assert set(starts(installation).values()) == {2}, "and was started once more"


def test_a_pod_deleted_by_force_is_not_believed_to_have_ended(installation: Installation) -> None:
    """Its container runs on, unseen: nothing of it may start elsewhere before its lease is over."""
    before = started(installation, scheduledRebalanceMaxDelayMs=0)
    installation.kubelet.frozen.set()
    installation.delete_pod("lake-1", gracePeriodSeconds=0)
    installation.kubelet.frozen.clear()
    installation.eventually(lambda: installation.pods().get("lake-1", {}).get("metadata", {}).get("uid"))
    installation.runs(*SIX, timeout_s=120)
    assert installation.journal.doubled() == []
    assert before.keys() == set(SIX)


def test_an_operator_that_dies_and_comes_back_touches_no_task(installation: Installation) -> None:
    before = started(installation)
    count = starts(installation)
    pods = {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()}
    installation.operators[0].kill()
    installation.operator()
    installation.worker(replicas=3, scheduledRebalanceMaxDelayMs=61_000)
    installation.eventually(
        lambda: (
            installation.get("workers", "lake")["status"]["observedGeneration"]
            == installation.get("workers", "lake")["metadata"]["generation"]
        ),
        90,
    )
    installation.settled()
    assert installation.runs(*SIX) == before
    assert starts(installation) == count
    assert {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()} == pods


def test_one_of_two_operators_acts_and_the_other_takes_over(installation: Installation) -> None:
    before = started(installation)
    count = starts(installation)
    second = installation.operator()
    installation.operators[0].freeze()
    installation.eventually(lambda: "serves" in second.log.read_text(), 60)
    installation.connector("b", tasksMax=1)
    running = installation.runs(*SIX, "b-0")
    installation.operators[0].thaw()
    # It finds its Lease gone and ends.
    assert installation.operators[0].child.wait(60) == 1
    assert {task: running[task] for task in SIX} == before
    assert {task: n for task, n in starts(installation).items() if task != "b-0"} == count
