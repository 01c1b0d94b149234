"""The table of neighbours: whatever happens to one part, all others deliver, and its cause is shown.

Each cell is a test with a real member. Each fault decides about a change with one pipeline; its cells with
the others are long.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.support import eventually
from tests.neighbours import table
from tests.neighbours.faults import BROKEN, OTHERS, Fault
from tests.neighbours.pipelines import PARTS, PIPELINES, Pipeline, World
from tests.neighbours.table import FAULTS

DELIVERED_S: Final = 20.0
SHOWN_S: Final = 20.0
GONE_S: Final = 10.0
MACHINE_S: Final = 20.0
"""The allowance for a machine that is busy with other tests."""
DOCS: Final = Path(__file__).parents[2] / "docs" / "guarantees.md"
STAYS: Final = "tests/neighbours/test_neighbours.py::test_a_fault_is_shown_and_stops_only_its_part"


def within(limit_s: float, condition: Callable[[], object], what: str) -> None:
    began = time.monotonic()
    eventually(condition, what=what)
    took_s = time.monotonic() - began
    assert took_s < limit_s + MACHINE_S, f"{what}: after {took_s:.0f} s"


CELLS: Final = [(fault, row) for fault in FAULTS for row in PIPELINES if fault.applies(row)]


def names(cells: list[tuple[Fault, type[Pipeline]]]) -> list[str]:
    return [f"{fault.name}-{row.connector_class}" for fault, row in cells]


DECIDE: Final = [(fault, row) for fault, row in CELLS if row is fault.decides]
REST: Final = [(fault, row) for fault, row in CELLS if row is not fault.decides]


@pytest.fixture
def pipeline(
    world: World, neighbours: list[Pipeline], unique: str, cell: tuple[Fault, type[Pipeline]]
) -> Iterator[Pipeline]:
    fault, row = cell
    started = row(world, unique, dict(fault.more))
    started.start()
    yield started
    started.stop()


def check(fault: Fault, pipeline: Pipeline, neighbours: list[Pipeline]) -> None:
    def others_deliver() -> None:
        for part in OTHERS:
            pipeline.feed(part)
        for each in neighbours:
            for part in PARTS:
                each.feed(part)
        within(DELIVERED_S, lambda: not pipeline.missing(OTHERS), "the other parts deliver")
        for each in neighbours:
            within(DELIVERED_S, lambda each=each: not each.missing(PARTS), f"{each.unique} delivers")

    texts = fault.texts(pipeline)

    def is_shown() -> bool:
        said = pipeline.said()
        assert all(text in said for text in texts), f"{texts} are not in: {said}"
        return True

    with fault.broken(pipeline):
        began = time.monotonic()
        others_deliver()
        within(SHOWN_S - (time.monotonic() - began), is_shown, "the cause is shown")
        others_deliver()
        for each in neighbours:
            assert not (said := each.said()), f"{each.unique} waits for nothing: {said}"
    if fault.is_whole_again:
        pipeline.feed(BROKEN)
        within(DELIVERED_S, lambda: not pipeline.missing(PARTS), f"it delivers again: {pipeline.said()}")
        within(GONE_S, lambda: not pipeline.said(), "nothing is waited for")


@pytest.mark.real
@pytest.mark.parametrize("cell", DECIDE, ids=names(DECIDE))
def test_a_fault_is_shown_and_stops_only_its_part(
    cell: tuple[Fault, type[Pipeline]], pipeline: Pipeline, neighbours: list[Pipeline]
) -> None:
    check(cell[0], pipeline, neighbours)


@pytest.mark.real
@pytest.mark.long(STAYS)
@pytest.mark.parametrize("cell", REST, ids=names(REST))
def test_and_so_it_does_with_every_source_and_sink(
    cell: tuple[Fault, type[Pipeline]], pipeline: Pipeline, neighbours: list[Pipeline]
) -> None:
    check(cell[0], pipeline, neighbours)


def test_the_docs_show_the_tested_table() -> None:
    shown = DOCS.read_text().partition(table.MARK)[2].partition(table.END)[0]
    assert shown.strip() == table.rendered().strip(), "run: python -m tests.neighbours.table"


def test_every_fault_decides_with_a_pipeline_that_it_applies_to() -> None:
    assert [fault for fault, _ in DECIDE] == list(FAULTS)
    assert len({fault.name for fault in FAULTS}) == len({fault.title for fault in FAULTS}) == len(FAULTS)
