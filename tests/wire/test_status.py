"""The records of the status log: Connect's own format, and what we add to it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from cooperator.model import INSTANCE, Epoch, TaskId, TaskState, TaskStatus
from cooperator.wire import (
    DecodeError,
    Record,
    StatusTombstone,
    Unknown,
    apply_status,
    decode_status,
    encode_status,
    encode_status_tombstone,
)
from tests.wire.strategies import STATUSES

STOCK_STATES = {"UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "DESTROYED", "RESTARTING", "STOPPED"}
TASK = TaskId("x-1", 12)
RUNNING = TaskStatus(TASK, TaskState.RUNNING, "lake-0", Epoch(3, 7))


@given(STATUSES)
def test_a_status_comes_back(status: TaskStatus) -> None:
    assert decode_status(encode_status(status)) == status


@given(STATUSES)
def test_a_stock_worker_can_read_every_status(status: TaskStatus) -> None:
    """Its reader casts each field, and drops the record when one is not as it expects."""
    value = json.loads(encode_status(status).value or b"")

    assert value["state"] in STOCK_STATES
    assert value["trace"] is None or isinstance(value["trace"], str)
    assert isinstance(value["worker_id"], str)
    assert type(value["generation"]) is int
    assert value.keys() <= {"state", "trace", "worker_id", "generation", "cooperator"}


def test_the_bytes_are_connects_with_our_field_after_them() -> None:
    status = replace(RUNNING, at_ms=5, progress="12 rows")

    assert encode_status(status) == Record(
        "status-task-x-1-12",
        b'{"state":"RUNNING","trace":null,"worker_id":"lake-0","generation":7,'
        b'"cooperator":{"term":3,"at_ms":5,"progress":"12 rows"}}',
    )
    assert encode_status(replace(status, task=TaskId("x", INSTANCE))).key == "status-connector-x"


def test_a_task_that_waits_for_its_next_attempt_says_when_that_is() -> None:
    status = replace(
        RUNNING, state=TaskState.RESTARTING, trace="no disk", at_ms=5, reason="Why", next_attempt_ms=10_005
    )
    record = encode_status(status)

    assert json.loads(record.value or b"")["cooperator"] == {
        "term": 3,
        "at_ms": 5,
        "reason": "Why",
        "next_attempt_ms": 10_005,
    }
    assert decode_status(record) == status


@pytest.mark.parametrize(
    ("state", "stock"),
    [
        (TaskState.STARTING, "UNASSIGNED"),
        (TaskState.STOPPING, "RUNNING"),
        (TaskState.HELD, "UNASSIGNED"),
    ],
)
def test_states_of_ours_are_shown_as_the_nearest_stock_one(state: TaskState, stock: str) -> None:
    record = encode_status(replace(RUNNING, state=state))

    assert json.loads(record.value or b"")["state"] == stock
    assert decode_status(record) == replace(RUNNING, state=state)


def test_statuses_of_stock_workers_are_read() -> None:
    value = b'{"state":"FAILED","trace":"boom","worker_id":"10.0.0.1:8083","generation":4,"version":"4.3.1"}'

    assert decode_status(Record("status-connector-a", value)) == TaskStatus(
        TaskId("a", INSTANCE), TaskState.FAILED, "10.0.0.1:8083", Epoch(0, 4), trace="boom"
    )


@pytest.mark.parametrize("task", [TASK, TaskId("x", INSTANCE), TaskId("task-x", 0)])
def test_a_tombstone_names_its_task(task: TaskId) -> None:
    assert decode_status(encode_status_tombstone(task)) == StatusTombstone(task)


@pytest.mark.parametrize(
    "key", ["status-topic-t:connector-a", "status-task-a", "status-connector-", "status-task-a-2147483648"]
)
def test_other_keys_are_unknown(key: str) -> None:
    assert decode_status(Record(key, b"{}")) == Unknown(key, "no task's or connector's key")


def test_a_malformed_status_names_the_field() -> None:
    with pytest.raises(DecodeError, match=r"status-task-a-0\.state: int instead of str"):
        decode_status(Record("status-task-a-0", b'{"state":3}'))
    with pytest.raises(DecodeError, match=r"status-task-a-0\.generation: str instead of int"):
        decode_status(Record("status-task-a-0", b'{"state":"RUNNING","generation":"7"}'))


def test_the_last_word_of_a_worker_counts() -> None:
    statuses: dict[TaskId, TaskStatus] = {}

    assert apply_status(statuses, RUNNING)
    assert not apply_status(statuses, RUNNING), "nothing changed"
    failed = replace(RUNNING, state=TaskState.FAILED)
    assert apply_status(statuses, failed)
    assert statuses == {TASK: failed}
    assert not apply_status(statuses, Unknown("status-topic-t", ""))
    assert apply_status(statuses, StatusTombstone(TASK))
    assert not apply_status(statuses, StatusTombstone(TASK))
    assert statuses == {}


def test_a_late_goodbye_does_not_hide_the_next_incarnation() -> None:
    """lake-0 stopped the task in round 7; its word comes after lake-1 started it in round 8."""
    statuses = {TASK: replace(RUNNING, worker="lake-1", epoch=Epoch(3, 8))}
    goodbye = replace(RUNNING, state=TaskState.UNASSIGNED)

    assert not apply_status(statuses, goodbye)
    assert statuses[TASK].worker == "lake-1"
    # Its own last word always counts, whatever the epoch; and a goodbye to what has ended harms nobody,
    # unless it is known to be of an earlier round.
    assert apply_status(dict(statuses), replace(goodbye, worker="lake-1"))
    ended = {TASK: replace(statuses[TASK], state=TaskState.STOPPED)}
    assert not apply_status(ended, goodbye)
    assert apply_status(ended, replace(goodbye, epoch=Epoch(2, 7)))
    # The same round is not an earlier one. Round 9 of the term is later, as is any round of the next term.
    assert apply_status(dict(statuses), replace(goodbye, epoch=Epoch(3, 8)))
    assert apply_status(dict(statuses), replace(goodbye, epoch=Epoch(3, 9)))
    assert apply_status(dict(statuses), replace(goodbye, epoch=Epoch(4, 1)))


def test_a_record_that_waited_for_the_broker_does_not_hide_the_next_owner() -> None:
    """lake-0 started the task in round 7 and lost the broker; its record arrives while lake-1 runs it."""
    statuses = {TASK: replace(RUNNING, worker="lake-1", epoch=Epoch(3, 8), at_ms=2_000)}
    late = replace(RUNNING, at_ms=1_000)

    assert not apply_status(statuses, late)
    assert statuses[TASK].worker == "lake-1"
    # Within a term rounds decide: the clock of lake-1's machine may have been set back.
    assert not apply_status(statuses, replace(late, at_ms=3_000))
    assert not apply_status(statuses, replace(late, epoch=Epoch(1, 9)))
    # Terms count from the beginning when the topics of a group are created again: then its time is later.
    assert apply_status(dict(statuses), replace(late, epoch=Epoch(1, 1), at_ms=3_000))
    # A stock worker's record has neither a term nor a time.
    assert apply_status(dict(statuses), replace(late, epoch=Epoch(0, 9), at_ms=0))


def test_the_loser_of_two_that_run_a_task_does_not_hide_the_winner() -> None:
    """The leader takes the task from lake-0, which says so later, and under an older round."""
    statuses = {TASK: replace(RUNNING, worker="lake-1", epoch=Epoch(3, 8), at_ms=2_000)}
    for state in (TaskState.STOPPING, TaskState.UNASSIGNED):
        assert not apply_status(statuses, replace(RUNNING, state=state, epoch=Epoch(2, 9), at_ms=3_000))
