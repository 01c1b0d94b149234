"""Attempts with real claims: the newer one goes on where the older one was, also in mid-batch."""

from collections import Counter
from typing import Any

import pytest

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.claims import Claim, UnitKey
from cooperator.connectors.microbatch.kafka_positions import KafkaPositions, OwnedUnits
from cooperator.connectors.microbatch.ownership import Attempt, Ownership
from cooperator.connectors.microbatch.ranges import Limits, Partition
from cooperator.connectors.microbatch.task_units import TaskUnits
from cooperator.model import Epoch
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.microbatch.tasks import Task, copy_to

pytestmark = pytest.mark.real


def attempt(
    session: Any, cluster: Cluster, name: str, units: list[Partition], generation: int, **more: Any
) -> Task:
    """An attempt of one task, which claims the units when it runs."""
    prefix = f"{name}-units/copy/{generation}"
    task = Task(session, cluster, name, units, prefix=prefix, **more)
    positions = KafkaPositions(name, cluster.client)
    patience = positions.patience(task.loop.stopped, task.said.append)
    positions.ensure(patience)
    claim = Claim(Epoch(1, generation), 1, f"member-{generation}")
    keys = tuple(UnitKey("copy", str(unit)) for unit in units)
    machine = Ownership(Attempt(claim, keys, task.slots))
    owned = OwnedUnits(machine, positions, patience, task.batches.open)
    task.loop.ownership = TaskUnits("copy", {unit: str(unit) for unit in units}, owned)
    return task


@pytest.mark.long(
    "tests/microbatch/test_replaced.py::"
    "test_an_attempt_that_is_replaced_in_mid_transaction_commits_nothing_of_it"
)
def test_a_newer_attempt_goes_on_where_the_older_one_was(session: Any, cluster: Cluster, unique: str) -> None:
    units = cluster.create(unique, 2)
    # So many that the older attempt is still at work when the newer one begins.
    cluster.fill(units, 1_000)
    old = attempt(session, cluster, unique, units, 1, limits=Limits(20, 20))
    new = attempt(session, cluster, unique, units, 2, limits=Limits(50, 50))
    with old:
        eventually(lambda: old.loop.counts.batches > 3, 60)
        with new:
            eventually(lambda: isinstance(old.error, Replaced), 60)
            cluster.fill(units, 100)
            eventually(lambda: len(new.values()) == 2_200, 60)
    assert new.error is None
    assert "member-2" in str(old.error)
    twice = [f"{unit}:{number}" for unit in units for count in (1_000, 100) for number in range(count)]
    assert Counter(new.values()) == Counter(twice)
    keys = cluster.last_values(new.positions)
    assert {key.decode() for key, value in keys.items() if value and key[:1] == b"p"} == {
        f"p/copy/{unit}" for unit in units
    }


def test_an_attempt_that_is_replaced_in_mid_transaction_commits_nothing_of_it(
    session: Any, cluster: Cluster, unique: str
) -> None:
    units = cluster.create(unique, 1)
    cluster.fill(units, 200)
    output = Partition(f"{unique}-out", 0)
    slow = "concat(value, java_method('java.lang.Thread', 'sleep', 50L) IS NULL) AS value"
    columns = copy_to(output.topic, "key", slow)
    old = attempt(session, cluster, unique, units, 1, transform=columns, settings={"linger.ms": "0"})
    new = attempt(session, cluster, unique, units, 2)
    with old:
        eventually(lambda: cluster.end(output) > 20, 60, "rows of the older attempt are sent")
        with new:
            eventually(lambda: len(new.values()) == 200, 60)
            eventually(lambda: isinstance(old.error, Replaced), 60)
    assert new.values() == sorted(f"{unit}:{number}" for unit in units for number in range(200))


@pytest.mark.long("tests/runtime/test_positions.py::test_an_attempt_of_an_older_epoch_is_refused")
def test_an_older_attempt_that_comes_late_stops_before_it_writes(
    session: Any, cluster: Cluster, unique: str
) -> None:
    units = cluster.create(unique, 1)
    cluster.fill(units, 50)
    new = attempt(session, cluster, unique, units, 2)
    old = attempt(session, cluster, unique, units, 1)
    with new:
        eventually(lambda: len(new.values()) == 50, 60)
        with old:
            eventually(lambda: isinstance(old.error, Replaced), 60)
        cluster.fill(units, 50)
        eventually(lambda: len(new.values()) == 100, 60)
    assert new.error is None
    assert old.loop.counts.batches == 0
