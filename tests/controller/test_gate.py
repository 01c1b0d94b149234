"""An operator that ends before or after its n-th write, to the API or to Kafka, whatever that write is."""

import os
from collections.abc import Callable
from typing import Final

import pytest

from controller_scene import Scene
from cooperator.host.gate import VARIABLE

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

_MOST: Final = 60
STRIDE: Final = 12 if "CI" in os.environ else 1
"""Each write costs an operator's life; where time is short, not every one does."""


def through(scene: Scene, side: str, reached: Callable[[], object]) -> int:
    """Operators that end at their first, second, third … write, one after the other, until one gets through
    to ``reached``: every write of the way is the last of some operator. How many operators there were."""
    for count, number in enumerate(range(1, _MOST, STRIDE), start=1):
        operator = scene.operator(**{VARIABLE: f"{side}:{number}"})

        def over(ended: Callable[[], object] = operator.child.poll) -> str:
            return "ended" if ended() is not None else "reached" if reached() else ""

        if scene.eventually(over, 120) == "reached":
            operator.kill()
            return count
    raise AssertionError(f"nobody got through in {_MOST} writes")


@pytest.mark.parametrize("side", ["before", "after"])
def test_wherever_an_operator_ends_the_next_one_goes_on(scene: Scene, side: str) -> None:
    scene.worker(replicas=2, scheduledRebalanceMaxDelayMs=600_000)
    scene.connector("a", tasksMax=2)

    def running(*tasks: str) -> Callable[[], bool]:
        return lambda: set(scene.journal.running()) == set(tasks)

    assert through(scene, side, running("a-0", "a-1")) > 1
    before = scene.runs("a-0", "a-1")

    scene.connector("b", tasksMax=1)
    through(scene, side, running("a-0", "a-1", "b-0"))
    assert {task: scene.journal.running()[task] for task in before} == before, "what was not meant stays"
    starts = [run for run in scene.journal.runs() if run.task in before]
    assert len(starts) == 6, "nor was any of its units started again"

    scene.delete("workers", "lake")
    through(scene, side, lambda: scene.is_gone("workers", "lake"))
    assert scene.journal.running() == {}
    assert scene.pods() == {}
