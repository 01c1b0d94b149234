"""Rows and positions are committed together or not at all."""

import re
import time
from typing import Any

import pytest

from cooperator.connectors.microbatch.batches import BatchFailed, FailureKind, PositionRecord
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition
from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.microbatch.tasks import Task, copy_to

pytestmark = pytest.mark.real


def values_of(places: list[Partition], count: int) -> list[str]:
    return sorted(f"{place}:{number}" for place in places for number in range(count))


def test_a_task_copies_old_and_new_records_and_goes_on_where_it_was(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 3)
    cluster.fill(places, 100)
    with Task(session, cluster, unique, places, slot_size=10) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 100), 60, f"{task.error} {task.said}")
        cluster.fill(places[:1], 100)
        eventually(lambda: task.reached()[places[0]] == 200, 60)
    cluster.fill(places[1:], 100)
    with Task(session, cluster, unique, places) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 200), 60)
    assert task.values() == sorted(values_of(places, 100) * 2)
    assert task.error is None


def test_a_hundred_partitions_are_one_job(session: Any, cluster: Cluster, unique: str) -> None:
    places = cluster.create(unique, 100)
    with Task(session, cluster, unique, places) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 0), 60)
        before, batches = jobs(session, task), task.loop.counts.batches
        cluster.fill(places, 10)
        eventually(lambda: task.reached() == dict.fromkeys(places, 10), 60)
        ran = task.loop.counts.batches - batches
        assert jobs(session, task) - before == ran <= 10
        looks = task.watcher.begun()
        eventually(lambda: task.watcher.begun() > looks + 3, 60, "it has looked for news again")
        assert task.loop.counts.batches == batches + ran, "a batch ran without news"
    assert task.values() == values_of(places, 10)


def jobs(session: Any, task: Task) -> int:
    return len(session.sparkContext.statusTracker().getJobIdsForGroup(task.batches._group.name))


def test_limits_hold_and_a_busy_partition_leaves_room_for_the_others(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 3)
    cluster.fill(places[:1], 1_000)
    cluster.fill(places[1:], 5)
    with Task(session, cluster, unique, places, limits=Limits(200, 90)) as task:
        eventually(lambda: task.reached() == dict(zip(places, [1_000, 5, 5], strict=True)), 60)
    assert task.loop.counts.batches >= 12
    found = [(each.value or b"").decode() for each in cluster.read(task.output)]
    assert sorted(found) == sorted(values_of(places[:1], 1_000) + values_of(places[1:], 5))
    assert max(found.index(value) for value in values_of(places[1:], 5)) < 90


def test_a_batch_without_rows_moves_the_positions(session: Any, cluster: Cluster, unique: str) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 10)
    transform = copy_to(f"{unique}-out", where="value LIKE '%:nothing'")
    with Task(session, cluster, unique, places, transform) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 10), 60)
    assert task.values() == []
    assert task.loop.counts.rows == 0


def test_all_columns_are_written(session: Any, cluster: Cluster, unique: str) -> None:
    places = cluster.create(unique, 1)
    cluster.produce(places[0], [b"v"], key=b"k")
    columns = (
        "CAST(2 AS INT) AS partition",
        "concat(CAST(key AS STRING), '!') AS key",
        "value",
        "array(struct('h' AS key, CAST('1' AS BINARY) AS value)) AS headers",
        "1234L AS timestamp",
    )
    with Task(session, cluster, unique, places, copy_to(f"{unique}-out", *columns), outputs=3) as task:
        eventually(lambda: task.reached() == {places[0]: 1}, 60)
    assert cluster.read(task.output) == [(2, 0, b"k!", b"v")]
    read = session.read.format("kafka").option("kafka.bootstrap.servers", cluster.java["bootstrap.servers"])
    [row] = read.option("subscribe", task.output).option("includeHeaders", "true").load().collect()
    assert [(each.key, bytes(each.value)) for each in row.headers] == [("h", b"1")]
    assert row.timestamp.timestamp() == 1.234


