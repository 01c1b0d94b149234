"""An operator that ends before or after its n-th write, to the API or to Kafka, whatever that write is."""

from collections.abc import Callable

import pytest

from controller_scene import Scene
from cooperator.host.gate import VARIABLE

pytestmark = pytest.mark.real

_MOST = 40


def through(scene: Scene, side: str, reached: Callable[[], object]) -> int:
    """Operators that end at their first, second, third … write, one after the other, until one gets through
    to ``reached``: every write of the way is the last of some operator. How many there were."""
    for number in range(1, _MOST):
        operator = scene.operator(**{VARIABLE: f"{side}:{number}"})

        def over(operator=operator) -> str:  # type: ignore[no-untyped-def]
            if operator.child.poll() is not None:
                return "ended"
            return "reached" if reached() else ""

        if scene.eventually(over, 120) == "reached":
            return number
    raise AssertionError(f"nobody got through in {_MOST} writes")


@pytest.mark.parametrize("side", ["before", "after"])
def test_wherever_an_operator_ends_the_next_one_goes_on(scene: Scene, side: str) -> None:
    scene.worker(replicas=2, scheduledRebalanceMaxDelayMs=600_000)
    scene.connector("a", tasksMax=2)

    def running(*tasks: str) -> Callable[[], bool]:
        return lambda: set(scene.journal.running()) == set(tasks)

    assert through(scene, side, running("a-0", "a-1")) > 3
    before = scene.runs("a-0", "a-1")
    scene.operators[-1].kill()

    scene.connector("b", tasksMax=1)
    through(scene, side, running("a-0", "a-1", "b-0"))
    scene.operators[-1].kill()
    scene.delete("connectors", "b")
    through(scene, side, lambda: scene.is_gone("connectors", "b"))
    assert scene.runs("a-0", "a-1") == before, "what was not meant has not moved"
    starts = [run for run in scene.journal.runs() if run.task in before]
    assert len(starts) == 2, "nor has it been started again"
    scene.operators[-1].kill()

    scene.delete("workers", "lake")
    through(scene, side, lambda: scene.is_gone("workers", "lake"))
    assert scene.journal.running() == {}
    assert scene.pods() == {}
