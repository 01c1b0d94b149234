"""Slots of Spark copy rows into PostgreSQL: rows and positions are committed together, or not at all."""

import re
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.batches import BatchFailed, FailureKind, Outcome, Stand
from cooperator.connectors.microbatch.ranges import Limits, OffsetRange, Partition
from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.runtime.copy_tasks import SLOW_VALUES, CopyTask, losing_answers
from tests.runtime.postgres import Postgres
from tests.runtime.spark_bench import SparkBench

pytestmark = pytest.mark.real

COPIES = "query LIKE 'COPY%%' AND state = 'active' AND pid <> pg_backend_pid()"


@pytest.fixture
def session(spark: SparkBench) -> Any:
    return spark.runtime.session(threading.Event())


@pytest.fixture
def cluster(broker: EmbeddedBroker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


@pytest.fixture
def table(postgres: Postgres, unique: str) -> str:
    """A table without keys, which is copied into directly."""
    name = unique.replace("-", "_")
    postgres.query(f"CREATE TABLE {name} (value text)")
    return name


def values_of(places: Sequence[Partition], count: int) -> Counter[str]:
    return Counter(f"{place}:{number}" for place in places for number in range(count))


def values(postgres: Postgres, table: str) -> Counter[str]:
    return Counter(value for (value,) in postgres.query(f"SELECT value FROM {table}"))


def copying(postgres: Postgres, table: str) -> list[tuple[int, ...]]:
    """The backends that copy into a table now."""
    text = f"SELECT pid FROM pg_stat_activity WHERE {COPIES} AND query LIKE %s"
    return postgres.query(text, f'%"{table}"%')


def test_old_and_new_records_are_copied_in_order_by_slots_that_keep_their_connections(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 3)
    cluster.fill(places, 1_000)
    postgres.query(f"ALTER TABLE {table} ADD COLUMN place serial")
    with CopyTask(session, cluster, postgres, table, places, slot_size=10) as task:
        eventually(lambda: values(postgres, table) == values_of(places, 1_000), 60, f"{task.error}")

        def backends() -> set[int]:
            asked = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
            return {pid for (pid,) in postgres.query(asked, f"cooperator {table}")}

        before = backends()
        assert len(before) == 3, "one for each slot, and one for claims"
        cluster.fill(places, 1_000)
        eventually(lambda: postgres.count(table) == 6_000, 60)
        assert backends() == before
        assert task.loop.counts.failures == 0
        eventually(lambda: task.reached(postgres) == dict.fromkeys(places, 2_000))
        # The table has a batch before its loop has counted it.
        eventually(lambda: task.loop.counts.rows == 6_000)
    for place in places:
        found = postgres.query(f"SELECT value FROM {table} WHERE value LIKE %s ORDER BY place", f"{place}:%")
        assert found == [(f"{place}:{number}",) for _ in range(2) for number in range(1_000)]
    eventually(lambda: not backends(), what="its connections are closed at its end")


def test_a_row_that_fails_leaves_neither_rows_nor_positions_of_its_unit(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 100)
    fails = f"IF(value = '{places[1]}:60', raise_error('a bad row'), CAST(value AS STRING)) AS value"
    with CopyTask(session, cluster, postgres, table, places, [fails], slot_size=10) as task:
        aside = eventually(lambda: task.loop.apart.aside, 60, f"{task.error} {task.said}")
        assert aside.keys() == {places[1]}
        assert isinstance(aside[places[1]].error, BatchFailed)
        assert re.search(rf"units {places[1]}: .*a bad row", str(aside[places[1]].error), re.DOTALL)
        eventually(lambda: task.reached(postgres) == {places[0]: 100, places[1]: 0}, 60, f"{task.said}")
    assert values(postgres, table) == values_of(places[:1], 100)


@pytest.mark.parametrize(
    "has_key",
    [
        pytest.param(
            False,
            marks=pytest.mark.long(
                "tests/runtime/test_copy_batches.py::"
                "test_a_copy_whose_backend_is_terminated_is_repeated_and_written_once"
            ),
        ),
        True,
    ],
)
def test_a_copy_whose_backend_is_terminated_is_repeated_and_written_once(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str, has_key: bool
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 50)
    if has_key:
        postgres.query(f"ALTER TABLE {table} ADD PRIMARY KEY (value)")
    key = ("value",) if has_key else ()
    copied = "cooperator_staging_0" if has_key else table
    with CopyTask(session, cluster, postgres, table, places, SLOW_VALUES, key=key, slot_size=10) as task:
        found = eventually(lambda: copying(postgres, copied), 60, f"{task.error} {task.said}")
        postgres.query("SELECT pg_terminate_backend(%s)", found[0][0])
        eventually(lambda: values(postgres, table) == values_of(places, 50), 60, f"{task.error} {task.said}")
        assert task.loop.counts.failures == 1, task.said
    assert task.error is None
    assert task.reached(postgres) == dict.fromkeys(places, 50)


def test_a_backend_that_is_terminated_before_its_commit_has_written_nothing(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 1)
    cluster.fill(places, 100)
    # It runs at the COMMIT, after the positions were moved.
    postgres.query(
        f"CREATE FUNCTION {table}_wait() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN PERFORM pg_advisory_xact_lock_shared(hashtext('{table}')); RETURN NULL; END$$"
    )
    postgres.query(
        f"CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_wait()"
    )
    commits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory' AND query = 'COMMIT'"
    with postgres.session() as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [table])
        with CopyTask(session, cluster, postgres, table, places) as task:
            found = eventually(lambda: postgres.query(commits), 60, f"{task.error} {task.said}")
            postgres.query("SELECT pg_terminate_backend(%s)", found[0][0])
            eventually(lambda: task.loop.counts.failures > 0)
            other.rollback()
            eventually(lambda: values(postgres, table) == values_of(places, 100), 60)
    assert task.error is None
    assert task.reached(postgres) == {places[0]: 100}


