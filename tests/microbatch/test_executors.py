"""Slots on executors of a standalone cluster: each has its producer there, and an executor may be killed."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from cooperator.connectors.dead_letters import Letter
from cooperator.connectors.decoder import SettledColumn
from cooperator.connectors.microbatch.collected import CollectedBatches
from cooperator.connectors.microbatch.left_out import LeavingOut
from cooperator.connectors.microbatch.planned_first import PlannedFirst
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.microbatch.spark_batches import BatchSource, BatchTarget
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.planned_decoding import DecodingPlanner
from tests.harness.encoders import json_schema_encoder
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.microbatch.tasks import Task
from tests.runtime.spark_servers import executors, two_executors

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def far_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with two_executors(tmp_path_factory.mktemp("standalone")) as session:
        yield session


@pytest.mark.long(
    "tests/microbatch/test_transactions.py::"
    "test_a_fenced_slot_commits_nothing_and_an_attempt_that_still_owns_its_units_goes_on"
)
def test_slots_run_where_their_producers_are_and_go_on_when_an_executor_is_killed(
    far_session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 4)
    cluster.fill(places, 500)
    with Task(far_session, cluster, unique, places, slot_size=100) as task:
        eventually(lambda: task.reached() == dict.fromkeys(places, 500), 120, f"{task.error} {task.said}")
        for count in (600, 700, 800):
            cluster.fill(places, 100)
            eventually(lambda count=count: task.reached() == dict.fromkeys(places, count), 60)
        assert task.ownership.recoveries == 0, task.said
        executors()[0].kill()
        cluster.fill(places, 200)
        eventually(lambda: task.reached() == dict.fromkeys(places, 1_000), 120, f"{task.error} {task.said}")
        assert task.ownership.recoveries > 0
    whole = [
        f"{place}:{number}"
        for place in places
        for count in (500, 100, 100, 100, 200)
        for number in range(count)
    ]
    assert task.values() == sorted(whole)


@pytest.mark.long(
    "tests/runtime/test_planned_batches.py::"
    "test_clean_batches_are_converted_in_the_plan_and_a_bad_record_is_left_out_once"
)
def test_executors_decode_records_and_a_slot_with_a_bad_one_goes_on_with_its_producer(
    far_session: Any, cluster: Cluster, unique: str
) -> None:
    kind, output = pa.struct([("id", pa.int64())]), f"{unique}-out"
    decoding = DecodingPlanner(far_session).decoding([SettledColumn("value", "json-schema", kind, {})])
    assert decoding is not None

    def in_plan(records: Any) -> Any:
        return decoding.applied(records).selectExpr(
            f"'{output}' AS topic", "CAST(value.id AS STRING) AS value"
        )

    class Refusing:
        """A conversion that refuses each record it is asked for."""

        def refused(self, raw: pa.Table, spark: Any) -> list[Letter]:
            return [Letter(row, "VALUE_CONVERTER", ValueError("bad")) for row in raw.to_pylist()]

        def note(self, letters: Any) -> None: ...

    def letters_of(range_: OffsetRange, letters: Sequence[Letter]) -> list[OutputRecord]:
        return [OutputRecord(None, one.row["value"] + b" is left out", topic=output) for one in letters]

    def by_row(partition: Partition, raw: pa.Table) -> list[OutputRecord]:
        raise AssertionError("no record has to be converted row by row")

    places, write = cluster.create(unique, 4), json_schema_encoder(kind)
    task = Task(far_session, cluster, unique, places, in_plan, slot_size=10)
    source, target = BatchSource(cluster.java), BatchTarget(task.slots, task.positions, dict(cluster.java))
    slow_way = CollectedBatches(far_session, source, lambda rows: rows.select("value"), target, by_row)
    conversion_of: Any = lambda partition: Refusing()  # noqa: E731
    leaving_out = LeavingOut(far_session, conversion_of, letters_of, lambda text: None)
    batches = task.loop.batches = PlannedFirst(lambda partition: task.batches, slow_way, 1_000, leaving_out)
    wanted = 0
    with task:
        for bad in (0, 1, 0):
            for number, place in enumerate(places):
                values = [write({"id": one}) for one in range(50)]
                cluster.produce(place, [*values[:20], *[b"bad"] * (bad if number == 0 else 0), *values[20:]])
            wanted += 200 + bad
            eventually(
                lambda wanted=wanted: sum(task.reached().values()) == wanted, 120, f"{task.error} {task.said}"
            )
        assert task.ownership.recoveries == 0, task.said
    assert batches.counts.refused > 0
    assert (batches.counts.left_out, batches.counts.planned) == (1, 600)
    assert task.values() == sorted(["bad is left out", *(str(one) for one in range(50) for _ in range(12))])
