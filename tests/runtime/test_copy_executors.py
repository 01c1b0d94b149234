"""Slots on executors of a standalone cluster copy over connections of their own, and one may be killed."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.runtime.copy_tasks import CopyTask
from tests.runtime.postgres import Postgres
from tests.runtime.spark_servers import executors, two_executors

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.long(
        "tests/runtime/test_copy_batches.py::"
        "test_a_batch_that_is_repeated_after_its_commit_writes_nothing_more"
    ),
]


@pytest.fixture(scope="module")
def far_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with two_executors(tmp_path_factory.mktemp("standalone")) as session:
        yield session


def test_slots_keep_their_executors_and_rows_are_there_once_when_one_is_killed(
    far_session: Any, broker: EmbeddedBroker, postgres: Postgres, unique: str
) -> None:
    cluster, table = Cluster(broker.bootstrap_servers), unique.replace("-", "_")
    places = cluster.create(unique, 4)
    cluster.fill(places, 500)
    postgres.query(f"CREATE TABLE {table} (value text)")

    def clients() -> set[int]:
        """The processes with a connection of the task."""
        asked = "SELECT client_port FROM pg_stat_activity WHERE application_name = %s"
        ports = {port for (port,) in postgres.query(asked, f"cooperator {table}")}
        return {
            process.pid
            for process in executors()
            for each in process.net_connections("tcp")
            if each.laddr.port in ports
        }

    with CopyTask(far_session, cluster, postgres, table, places, slot_size=100) as task:
        eventually(lambda: postgres.count(table) == 2_000, 120, f"{task.error} {task.said}")
        assert clients() == {each.pid for each in executors()}, "both copy"
        for count in (600, 700, 800):
            cluster.fill(places, 100)
            eventually(lambda count=count: postgres.count(table) == 4 * count, 60, f"{task.error}")
        assert task.loop.counts.failures == 0
        executors()[0].kill()
        cluster.fill(places, 200)
        eventually(lambda: postgres.count(table) == 4_000, 120, f"{task.error} {task.said}")
        eventually(lambda: task.reached(postgres) == dict.fromkeys(places, 1_000), 60)
    assert Counter(value for (value,) in postgres.query(f"SELECT value FROM {table}")) == Counter(
        f"{place}:{number}"
        for place in places
        for count in (500, 100, 100, 100, 200)
        for number in range(count)
    )
    assert task.error is None
