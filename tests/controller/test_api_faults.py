"""The way to the API server is bad: every write meets a conflict, watches lag or break off, a frozen operator
wakes up. What is asserted is measured at the members."""

import threading
import time
from collections import Counter

import pytest

from controller_proxy import ApiProxy, every_other
from controller_scene import Scene
from cooperator.controller.names import RESTART

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

FOUR = tuple(f"a-{n}" for n in range(4))


def proxied(scene: Scene, lease_s: int = 15) -> ApiProxy:
    scene.operator(lease_s, proxied=True)
    assert scene.proxy is not None
    return scene.proxy


def started(scene: Scene) -> dict[str, str]:
    scene.worker(replicas=2)
    scene.connector("a", tasksMax=4, config={"units": 4})
    scene.runs(*FOUR)
    scene.settled()
    return scene.runs(*FOUR)


def starts(scene: Scene) -> Counter[str]:
    return Counter(run.task for run in scene.journal.runs())


def since(scene: Scene, earlier: Counter[str]) -> set[int]:
    return set((starts(scene) - earlier).values())


def test_every_write_meets_a_conflict_and_all_is_done_once(scene: Scene) -> None:
    proxy = proxied(scene)
    proxy.refuses = every_other()
    before = started(scene)
    once = starts(scene)

    path = f"/apis/cooperator.dev/v1alpha1/namespaces/{scene.namespace}/connectors/a"
    scene.cluster.api.patch(path, {"metadata": {"annotations": {RESTART: "tasks#1"}}})
    scene.eventually(lambda: all(starts(scene)[task] > once[task] for task in FOUR))
    annotations = scene.eventually(
        lambda: (
            (noted := scene.get("connectors", "a")["metadata"]["annotations"])
            and noted.get("cooperator.dev/restarted", "").endswith("tasks#1")
            and noted
        )
    )
    assert annotations
    scene.settled()
    assert scene.runs(*FOUR) == before
    assert since(scene, once) == {1}, "what was asked for once was done once"

    scene.worker(replicas=2, restartNonce="again")
    uids = {pod["metadata"]["uid"] for pod in scene.pods().values()}
    scene.eventually(
        lambda: len(now := {pod["metadata"]["uid"] for pod in scene.pods().values()}) == 2 and not now & uids,
        180,
    )
    scene.settled()
    assert scene.runs(*FOUR) == before
    assert since(scene, once) == {2}

    scene.delete("connectors", "a")
    scene.eventually(lambda: scene.is_gone("connectors", "a"))
    assert scene.journal.running() == {}
    scene.delete("workers", "lake")
    scene.eventually(lambda: scene.is_gone("workers", "lake"), 120)
    assert scene.pods() == {}


def test_watches_that_lag_show_a_world_that_is_no_more_and_harm_nobody(scene: Scene) -> None:
    proxy = proxied(scene)
    before = started(scene)
    count = starts(scene)
    own = {task for task, at in before.items() if at == "lake-1"}
    proxy.deaf.set()
    # In the operator's eyes it runs on all the time.
    scene.kubelet.crash("lake-1")
    scene.eventually(lambda: all(starts(scene)[task] == count[task] + 1 for task in own), 120)
    assert scene.runs(*FOUR) == before
    others = set(FOUR) - own
    assert {task: starts(scene)[task] for task in others} == {task: count[task] for task in others}
    scene.delete_pod("lake-1", gracePeriodSeconds=0)
    scene.worker(replicas=3)
    scene.eventually(lambda: "lake-1" in scene.pods(), 120, "its own lists show that it is gone")
    proxy.deaf.clear()
    scene.eventually(lambda: set(scene.pods()) == {"lake-0", "lake-1", "lake-2"}, 90)
    scene.eventually(lambda: set(scene.runs(*FOUR).values()) == {"lake-0", "lake-1", "lake-2"}, 90)
    scene.eventually(lambda: scene.condition("workers", "lake", "Settled")["status"] == "True", 90)
    assert set(scene.runs(*FOUR).values()) == {"lake-0", "lake-1", "lake-2"}


def test_watches_that_break_off_again_and_again_lose_nothing(scene: Scene) -> None:
    proxy = proxied(scene)
    before = started(scene)
    over = threading.Event()

    def cut() -> None:
        while not over.wait(1.0):
            proxy.cut()

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    try:
        uids = {pod["metadata"]["uid"] for pod in scene.pods().values()}
        scene.worker(replicas=2, restartNonce="again")
        scene.eventually(
            lambda: (
                len(now := {pod["metadata"]["uid"] for pod in scene.pods().values()}) == 2 and not now & uids
            ),
            180,
        )
        scene.connector("b", tasksMax=1)
        running = scene.runs(*FOUR, "b-0")
        scene.settled()
    finally:
        over.set()
        cutter.join()
    assert {task: running[task] for task in FOUR} == before
    watches = [r for r in proxy.requests if r.method == "GET" and r.path.endswith("/pods")]
    assert len(watches) > 5, "they were begun anew"


def test_an_operator_that_was_frozen_writes_nothing_once_it_has_a_successor(scene: Scene) -> None:
    proxy = proxied(scene, lease_s=3)
    before = started(scene)
    count = starts(scene)
    first = scene.operators[0]
    second = scene.operator()
    first.freeze()
    scene.eventually(lambda: "serves" in second.log.read_text(), 60)
    # There is something to do for it when it wakes up.
    scene.worker(replicas=3)
    scene.connector("b", tasksMax=1)
    scene.runs(*FOUR, "b-0")
    scene.settled()
    woken = time.monotonic()
    first.thaw()
    assert first.child.wait(60) == 1, "it finds its Lease gone and ends"
    assert proxy.writes(since=woken) == []
    running = scene.runs(*FOUR, "b-0")
    stayed = [task for task in FOUR if running[task] == before[task]]
    assert {task: starts(scene)[task] for task in stayed} == {task: count[task] for task in stayed}
