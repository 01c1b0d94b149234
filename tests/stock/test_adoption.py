"""A cluster that leads itself is taken over, left alone, taken over again and given back: nothing stops."""

from collections import Counter

import pytest

from cooperator.leader.service import LeaderService
from stock.scene import Scene, doubled, missing
from support import eventually

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = (
    *("a-instance", "a-0", "a-1", "a-2"),
    *("b-instance", "b-0"),
    *("into-instance", "into-0"),
)


def led_by_themselves(scene: Scene) -> dict[str, dict[str, str]]:
    """Two sources and a sink of the first one's numbers, made by REST as users do."""
    first, _ = scene.cluster(*WORKERS)
    connectors = {
        "a": scene.source("a", tasks=3),
        "b": scene.source("b", tasks=1),
        "into": scene.sink("into", scene.make_topic("a")),
    }
    for name, config in connectors.items():
        first.ask("connectors", {"name": name, "config": config})
    scene.runs(*EVERYTHING)
    for worker in scene.workers.values():
        eventually(lambda worker=worker: len(worker.running()) == len(EVERYTHING), 60)
    return connectors


def gone(scene: Scene, leader: LeaderService) -> str:
    """The member that leads when ``leader`` is out of the group: a worker."""
    scene.leaders.remove(leader)
    return scene.led_by_a_worker()


def test_no_task_stops_when_the_lead_is_taken_left_alone_and_given_back(scene: Scene) -> None:
    connectors = led_by_themselves(scene)
    layout, begun = scene.runs(*EVERYTHING), scene.starts()
    before = scene.written("a")

    # Taken.
    leader = scene.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    scene.leads(leader, 2)
    assert scene.journal.running() == layout
    before = scene.written("a", before)

    # The operator is killed, and away for longer than its session: a worker leads.
    leader.stop(leave=False)
    gone(scene, leader)
    assert scene.journal.running() == layout
    before = scene.written("a", before)

    # It is back.
    leader = scene.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    scene.leads(leader, 2)
    assert scene.journal.running() == layout
    before = scene.written("a", before)

    # Given back.
    leader.stop(leave=True)
    gone(scene, leader)
    scene.written("a", before)
    assert scene.journal.running() == layout
    assert scene.starts() - begun == Counter()

    for name in ("a", "b"):
        numbers = scene.numbers(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {})
    sunk = Counter(scene.told("into"))
    assert max(sunk.values()) == 1
