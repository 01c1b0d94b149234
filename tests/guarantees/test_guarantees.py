"""The table of delivery guarantees (docs/guarantees.md): each cell is a test of the sink's contents."""

from pathlib import Path

import pytest

from cooperator.connectors.base import Delivery
from tests.guarantees import table
from tests.guarantees.faults import FAULTS, Fault
from tests.guarantees.pipeline import Pipeline
from tests.guarantees.pipelines import PIPELINES
from tests.guarantees.pipelines_group import PATIENCE_S, PipelinesGroup
from tests.harness.support import eventually, slow

# The whole table takes minutes more, so it is marked slow and runs when its subject changes.
SLOW = slow("env -u CI pytest tests/guarantees")
ROWS = [pytest.param(f.on_executors, f, id=f.name, marks=() if f.in_ci else (SLOW,)) for f in FAULTS]
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
