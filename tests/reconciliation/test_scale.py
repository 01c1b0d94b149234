"""Large groups: what a change takes does not depend on what exists, nor on a member that is frozen."""

import pytest

from cooperator.model import TaskId
from tests.reconciliation.group_simulation import GroupSimulation

WITHIN_MS = 1_000


class UncheckedWorld(GroupSimulation):
    """Checks the group only when asked: that takes as long as everything else."""

    def check(self) -> None:
        pass


@pytest.mark.parametrize(
    ("members", "tasks"),
    [
        (20, 900),
        pytest.param(
            1_000,
            100_000,
            marks=pytest.mark.long(
                "tests/reconciliation/test_scale.py::test_new_tasks_run_at_once_beside_a_frozen_member"
            ),
        ),
    ],
)
def test_new_tasks_run_at_once_beside_a_frozen_member(members: int, tasks: int) -> None:
    simulation = UncheckedWorld(1, tasks)
    identities = [f"m{number}" for number in range(members)]
    for identity in identities:
        simulation.start(identity)
    simulation.run(3_000)
    everything = sorted(simulation.tasks)
    layout = {identity: set(everything[at::members]) for at, identity in enumerate(identities)}
    simulation.set_layout(layout)
    assert simulation.run(WITHIN_MS, until=simulation.is_settled)

    simulation.processes["m0"].frozen = True
    for number in range(100):
        new, identity = TaskId("new", number), identities[1 + number % (members - 1)]
        layout[identity].add(new)
        written = simulation.counts["records"]
        simulation.set_layout(layout)
        assert simulation.run(WITHIN_MS, until=lambda new=new, at=identity: new in simulation.running(at))
        assert simulation.counts["records"] - written == 3

    GroupSimulation.check(simulation)
