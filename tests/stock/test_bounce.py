"""Every worker is stopped or killed and comes back, one after another; the numbers tell what it cost."""

import pytest

from stock.scene import PATIENT, Scene, doubled, missing
from support import at_a_desk

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2", "w-3")
EVERYTHING = ("a-instance", "a-0", "a-1", "a-2", "into-instance", "into-0")
AT_A_DESK = at_a_desk("env -u CI pytest tests/stock/test_bounce.py")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("clean", "protocol", "rounds"),
    [
        pytest.param(True, "compatible", 1, id="clean-compatible"),
        pytest.param(False, "sessioned", 1, id="unclean-sessioned"),
        pytest.param(True, "compatible", 3, id="clean-compatible-3", marks=AT_A_DESK),
        pytest.param(True, "sessioned", 3, id="clean-sessioned-3", marks=AT_A_DESK),
        pytest.param(False, "compatible", 3, id="unclean-compatible-3", marks=AT_A_DESK),
        pytest.param(False, "sessioned", 3, id="unclean-sessioned-3", marks=AT_A_DESK),
    ],
)
def test_bounce(scene: Scene, clean: bool, protocol: str, rounds: int) -> None:
    """Written at least once, and none is missing; none twice where every stop was clean."""
    workers = WORKERS if rounds > 1 else WORKERS[:2]
    connectors = {"a": scene.source("a", tasks=3), "into": scene.sink("into", scene.make_topic("a"))}
    leader = scene.leader(connectors, workers, policy=PATIENT)
    for worker in workers:
        scene.worker(worker, protocol=protocol)
    scene.runs(*EVERYTHING)
    assert scene.leads(leader, len(workers))["protocol"] == protocol
    layout = scene.runs(*EVERYTHING)
    for _ in range(rounds):
        for worker in workers:
            (scene.stop if clean else scene.kill)(worker)
            scene.facts(leader, workers)
            scene.again(worker)
            assert scene.runs(*EVERYTHING) == layout, "each has its own back, and nobody else's"
            scene.leads(leader, len(workers))
    assert max(scene.starts().values()) <= rounds + 2, "once for each bounce, and for the beginning"

    numbers = scene.written("a", scene.written("a"))
    assert missing(numbers) == {}
    if clean:
        assert doubled(numbers) == {}
    for task, seen in numbers.items():
        print(f"{task}: {len(set(seen))} numbers, {len(seen) - len(set(seen))} written again")  # noqa: T201