def test_a_row_that_fails_in_the_middle_of_a_slot_leaves_neither_rows_nor_positions_of_its_unit(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 4)
    cluster.fill(places, 100)
    fails = f"IF(value = '{places[1]}:60', raise_error('a bad row'), value) AS value"
    transform = copy_to(f"{unique}-out", "key", fails)
    with Task(session, cluster, unique, places, transform, slot_size=150) as task:
        aside = eventually(lambda: task.loop.apart.aside, 60)
        assert aside.keys() == {places[1]}
        assert isinstance(aside[places[1]].error, BatchFailed)
        assert "a bad row" in str(aside[places[1]].error)
        wanted = {place: 0 if place == places[1] else 100 for place in places}
        eventually(lambda: task.reached() == wanted, 60)
    assert task.values() == values_of([place for place in places if place != places[1]], 100)
    # The failed slot's records are aborted, so that readers need not wait for it.
    assert cluster.end(Partition(task.output, 0)) == cluster.end(Partition(task.output, 0), committed=True)
    with Task(session, cluster, unique, places) as again:
        eventually(lambda: again.reached() == dict.fromkeys(places, 100), 60)
    assert again.values() == values_of(places, 100)


def test_a_batch_that_is_cancelled_in_mid_transaction_leaves_neither(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 1)
    cluster.fill(places, 300)
    slow = "concat(value, java_method('java.lang.Thread', 'sleep', 50L) IS NULL) AS value"
    settings = {"linger.ms": "0"}
    output = Partition(f"{unique}-out", 0)
    with Task(
        session, cluster, unique, places, copy_to(output.topic, "key", slow), settings=settings
    ) as task:
        eventually(lambda: cluster.end(output) > 20, 60, f"rows are sent: {task.error} {task.said}")
    assert task.reached() == {places[0]: 0}
    assert task.values() == []
    eventually(lambda: cluster.end(output) == cluster.end(output, committed=True), 10, "it is aborted")
    with Task(session, cluster, unique, places) as again:
        eventually(lambda: again.reached() == {places[0]: 300}, 60)
    assert again.values() == values_of(places, 300)


def test_a_fenced_slot_commits_nothing_and_an_attempt_that_still_owns_its_units_goes_on(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 10)
    with Task(session, cluster, unique, places) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 10), 60)
        recoveries = task.ownership.recoveries
        cluster.transaction(f"{unique}-id/0", Partition(f"{unique}-out", 0), [b"other"]).abort_transaction(30)
        cluster.fill(places, 10)
        eventually(lambda: task.reached() == dict.fromkeys(places, 20), 60)
        assert task.ownership.recoveries == recoveries + 1
    assert task.values() == sorted(values_of(places, 10) * 2)
    assert "Fenced" in task.said[0] or "InvalidProducerEpoch" in task.said[0], task.said


def test_a_fenced_slot_leaves_the_others_alone(session: Any, cluster: Cluster, unique: str) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 10)
    task = Task(session, cluster, unique, places)
    task.batches.open("one")
    cluster.transaction(f"{unique}-id/1", Partition(f"{unique}-out", 0), [b"other"]).abort_transaction(30)
    slots = [[OffsetRange(place, 0, 10)] for place in places]
    records = {place: PositionRecord(str(place), "10") for place in places}
    outcome = task.batches.run("one", slots, records)
    assert [(each.slot, each.kind) for each in outcome.failures] == [(1, FailureKind.FENCED)]
    assert outcome.rows == 10
    assert task.reached() == {places[0]: 10}
    assert task.values() == values_of(places[:1], 10)
    # Without another session its producer is not initialised again, which would fence a newer attempt.
    outcome = task.batches.run("one", slots[1:] * 2, records)
    assert {each.kind for each in outcome.failures} == {FailureKind.RETRIABLE}
    assert task.batches.run("two", slots[1:], records).failures[0].kind is FailureKind.RETRIABLE
    task.batches.close()
    task.loop.stop()
    task.watcher.close()


