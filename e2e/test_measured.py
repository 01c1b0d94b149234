"""The inputs of the table of faults."""

from cooperator.model import Epoch, TaskId, TaskState, TaskStatus
from e2e.measured import Cost, Fault, cost, where

ONE, TWO = TaskId("a", 0), TaskId("a", 1)


def record(task: TaskId, state: TaskState, member: str, at_ms: int, generation: int = 1) -> TaskStatus:
    return TaskStatus(task, state, member, Epoch(1, generation), at_ms)


BEFORE = (
    record(ONE, TaskState.RUNNING, "x", 100),
    record(TWO, TaskState.RUNNING, "y", 100),
)


def test_a_member_that_dies_and_returns_costs_its_absence() -> None:
    records = (*BEFORE, record(ONE, TaskState.RUNNING, "x", 9_000, 2))
    fault = Fault(1_000, {"x": 2_000})
    assert cost(records, fault, 2) == Cost(2, moves=0, needless=0, unassigned_task_s=7.0)
    assert where(records) == {ONE: "x", TWO: "y"}


def test_a_task_that_moves_in_order_costs_its_hand_over() -> None:
    records = (
        *BEFORE,
        record(ONE, TaskState.STOPPING, "x", 1_900),
        record(ONE, TaskState.UNASSIGNED, "x", 2_000),
        record(ONE, TaskState.RUNNING, "y", 2_500, 2),
    )
    assert cost(records, Fault(1_000, {"x": None}), 1) == Cost(1, 1, 0, 0.5)


def test_starts_without_a_cause_are_needless() -> None:
    records = (
        *BEFORE,
        record(TWO, TaskState.UNASSIGNED, "y", 2_000),
        record(TWO, TaskState.RUNNING, "y", 2_500, 2),
        record(ONE, TaskState.RUNNING, "y", 2_600, 2),
        record(ONE, TaskState.UNASSIGNED, "y", 2_700, 2),
        record(ONE, TaskState.RUNNING, "x", 2_800, 3),
    )
    assert cost(records, Fault(1_000, {"x": 2_000}), 3).needless == 2, (
        "one start of TWO and the second start of ONE"
    )
    assert cost(records, Fault(1_000, {"x": 2_000}, for_balance=1), 3).needless == 1


def test_an_incarnation_ends_with_the_report_of_its_own_member() -> None:
    again = record(ONE, TaskState.STARTING, "x", 2_000), record(ONE, TaskState.RUNNING, "x", 2_300)
    assert cost((*BEFORE, *again), Fault(1_000, {"x": None}), 0) == Cost(0, 0, 0, 0.3)
    early = record(ONE, TaskState.STARTING, "y", 2_000, 2)
    assert where((*BEFORE, early)) == {ONE: "x", TWO: "y"}


def test_a_task_created_during_the_fault_costs_nothing() -> None:
    assert cost((record(ONE, TaskState.RUNNING, "x", 2_000),), Fault(1_000, {}), 1) == Cost(1, 0, 0, 0.0)
