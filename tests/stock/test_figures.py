"""The three figures of the article on incremental cooperative rebalancing, with stock workers."""

from collections import Counter

import pytest

from stock.scene import HOLD_MS, Scene, missing
from support import eventually

pytestmark = pytest.mark.real

EVERYTHING = ("a-instance", "a-0", "a-1", "a-2", "b-instance", "b-0", "b-1", "b-2")


def test_a_worker_joins_returns_and_leaves_for_good(scene: Scene) -> None:
    connectors = {name: scene.source(name, tasks=3) for name in "ab"}
    leader = scene.leader(connectors, ("w-1", "w-2"))
    scene.worker("w-1")
    scene.worker("w-2")
    scene.leads(leader, 2)
    two, begun = scene.begun(*EVERYTHING)

    # Figure 1: a third one gets its share; what is not moved to it runs on.
    scene.facts(leader, ("w-1", "w-2", "w-3"))
    scene.worker("w-3")
    eventually(lambda: len(scene.journal.running_at("w-3")) >= 2, 120, "it gets its share")
    scene.leads(leader, 3)
    three = scene.runs(*EVERYTHING)
    moved = {task for task in EVERYTHING if two[task] != three[task]}
    assert moved == scene.journal.running_at("w-3")
    assert scene.starts() - begun == Counter(moved)

    # Figure 2: it dies, and is back before the delay is over; it gets its own back at once.
    lost = scene.kill("w-3")
    scene.facts(leader, ("w-1", "w-2", "w-3"))
    assert not lost & scene.journal.running().keys()
    scene.again("w-3")
    assert scene.runs(*EVERYTHING) == three
    scene.leads(leader, 3)
    assert max(map(scene.stopped_for_ms, lost)) < HOLD_MS
    assert scene.starts() - begun == Counter(moved) + Counter(lost)

    # Figure 3: it dies and stays away; its tasks move when the delay is over, and not before.
    assert scene.kill("w-3") == lost
    scene.facts(leader, ("w-1", "w-2", "w-3"))
    after = scene.runs(*EVERYTHING)
    assert {task for task in EVERYTHING if after[task] != three[task]} == lost
    assert min(map(scene.stopped_for_ms, lost)) >= HOLD_MS
    assert scene.starts() - begun == Counter(moved) + Counter(lost) + Counter(lost)
    for name in connectors:
        assert missing(scene.written(name)) == {}
