"""A source with exactly-once support over kill -9: every number once, for who reads what is committed."""

import pytest

from stock.scene import Scene, doubled, missing
from support import at_a_desk

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = ("a-instance", "a-0", "a-1")
SETTINGS = {"exactly.once.source.support": "enabled"}


@pytest.mark.timeout(900)
@at_a_desk("env -u CI pytest tests/stock/test_exactly_once.py")
@pytest.mark.parametrize(("kills", "boundary"), [(10, "poll"), (4, "connector")])
def test_every_number_is_there_once(scene: Scene, kills: int, boundary: str) -> None:
    once = {"exactly.once.support": "required", "transaction.boundary": boundary}
    connectors = {"a": scene.source("a", tasks=2, rate=50, **once)}
    leader = scene.leader(connectors, WORKERS, exactly_once=True)
    for worker in WORKERS:
        scene.worker(worker, settings=SETTINGS)
    scene.runs(*EVERYTHING)
    scene.leads(leader, 2)
    numbers = scene.written("a")
    for kill in range(kills):
        victim = WORKERS[kill % 2]
        scene.kill(victim)
        scene.facts(leader, WORKERS)
        scene.again(victim)
        scene.runs(*EVERYTHING)
        numbers = scene.written("a", numbers)
    scene.leads(leader, 2)
    numbers = scene.written("a", numbers)
    assert numbers.keys() == {"a-0", "a-1"}
    assert (missing(numbers), doubled(numbers)) == ({}, {})
    print({task: len(seen) for task, seen in numbers.items()})  # noqa: T201