def test_a_commit_whose_answer_is_lost_is_found(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 500)
    with losing_answers(postgres, 2) as (proxy, config):
        limits = Limits(100, 100)
        with CopyTask(session, cluster, postgres, table, places, limits=limits, config=config) as task:
            eventually(lambda: postgres.count(table) >= 1_000, 60, f"{task.error} {task.said}")
            eventually(lambda: task.reached(postgres) == dict.fromkeys(places, 500))
        assert proxy.lost == 2
    assert values(postgres, table) == values_of(places, 500)
    assert task.loop.counts.failures == 2


def test_a_task_that_is_stopped_in_mid_copy_ends_at_once_and_leaves_nothing(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 1)
    cluster.fill(places, 3_000)
    with CopyTask(session, cluster, postgres, table, places, SLOW_VALUES) as task:
        eventually(lambda: copying(postgres, table), 60, f"{task.error} {task.said}")
        task.loop.stop()
        task.thread.join(30)
        assert not task.thread.is_alive(), "its batch takes a minute"
        eventually(lambda: not copying(postgres, table), what="its backend has ended")
    assert values(postgres, table) == Counter()
    assert task.reached(postgres) == {places[0]: 0}


def test_a_task_that_waits_for_a_lock_is_stopped_at_once(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    """An interrupt does not end a thread that waits for a socket, and a server does not see it."""
    places = cluster.create(unique, 1)
    cluster.fill(places, 10)
    waits = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    with postgres.session() as other:
        other.execute(f"LOCK TABLE {table} IN SHARE MODE".encode())
        with CopyTask(session, cluster, postgres, table, places) as task:
            eventually(lambda: postgres.query(waits, f'%"{table}"%'), 60, f"{task.error} {task.said}")
            task.loop.stop()
            task.thread.join(60)
            assert not task.thread.is_alive(), "the lock is held for as long as this block lasts"
            eventually(lambda: not postgres.query(waits, f'%"{table}"%'), what="its backend has ended")
    assert values(postgres, table) == Counter()


def test_an_attempt_that_lost_its_units_in_mid_copy_writes_nothing(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 100)
    old = CopyTask(session, cluster, postgres, table, places, SLOW_VALUES, generation=1)
    new = CopyTask(session, cluster, postgres, table, places, generation=2)
    with old:
        eventually(lambda: copying(postgres, table), 60, f"{old.error} {old.said}")
        with new:
            eventually(lambda: values(postgres, table) == values_of(places, 100), 60, f"{new.error}")
            assert copying(postgres, table), "the older attempt still copies"
            eventually(lambda: isinstance(old.error, Replaced), 60, f"{old.said}")
    assert values(postgres, table) == values_of(places, 100)
    assert new.loop.counts.failures == 0


@pytest.mark.parametrize(
    "deletes",
    [
        pytest.param(
            False,
            marks=pytest.mark.long(
                "tests/runtime/test_copy_batches.py::"
                "test_slots_with_common_keys_neither_deadlock_for_good_nor_lose_a_key"
            ),
        ),
        True,
    ],
)
def test_slots_with_common_keys_neither_deadlock_for_good_nor_lose_a_key(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str, deletes: bool
) -> None:
    places = cluster.create(unique, 4)
    postgres.query(f"CREATE TABLE {table}_keys (id integer PRIMARY KEY, number integer)")
    for round_ in range(3):
        for place in places:
            cluster.produce(place, [b"%d %d" % (n % 500, 1_000 * round_ + n) for n in range(1_000)])
    columns = ["CAST(split(value, ' ')[0] AS INT) AS id", "CAST(split(value, ' ')[1] AS INT) AS number"]
    if deletes:
        # All of the last round are kept.
        columns.append(
            "CAST(split(value, ' ')[1] AS INT) % 3 = 0 AND split(value, ' ')[1] < 2000 AS __deleted"
        )
    limits = Limits(250, 1_000)
    keyed = f"{table}_keys"
    task = CopyTask(
        session, cluster, postgres, keyed, places, columns, key=("id",), slot_size=10, limits=limits
    )
    with task:
        wanted = dict.fromkeys(places, 3_000)
        eventually(lambda: task.reached(postgres) == wanted, 90, f"{task.error} {task.said}")
    assert postgres.query(f"SELECT id, number FROM {keyed} ORDER BY id") == [
        (n, 2_500 + n) for n in range(500)
    ]
    assert task.error is None


def test_a_batch_without_rows_moves_the_positions(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 10)
    none = "explode(array_remove(array(CAST(value AS STRING)), CAST(value AS STRING))) AS value"
    with CopyTask(session, cluster, postgres, table, places, [none]) as task:
        eventually(lambda: task.reached(postgres) == dict.fromkeys(places, 10), 60, f"{task.error}")
    assert task.loop.counts.rows == 0
    assert values(postgres, table) == Counter()


@pytest.mark.parametrize(
    ("column", "error"),
    [
        ("concat(CAST(value AS STRING), '\\u0000') AS value", "column value contains the character U[+]0000"),
        ("'x' AS missing", 'column "missing" of relation'),
    ],
)
def test_a_value_that_the_database_cannot_hold_fails_the_batch(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str, column: str, error: str
) -> None:
    places = cluster.create(unique, 1)
    cluster.fill(places, 10)
    with CopyTask(session, cluster, postgres, table, places, [column]) as task:
        task.thread.join(60)
    with pytest.raises(BatchFailed, match=error):
        raise task.error or AssertionError("it has no error")


def test_a_batch_that_is_repeated_after_its_commit_writes_nothing_more(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    """Spark repeats the task of a slot when its executor is lost."""
    places = cluster.create(unique, 2)
    cluster.fill(places, 100)
    task = CopyTask(session, cluster, postgres, table, places)
    owned = task.loop.ownership.claim()

    def run(starts: int, end: int, session: str = owned.session) -> Outcome:
        ranges = [[OffsetRange(place, starts, end)] for place in places]
        stands = {place: task.loop.ownership.record(place, Stand(end)) for place in places}
        return task.batches.run(session, ranges, stands)

    assert run(0, 0).failures == ()
    lines = [task.batches._units.line(str(place)) for place in places]
    assert run(0, 100) == Outcome(200, [], dict.fromkeys(places, 100))
    assert [task.batches._units.line(str(place)) for place in places] == lines
    assert run(0, 100).rows == 200, "it is done"
    assert values(postgres, table) == values_of(places, 100)
    late = run(0, 50)
    assert {failure.kind for failure in late.failures} == {FailureKind.RETRIABLE}
    assert "is at 100, not at 0" in late.failures[0].error
    task.loop.ownership.recover()
    late = run(0, 100)
    assert "is claimed anew" in late.failures[0].error
    assert values(postgres, table) == values_of(places, 100)
    task.batches.close()
    task.loop.stop()
    task.watcher.close()


@pytest.mark.long(
    "tests/runtime/test_kafka_to_postgres.py::test_a_database_that_is_away_for_a_while_stops_no_task"
)
def test_a_database_that_crashes_again_and_again_has_each_row_once(
    session: Any, cluster: Cluster, postgres: Postgres, table: str, unique: str
) -> None:
    places = cluster.create(unique, 3)
    cluster.fill(places, 4_000)
    limits = Limits(200, 400)
    with CopyTask(session, cluster, postgres, table, places, limits=limits, slot_size=50) as task:
        for turn in range(4):
            eventually(lambda turn=turn: postgres.count(table) > 500 * (turn + 1), 60, f"{task.said}")
            postgres.stop()
            postgres.start()
        task.loop.limits = Limits(10_000, 10_000)
        eventually(lambda: postgres.count(table) >= 12_000, 120, f"{task.error} {task.said}")
    assert values(postgres, table) == values_of(places, 4_000)
    assert task.error is None
