"""An operator that ends before or after its n-th write, to the API or to Kafka, whatever that write is.

Every 64th write in every run; all of them with ``--long`` (half an hour).
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from cooperator.host.gate import VARIABLE
from tests.harness.installation import Installation

pytestmark = [pytest.mark.real, pytest.mark.timeout(2 * 3600)]

_MOST: Final = 400
FOUR: Final = ("a-0", "a-1", "a-2", "a-3")


def through(installation: Installation, side: str, stride: int, reached: Callable[[], object]) -> int:
    """Operators that end at their first, second, third … write, one after the other, until one gets through
    to ``reached``: every ``stride``-th write of the way is the last of some operator. Number of operators so
    far."""
    first = 1 + (stride // 2 if side == "after" else 0)
    for count, number in enumerate(range(first, _MOST, stride), start=1):
        operator = installation.operator(**{VARIABLE: f"{side}:{number}"})

        def over(ended: Callable[[], object] = operator.child.poll) -> str:
            return "ended" if ended() is not None else "reached" if reached() else ""

        if installation.eventually(over, 180) == "reached":
            operator.kill()
            return count
    raise AssertionError(f"nobody got through in {_MOST} writes")


def starts(installation: Installation) -> Counter[str]:
    return Counter(run.task for run in installation.journal.runs())


def uids(installation: Installation) -> set[str]:
    return {pod["metadata"]["uid"] for pod in installation.pods().values()}


SOME: Final = "tests/controller/test_gate.py::test_wherever_an_operator_ends_the_next_one_goes_on"
"""Each write costs an operator's incarnation. After one write is before the next one, but for what other
threads write in between."""


@pytest.mark.parametrize(
    ("side", "stride"),
    [
        pytest.param("before", 64),
        pytest.param("before", 1, marks=pytest.mark.long(SOME)),
        pytest.param("after", 1, marks=pytest.mark.long(SOME)),
    ],
)
def test_wherever_an_operator_ends_the_next_one_goes_on(
    installation: Installation, side: str, stride: int
) -> None:
    # Operators die here one after the other, some of them just after they took the lead: no round in between
    # proves anything to the members, for longer than any usual lease (docs/evidence/reliability.md).
    settings = {"scheduledRebalanceMaxDelayMs": 600_000, "leaseMs": 600_000}

    def running() -> bool:
        return set(installation.journal.running()) == set(FOUR)

    def running_at(*members: str) -> Callable[[], bool]:
        return lambda: running() and set(installation.journal.running().values()) == set(members)

    def replaced(before: set[str]) -> Callable[[], bool]:
        return lambda: len(now := uids(installation)) == 2 and not now & before and running()

    def unmoved(before: dict[str, str], count: Counter[str]) -> None:
        """Tasks that did not move kept running."""
        now, counted = installation.runs(*FOUR), starts(installation)
        stayed = [task for task in FOUR if now[task] == before[task]]
        assert {task: counted[task] for task in stayed} == {task: count[task] for task in stayed}

    # Applied.
    installation.worker(replicas=2, **settings)
    installation.connector("a", tasksMax=4, config={"units": 4})
    assert through(installation, side, stride, running_at("lake-0", "lake-1")) > 1

    # Scaled up.
    before, count = installation.runs(*FOUR), starts(installation)
    installation.worker(replicas=3, **settings)
    through(installation, side, stride, running_at("lake-0", "lake-1", "lake-2"))
    unmoved(before, count)

    # Scaled down: the last one is drained.
    before, count = installation.runs(*FOUR), starts(installation)
    installation.worker(replicas=2, **settings)
    through(
        installation, side, stride, lambda: set(installation.pods()) == {"lake-0", "lake-1"} and running()
    )
    unmoved(before, count)

    # Rolled in place.
    before, count, pods = installation.runs(*FOUR), starts(installation), uids(installation)
    installation.worker(replicas=2, restartNonce="held", **settings)
    through(installation, side, stride, replaced(pods))
    assert installation.runs(*FOUR) == before, "everything is where it was"
    again = {task: number - count[task] for task, number in starts(installation).items()}
    assert set(again.values()) == {1}, f"and was started once more: {again}"

    # Rolled by moving first.
    pods = uids(installation)
    installation.worker(replicas=2, restartNonce="drained", rollout={"strategy": "Drain"}, **settings)
    through(installation, side, stride, replaced(pods))

    # Deleted.
    installation.delete("workers", "lake")
    through(installation, side, stride, lambda: installation.is_gone("workers", "lake"))
    assert installation.journal.running() == {}
    assert installation.pods() == {}
