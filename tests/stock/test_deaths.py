"""Workers that die, return and are rolled under our leader; a leader that is away when one dies."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from stock.scene import HOLD_MS, PATIENT, POLICY, Scene, doubled, missing
from support import eventually

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1", "b-instance", "b-0", "b-1", "b-2")


def begin(
    scene: Scene, policy: Mapping[str, Any] = POLICY
) -> tuple[dict[str, dict[str, str]], "Counter[str]"]:
    connectors = {"a": scene.source("a", tasks=2), "b": scene.source("b", tasks=3)}
    leader = scene.leader(connectors, WORKERS, policy=policy, session_timeout_ms=10_000)
    for worker in WORKERS:
        scene.worker(worker)
    scene.leads(leader, 2)
    return connectors, scene.begun(*EVERYTHING)[1]


def test_each_is_rolled_in_its_turn_and_has_its_own_back_while_nobody_else_stops(scene: Scene) -> None:
    _, begun = begin(scene, PATIENT)
    [leader] = scene.leaders
    layout = scene.runs(*EVERYTHING)
    own = Counter[str]()
    for worker in WORKERS:
        scene.facts(leader, WORKERS, returning=frozenset({worker}))
        own += Counter(scene.stop(worker))
        scene.facts(leader, WORKERS, returning=frozenset({worker}))
        scene.again(worker)
        assert scene.runs(*EVERYTHING) == layout
        scene.leads(leader, 2)
    assert scene.starts() - begun == own == Counter(dict.fromkeys(EVERYTHING, 1))
    for name in "ab":
        numbers = scene.written(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {}), "a clean stop commits what was written"


def test_one_dies_while_nobody_of_ours_leads(scene: Scene) -> None:
    """What Kafka's own leader does then is its own affair; ours comes back to what it finds."""
    connectors, begun = begin(scene)
    [leader] = scene.leaders
    scene.leaders.clear()
    layout = scene.runs(*EVERYTHING)
    leader.stop(leave=False)
    first = scene.led_by_a_worker()
    assert scene.journal.running() == layout
    assert scene.starts() == begun
    other = next(worker for worker in WORKERS if worker != first)

    # It holds for its own delay, as Kafka does; the one that leads runs on.
    lost = scene.kill(other)
    after = scene.runs(*EVERYTHING)
    assert set(after.values()) == {first}
    assert scene.starts() - begun == Counter(lost)

    # Ours is back, and so is the worker: it is given what balances, once.
    leader = scene.leader(connectors, WORKERS, session_timeout_ms=10_000)
    scene.again(other)
    eventually(lambda: scene.journal.running_at(other), 60)
    scene.leads(leader, 2)
    scene.runs(*EVERYTHING)
    assert scene.starts() - begun == Counter(lost) + Counter(scene.journal.running_at(other))
    for name in "ab":
        assert missing(scene.written(name)) == {}


def test_the_operator_is_killed_while_tasks_are_held(scene: Scene) -> None:
    """Measured for the guarantees: a Java leader that did not see the departure starts them at once."""
    _, begun = begin(scene)
    [leader] = scene.leaders
    scene.leaders.clear()
    lost = scene.kill("w-2")
    scene.facts(leader, WORKERS)
    eventually(lambda: len(leader.status()["members"]) == 1, 60, "it is out of the group")
    held = {task["name"] for task in leader.status()["tasks"] if task["state"] == "HELD"}
    assert {task.removesuffix("-instance") for task in lost} == held
    leader.stop(leave=True)
    scene.led_by_a_worker()
    scene.runs(*EVERYTHING)
    assert max(map(scene.stopped_for_ms, lost)) < HOLD_MS
    assert scene.starts() - begun == Counter(lost)
