"""Workers of two lines of Connect in one group, and one that knows the eager protocol only."""

from collections import Counter
from collections.abc import Callable

import pytest

from stock.scene import PATIENT, Scene, doubled, missing
from support import eventually

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1", "b-instance", "b-0", "b-1")


def test_a_roll_from_the_line_before_to_the_present_one(
    scene: Scene, archived: Callable[[str], None]
) -> None:
    archived("3.9")
    connectors = {name: scene.source(name, tasks=2) for name in "ab"}
    leader = scene.leader(connectors, WORKERS, policy=PATIENT)
    for worker in WORKERS:
        scene.worker(worker, line="3.9")
    scene.leads(leader, 2)
    layout, begun = scene.begun(*EVERYTHING)
    for worker in WORKERS:
        assert str(scene.workers[worker].ask("")["version"]).startswith("3.9")
        scene.stop(worker)
        scene.facts(leader, WORKERS, returning=frozenset({worker}))
        scene.again(worker, line="4")
        assert scene.runs(*EVERYTHING) == layout
        scene.leads(leader, 2)
        assert str(scene.workers[worker].ask("")["version"]).startswith("4.")
    assert scene.starts() - begun == Counter(dict.fromkeys(EVERYTHING, 1))
    for name in "ab":
        numbers = scene.written(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {})


def test_one_that_knows_the_eager_protocol_only_costs_a_stop_of_all_in_every_round(scene: Scene) -> None:
    connectors = {name: scene.source(name, tasks=2) for name in "ab"}
    leader = scene.leader(connectors, ("w-1",))
    scene.worker("w-1")
    scene.runs(*EVERYTHING)
    scene.leads(leader, 1)
    begun = scene.starts()

    scene.facts(leader, WORKERS)
    scene.worker("w-2", protocol="eager")
    eventually(lambda: set(scene.runs(*EVERYTHING).values()) == set(WORKERS), 90, "both run something")
    status = scene.leads(leader, 2)
    assert status["protocol"] == "default"
    assert min((scene.starts() - begun)[task] for task in EVERYTHING) >= 1, "all were stopped"
    [said] = [c for c in status["conditions"] if c["type"] == "EagerProtocol"]
    assert said["status"] == "True"
    assert "w-2" in said["message"]

    # Without it the group is incremental again, and nothing stops any more.
    scene.stop("w-2")
    scene.facts(leader, ("w-1",), gone=frozenset({"w-2"}))
    assert set(scene.runs(*EVERYTHING).values()) == {"w-1"}
    assert scene.leads(leader, 1)["protocol"] == "sessioned"
    for name in "ab":
        assert missing(scene.written(name)) == {}
