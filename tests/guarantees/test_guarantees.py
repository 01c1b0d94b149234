"""The table of delivery guarantees (docs/guarantees.md): each cell is a test of the sink's contents."""

from pathlib import Path

import pytest

from cooperator.connectors.base import Delivery
from tests.guarantees import table
from tests.guarantees.faults import FAULTS, Fault
from tests.guarantees.pipeline import Pipeline
from tests.guarantees.pipelines import PIPELINES
from tests.guarantees.pipelines_group import PATIENCE_S, PipelinesGroup
from tests.harness.support import eventually

# A fault strikes all connectors at once; the tests that stay in every run have one of them, or one process.
LONG = {
    "python": pytest.mark.long(
        "tests/agent/test_real_members.py::test_a_process_whose_python_is_killed_takes_its_group_along"
    ),
    "jvm": pytest.mark.long(
        "tests/runtime/test_pipelines.py::"
        "test_a_jvm_that_dies_is_replaced_and_its_tasks_go_on_in_the_same_attempt"
    ),
    "frozen": pytest.mark.long(
        "tests/runtime/test_fence.py::"
        "test_a_query_whose_unit_is_claimed_elsewhere_writes_no_batch_and_no_file_that_counts"
    ),
    "frozen-mid": pytest.mark.long(
        "tests/microbatch/test_replaced.py::"
        "test_an_attempt_that_is_replaced_in_mid_transaction_commits_nothing_of_it"
    ),
    "broker": pytest.mark.long(
        "tests/runtime/test_pipelines.py::test_a_broker_that_is_away_for_a_while_stops_no_task"
    ),
    "move": pytest.mark.long(
        "e2e/test_departures.py::"
        "test_a_drained_node_gives_its_tasks_away_first_and_its_members_come_back_elsewhere"
    ),
    "tasks-max": pytest.mark.long(
        "tests/integration/test_units.py::test_without_a_death_only_changed_tasks_stop"
    ),
    "older": pytest.mark.long(
        "tests/runtime/test_restored_checkpoints.py::"
        "test_an_older_copy_is_refused_and_records_are_neither_lost_nor_doubled"
    ),
    "lost": pytest.mark.long(
        "tests/runtime/test_unit_positions.py::test_a_lost_checkpoint_is_rebuilt_and_the_unit_goes_on"
    ),
    "executor": pytest.mark.long(
        "tests/runtime/test_copy_batches.py::"
        "test_a_batch_that_is_repeated_after_its_commit_writes_nothing_more"
    ),
}
ROWS = [pytest.param(f.on_executors, f, id=f.name, marks=LONG.get(f.name, ())) for f in FAULTS]
DOCS = Path(__file__).parents[2] / "docs" / "guarantees.md"


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.slug())
@pytest.mark.parametrize(("pipelines_group", "after_fault"), ROWS, indirect=True, scope="module")
def test_the_sink_contains_the_input(after_fault: PipelinesGroup, pipeline: type[Pipeline]) -> None:
    there = next(each for each in after_fault.pipelines if type(each) is pipeline)
    eventually(there.complete, PATIENCE_S, f"{there.fed} records are there")
    if there.delivery(there.place) is Delivery.EXACTLY_ONCE:
        assert there.wrong() == {}


def test_the_docs_show_the_tested_table() -> None:
    assert table.MARK in DOCS.read_text()
    shown = DOCS.read_text().partition(table.MARK)[2].partition(table.END)[0]
    assert shown.strip() == table.rendered().strip(), "run: python -m tests.guarantees.table"


def test_every_fault_and_every_row_is_named_once() -> None:
    assert len({fault.name for fault in FAULTS}) == len({fault.title for fault in FAULTS}) == len(FAULTS)
    assert len({row.slug() for row in PIPELINES}) == len({row.title() for row in PIPELINES}) == len(PIPELINES)
    assert all(isinstance(fault, Fault) for fault in FAULTS)
    assert {fault.name for fault in FAULTS} > LONG.keys()
