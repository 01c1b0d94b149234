"""Deaths, drains and rolls of pods: what departs, what waits, what moves; measured at the members."""

import time

import pytest

from controller_scene import SIX, Scene, started

pytestmark = pytest.mark.real


def of(running: dict[str, str], member: str) -> set[str]:
    return {task for task, at in running.items() if at == member}


def starts(scene: Scene) -> dict[str, int]:
    """How often each task has been started, by the members' own word."""
    count: dict[str, int] = {}
    for run in scene.journal.runs():
        count[run.task] = count.get(run.task, 0) + 1
    return count


def test_a_container_that_dies_and_comes_back_gets_its_own_tasks_again(scene: Scene) -> None:
    before = started(scene)
    count = starts(scene)
    scene.kubelet.crash("lake-1")
    scene.eventually(lambda: all(starts(scene)[t] > count[t] for t in of(before, "lake-1")))
    assert scene.runs(*SIX) == before
    others = set(SIX) - of(before, "lake-1")
    assert {task: starts(scene)[task] for task in others} == {task: count[task] for task in others}
    pod = scene.pods()["lake-1"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


def test_tasks_of_a_pod_that_stays_away_are_held_and_then_move(scene: Scene) -> None:
    before = started(scene, scheduledRebalanceMaxDelayMs=8_000)
    lost = of(before, "lake-1")
    scene.kubelet.restart_s = 60
    began = time.monotonic()
    scene.kubelet.crash("lake-1")
    assert set(scene.held(lost).values()) == {"lake-1"}
    after = scene.runs(*SIX)
    assert time.monotonic() - began >= 8
    assert set(after.values()) == {"lake-0", "lake-2"}
    assert {task: at for task, at in after.items() if task not in lost} == {
        task: at for task, at in before.items() if task not in lost
    }


def test_a_pod_that_is_deleted_hands_over_before_it_ends(scene: Scene) -> None:
    before = started(scene)
    uid = scene.pods()["lake-2"]["metadata"]["uid"]
    scene.delete_pod("lake-2")
    moved = of(before, "lake-2")
    scene.eventually(lambda: scene.pods().get("lake-2", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
    # It comes back under its name, and takes its part again.
    scene.eventually(lambda: "lake-2" in scene.runs(*SIX).values(), 90)
    runs = scene.journal.runs()
    for task in moved:
        ended = next(r for r in runs if r.task == task and r.member == "lake-2")
        assert ended.end_ms is not None, "it was stopped, not cut off"


def test_scaled_down_the_highest_leaves_and_its_tasks_move_first(scene: Scene) -> None:
    before = started(scene)
    count = starts(scene)
    began = time.monotonic()
    scene.worker(replicas=2)
    scene.eventually(lambda: set(scene.pods()) == {"lake-0", "lake-1"}, 90)
    after = scene.runs(*SIX)
    took_ms = (time.monotonic() - began) * 1000
    assert set(after.values()) == {"lake-0", "lake-1"}
    scene.settled()
    last = scene.get("workers", "lake")["status"]["lastRebalance"]
    assert last["assigned"] >= len(of(before, "lake-2"))
    assert 0 < last["durationMs"] <= took_ms, "from the decision to the last start"
    stayed = set(SIX) - of(before, "lake-2")
    assert {task: starts(scene)[task] for task in stayed} == {task: count[task] for task in stayed}


def test_a_roll_replaces_one_pod_after_the_other_and_moves_nothing(scene: Scene) -> None:
    before = started(scene)
    uids = {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()}
    scene.worker(replicas=3, restartNonce="again")
    scene.eventually(
        lambda: (
            len(pods := scene.pods()) == 3
            and not {pod["metadata"]["uid"] for pod in pods.values()} & set(uids.values())
        ),
        180,
    )
    scene.settled()
    assert scene.runs(*SIX) == before, "every task is where it was"
    assert set(starts(scene).values()) == {2}, "and was started once more"


def test_a_pod_deleted_by_force_is_not_believed_to_have_ended(scene: Scene) -> None:
    """Its container runs on, unseen: nothing of it may start elsewhere before its lease is over."""
    before = started(scene, scheduledRebalanceMaxDelayMs=0)
    scene.kubelet.frozen.set()
    scene.delete_pod("lake-1", gracePeriodSeconds=0)
    scene.kubelet.frozen.clear()
    scene.eventually(lambda: scene.pods().get("lake-1", {}).get("metadata", {}).get("uid"))
    scene.runs(*SIX, timeout_s=120)
    assert scene.journal.doubled() == []
    assert before.keys() == set(SIX)


def test_an_operator_that_dies_and_comes_back_touches_no_task(scene: Scene) -> None:
    before = started(scene)
    count = starts(scene)
    pods = {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()}
    scene.operators[0].kill()
    scene.operator()
    scene.worker(replicas=3, scheduledRebalanceMaxDelayMs=61_000)
    scene.eventually(
        lambda: (
            scene.get("workers", "lake")["status"]["observedGeneration"]
            == scene.get("workers", "lake")["metadata"]["generation"]
        ),
        90,
    )
    scene.settled()
    assert scene.runs(*SIX) == before
    assert starts(scene) == count
    assert {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()} == pods


def test_of_two_operators_one_acts_and_the_other_takes_over(scene: Scene) -> None:
    before = started(scene)
    count = starts(scene)
    second = scene.operator()
    scene.operators[0].freeze()
    scene.eventually(lambda: "serves" in second.log.read_text(), 60)
    scene.connector("b", tasksMax=1)
    running = scene.runs(*SIX, "b-0")
    scene.operators[0].thaw()
    # It finds its Lease gone and ends.
    assert scene.operators[0].child.wait(60) == 1
    assert {task: running[task] for task in SIX} == before
    assert {task: n for task, n in starts(scene).items() if task != "b-0"} == count
