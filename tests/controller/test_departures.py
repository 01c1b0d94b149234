"""Deaths, drains and rolls of pods: what departs, what waits, what moves; measured at the members."""

import time

import pytest

from tests.harness.installation import SIX, Installation

pytestmark = pytest.mark.real


MEMBERS = {"lake-0", "lake-1", "lake-2"}


@pytest.fixture(scope="module")
def installation(shared: Installation) -> Installation:
    """Three members, which run six tasks; all tests begin with these."""
    shared.operator()
    return shared


def started(installation: Installation, **spec: int) -> dict[str, str]:
    """Wait until all is as it was in the beginning, and calm; returns the members of the tasks."""
    installation.kubelet.restart_s = 0.2
    installation.worker(replicas=3, **spec)
    installation.connector("a", tasksMax=6)
    installation.eventually(lambda: set(installation.runs(*SIX).values()) == MEMBERS, 90)
    worker = installation.get("workers", "lake")
    installation.eventually(lambda: seen(installation) >= worker["metadata"]["generation"])
    installation.settled()
    return installation.runs(*SIX)


def seen(installation: Installation) -> int:
    """The generation of the Worker that the operator has seen."""
    found: int = installation.get("workers", "lake")["status"].get("observedGeneration", 0)
    return found


def restarts_of(installation: Installation, pod: str) -> int:
    count: int = installation.pods()[pod]["status"]["containerStatuses"][0]["restartCount"]
    return count


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
    count, restarts = starts(installation), restarts_of(installation, "lake-1")
    installation.kubelet.crash("lake-1")
    installation.eventually(lambda: all(starts(installation)[t] > count[t] for t in of(before, "lake-1")))
    assert installation.runs(*SIX) == before
    others = set(SIX) - of(before, "lake-1")
    assert {task: starts(installation)[task] for task in others} == {task: count[task] for task in others}
    assert restarts_of(installation, "lake-1") == restarts + 1


def test_tasks_of_a_pod_that_stays_away_are_held_and_then_move(installation: Installation) -> None:
    before = started(installation, scheduledRebalanceMaxDelayMs=8_000)
    # Tasks that a second death hits so soon would be suspected of it.
    lost = of(before, "lake-0")
    installation.kubelet.restart_s = 60
    began = time.monotonic()
    installation.kubelet.crash("lake-0")
    assert set(installation.held(lost).values()) == {"lake-0"}
    after = installation.runs(*SIX)
    assert time.monotonic() - began >= 8
    assert set(after.values()) == {"lake-1", "lake-2"}
    assert {task: at for task, at in after.items() if task not in lost} == {
        task: at for task, at in before.items() if task not in lost
    }


def test_a_pod_that_is_deleted_hands_over_before_it_ends(installation: Installation) -> None:
    before = started(installation)
    uid = installation.pods()["lake-2"]["metadata"]["uid"]
    moved, earlier = of(before, "lake-2"), len(installation.journal.runs())
    installation.delete_pod("lake-2")
    installation.eventually(
        lambda: installation.pods().get("lake-2", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid
    )
    # It comes back under its name, and takes its part again.
    installation.eventually(lambda: "lake-2" in installation.runs(*SIX).values(), 90)
    for task in moved:
        last = [run for run in installation.journal.runs()[:earlier] if run.task == task][-1]
        assert last.member == "lake-2"
        assert last.end_ms is not None, "it was stopped, not cut off"


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
    installation.operators[-1].kill()
    installation.operator()
    installation.worker(replicas=3, scheduledRebalanceMaxDelayMs=61_000)
    generation = installation.get("workers", "lake")["metadata"]["generation"]
    installation.eventually(lambda: seen(installation) == generation, 90)
    installation.settled()
    assert installation.runs(*SIX) == before
    assert starts(installation) == count
    assert {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()} == pods


def test_one_of_two_operators_acts_and_the_other_takes_over(installation: Installation) -> None:
    before = started(installation)
    count = starts(installation)
    first = installation.operators[-1]
    second = installation.operator()
    first.freeze()
    installation.eventually(lambda: "serves" in second.log.read_text(), 60)
    installation.connector("b", tasksMax=1)
    running = installation.runs(*SIX, "b-0")
    first.thaw()
    # It finds its Lease gone and ends.
    assert first.child.wait(60) == 1
    assert {task: running[task] for task in SIX} == before
    assert {task: n for task, n in starts(installation).items() if task != "b-0"} == count
    installation.delete("connectors", "b")
    installation.eventually(lambda: installation.is_gone("connectors", "b"))


def test_a_roll_replaces_one_pod_after_the_other_and_moves_nothing(installation: Installation) -> None:
    before, count = started(installation), starts(installation)
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
    again = {task: starts(installation)[task] - count[task] for task in SIX}
    assert set(again.values()) == {1}, "and was started once more"