@pytest.mark.long("tests/runtime/test_pipelines.py::test_a_broker_that_is_away_for_a_while_stops_no_task")
def test_a_broker_that_is_killed_and_comes_back_costs_nothing_and_doubles_nothing(
    session: Any, cluster: Cluster, unique: str, broker: EmbeddedBroker
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 5_000)
    settings = {"max.block.ms": "5000", "transaction.timeout.ms": "10000"}
    limits = Limits(100, 100)  # many batches, so that one of them is under way
    with Task(session, cluster, unique, places, limits=limits, settings=settings) as task:
        eventually(lambda: task.loop.counts.batches > 5, 60)
        broker.kill()
        time.sleep(1)
        broker.start()
        task.loop.limits = Limits(10_000, 10_000)
        eventually(lambda: task.reached() == dict.fromkeys(places, 5_000), 120, "all is read")
    assert task.values() == values_of(places, 5_000)
    assert task.error is None


def test_deleted_offsets_are_named_with_the_unit_and_others_go_on(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 10)
    cluster.delete_before(places[1], 5)
    with Task(session, cluster, unique, places) as task:
        aside = eventually(lambda: task.loop.apart.aside, 60)
        assert aside.keys() == {places[1]}
        assert isinstance(aside[places[1]].error, BatchFailed)
        assert f"offsets 0 to 10 of {unique}-1 cannot be read at 0" in str(aside[places[1]].error)
        eventually(lambda: task.reached() == {places[0]: 10, places[1]: 0}, 60)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (
            "SELECT 'o' AS topic, value FROM input LIMIT 5",
            "not all records|another Spark task|Spark partitions",
        ),
        ("SELECT 'o' AS topic, value FROM input ORDER BY value", "another Spark task|Spark partitions"),
        pytest.param(
            "SELECT 'o' AS topic, value FROM input GROUP BY value",
            "another Spark task|Spark partitions",
            marks=pytest.mark.long(
                "tests/microbatch/test_transactions.py::"
                "test_a_query_that_loses_or_moves_records_commits_nothing"
            ),
        ),
        (
            "SELECT 'o' AS topic, value FROM input UNION ALL SELECT 'o', value FROM input",
            "4 Spark partitions",
        ),
        ("SELECT 'o' AS topic FROM input", "no column value: select one"),
        ("SELECT 'o' AS topic, offset AS value FROM input", "column value is of type BIGINT: use BINARY"),
        ("SELECT CAST(NULL AS STRING) AS topic, value FROM input", "column topic is null"),
    ],
)
def test_a_query_that_loses_or_moves_records_commits_nothing(
    session: Any, cluster: Cluster, unique: str, sql: str, error: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 10)
    view = unique.replace("-", "_")

    def transform(rows: Any) -> Any:
        rows.createOrReplaceTempView(view)
        return session.sql(sql.replace("input", view).replace("'o'", f"'{unique}-out'"))

    with Task(session, cluster, unique, places, transform) as task:
        task.thread.join(60)
    assert re.search(error, str(task.error)), task.error
    assert not any(task.reached().values())
    assert task.values() == []


def test_a_plan_with_a_time_of_its_own_is_made_anew_for_each_batch(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 1)
    timed = copy_to(f"{unique}-out", "CAST(current_timestamp() AS STRING) AS value")
    with Task(session, cluster, unique, places, timed) as task:
        for count in (1, 2, 3):
            cluster.fill(places, 1)
            eventually(lambda count=count: task.reached() == {places[0]: count}, 60)
    assert len(set(task.values())) == 3


def test_two_threads_may_run_batches_of_two_tasks_at_once(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 4)
    cluster.fill(places, 50)
    names = [f"{unique}-{number}" for number in range(2)]
    tasks = [
        Task(session, cluster, name, places[2 * number : 2 * number + 2]) for number, name in enumerate(names)
    ]
    with tasks[0], tasks[1]:
        for task in tasks:
            eventually(lambda task=task: sum(task.reached().values()) == 100, 60)
    assert sorted(tasks[0].values() + tasks[1].values()) == values_of(places, 50)
