"""The way to the API server is bad: every write meets a conflict, watches lag or break off, a frozen operator
wakes up. Assertions are about facts that the members measured."""

import threading
import time
from collections import Counter

import pytest

from cooperator.controller.names import RESTART
from tests.harness.api_proxy import ApiProxy, every_other
from tests.harness.installation import Installation

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

FOUR = tuple(f"a-{n}" for n in range(4))


def proxied(installation: Installation, lease_s: int = 15) -> ApiProxy:
    installation.operator(lease_s, proxied=True)
    assert installation.proxy is not None
    return installation.proxy


def started(installation: Installation) -> dict[str, str]:
    installation.worker(replicas=2)
    installation.connector("a", tasksMax=4, config={"units": 4})
    installation.runs(*FOUR)
    installation.settled()
    return installation.runs(*FOUR)


def starts(installation: Installation) -> Counter[str]:
    return Counter(run.task for run in installation.journal.runs())


def since(installation: Installation, earlier: Counter[str]) -> set[int]:
    return set((starts(installation) - earlier).values())


def test_every_write_meets_a_conflict_and_all_is_done_once(installation: Installation) -> None:
    proxy = proxied(installation)
    proxy.refuses = every_other()
    before = started(installation)
    once = starts(installation)

    path = f"/apis/cooperator.dev/v1alpha1/namespaces/{installation.namespace}/connectors/a"
    installation.cluster.api.patch(path, {"metadata": {"annotations": {RESTART: "tasks#1"}}})
    installation.eventually(lambda: all(starts(installation)[task] > once[task] for task in FOUR))
    annotations = installation.eventually(
        lambda: (
            (noted := installation.get("connectors", "a")["metadata"]["annotations"])
            and noted.get("cooperator.dev/restarted", "").endswith("tasks#1")
            and noted
        )
    )
    assert annotations
    installation.settled()
    assert installation.runs(*FOUR) == before
    assert since(installation, once) == {1}, "each request was carried out once"

    installation.worker(replicas=2, restartNonce="again")
    uids = {pod["metadata"]["uid"] for pod in installation.pods().values()}
    installation.eventually(
        lambda: (
            len(now := {pod["metadata"]["uid"] for pod in installation.pods().values()}) == 2
            and not now & uids
        ),
        180,
    )
    installation.settled()
    assert installation.runs(*FOUR) == before
    assert since(installation, once) == {2}

    installation.delete("connectors", "a")
    installation.eventually(lambda: installation.is_gone("connectors", "a"))
    assert installation.journal.running() == {}
    installation.delete("workers", "lake")
    installation.eventually(lambda: installation.is_gone("workers", "lake"), 120)
    assert installation.pods() == {}


@pytest.mark.long("tests/simulation/test_seeds.py::test_every_promise_holds_in_every_history")
def test_watches_that_lag_show_a_world_that_is_no_more_and_harm_nobody(installation: Installation) -> None:
    proxy = proxied(installation)
    before = started(installation)
    count = starts(installation)
    own = {task for task, at in before.items() if at == "lake-1"}
    proxy.deaf.set()
    # In the operator's eyes it runs on all the time.
    installation.kubelet.crash("lake-1")
    installation.eventually(lambda: all(starts(installation)[task] == count[task] + 1 for task in own), 120)
    assert installation.runs(*FOUR) == before
    others = set(FOUR) - own
    assert {task: starts(installation)[task] for task in others} == {task: count[task] for task in others}
    installation.delete_pod("lake-1", gracePeriodSeconds=0)
    installation.worker(replicas=3)
    installation.eventually(
        lambda: "lake-1" in installation.pods(), 120, "its own lists show that it is gone"
    )
    proxy.deaf.clear()
    installation.eventually(lambda: set(installation.pods()) == {"lake-0", "lake-1", "lake-2"}, 90)
    installation.eventually(
        lambda: set(installation.runs(*FOUR).values()) == {"lake-0", "lake-1", "lake-2"}, 90
    )
    installation.eventually(
        lambda: installation.condition("workers", "lake", "Settled")["status"] == "True", 90
    )
    assert set(installation.runs(*FOUR).values()) == {"lake-0", "lake-1", "lake-2"}


def test_watches_that_break_off_again_and_again_lose_nothing(installation: Installation) -> None:
    proxy = proxied(installation)
    before = started(installation)
    over = threading.Event()

    def cut() -> None:
        while not over.wait(1.0):
            proxy.cut()

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    try:
        uids = {pod["metadata"]["uid"] for pod in installation.pods().values()}
        installation.worker(replicas=2, restartNonce="again")
        installation.eventually(
            lambda: (
                len(now := {pod["metadata"]["uid"] for pod in installation.pods().values()}) == 2
                and not now & uids
            ),
            180,
        )
        installation.connector("b", tasksMax=1)
        running = installation.runs(*FOUR, "b-0")
        installation.settled()
    finally:
        over.set()
        cutter.join()
    assert {task: running[task] for task in FOUR} == before
    watches = [r for r in proxy.requests if r.method == "GET" and r.path.endswith("/pods")]
    assert len(watches) > 5, "they were begun anew"


def test_an_operator_that_was_frozen_writes_nothing_once_it_has_a_successor(
    installation: Installation,
) -> None:
    proxy = proxied(installation, lease_s=3)
    before = started(installation)
    count = starts(installation)
    first = installation.operators[0]
    second = installation.operator()
    first.freeze()
    installation.eventually(lambda: "serves" in second.log.read_text(), 60)
    # There is something to do for it when it wakes up.
    installation.worker(replicas=3)
    installation.connector("b", tasksMax=1)
    installation.runs(*FOUR, "b-0")
    installation.settled()
    woken = time.monotonic()
    first.thaw()
    assert first.child.wait(60) == 1, "it finds its Lease gone and ends"
    assert proxy.writes(since=woken) == []
    running = installation.runs(*FOUR, "b-0")
    stayed = [task for task in FOUR if running[task] == before[task]]
    assert {task: starts(installation)[task] for task in stayed} == {task: count[task] for task in stayed}
