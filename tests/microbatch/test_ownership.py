"""An attempt's start and recovery, as conversations."""

import pytest

from cooperator.connectors.microbatch.claims import Claim, ClaimKey, Position, TransactionalIds, UnitKey
from cooperator.connectors.microbatch.ownership import (
    Attempt,
    BatchFailed,
    Begin,
    Done,
    Fence,
    Initialise,
    Look,
    Ownership,
    Read,
    Run,
    Seen,
    Stop,
    UnexpectedEvent,
    Write,
)
from cooperator.model import Epoch

A, B = UnitKey("copy", "a-0"), UnitKey("copy", "b-0")
OLD, MINE, NEW = (Claim(Epoch(1, generation), 1, "lake-0") for generation in (1, 2, 3))
SLOTS = TransactionalIds("lake/copy/0", 2)
OTHERS = TransactionalIds("lake/copy/1", 3)
IDS = ("lake/copy/1/0", "lake/copy/1/1", "lake/copy/1/2")


def attempt(*units: UnitKey) -> Ownership:
    return Ownership(Attempt(MINE, units or (A,), SLOTS))


def running(machine: Ownership) -> Ownership:
    alone = Seen({unit: {MINE: SLOTS} for unit in machine.attempt.units})
    for event in (Begin(), Done(), alone, Done(), alone):
        machine.on(event)
    assert isinstance(machine.action, Run)
    return machine


def test_the_first_attempt_has_nobody_to_fence() -> None:
    machine = attempt(A, B)
    records = tuple((ClaimKey(unit, MINE).encode(), SLOTS.encode()) for unit in (A, B))
    assert machine.on(Begin()) == Write(records)
    assert machine.on(Done()) == Look()
    alone = {A: {MINE: SLOTS}, B: {MINE: SLOTS}}
    assert machine.on(Seen(alone)) == Initialise(SLOTS.ids, f"{MINE}/1")
    assert machine.on(Done()) == Read()
    assert machine.on(Seen(alone)) == Run({}, f"{MINE}/1")


def test_older_attempts_are_fenced_before_positions_are_read_and_their_claims_removed_after_that() -> None:
    machine = attempt(A, B)
    machine.on(Begin())
    machine.on(Done())
    claims = {A: {MINE: SLOTS, OLD: OTHERS}, B: {MINE: SLOTS, OLD: OTHERS}}
    assert machine.on(Seen(claims)) == Fence(IDS), "each id once, however many units its claim is on"
    assert machine.on(Done()) == Initialise(SLOTS.ids, f"{MINE}/1")
    assert machine.on(Done()) == Read()
    at = {A: Position(7, OLD)}
    removed = tuple((ClaimKey(unit, OLD).encode(), None) for unit in (A, B))
    assert machine.on(Seen(claims, at)) == Write(removed)
    assert machine.on(Done()) == Run(at, f"{MINE}/1")


def test_ids_in_common_with_an_older_attempt_are_initialised_once_and_all_others_are_fenced() -> None:
    machine = attempt(A)
    machine.on(Begin())
    machine.on(Done())
    of_more_slots = TransactionalIds(SLOTS.prefix, 3)
    assert machine.on(Seen({A: {MINE: SLOTS, OLD: of_more_slots}})) == Fence(("lake/copy/0/2",))
    same = attempt(A)
    same.on(Begin())
    same.on(Done())
    assert same.on(Seen({A: {MINE: SLOTS, OLD: SLOTS}})) == Initialise(SLOTS.ids, f"{MINE}/1")


def test_a_claim_that_appears_after_the_look_is_left_to_find_this_one() -> None:
    machine = attempt(A)
    for event in (Begin(), Done(), Seen({A: {MINE: SLOTS}}), Done()):
        machine.on(event)
    assert machine.on(Seen({A: {MINE: SLOTS, OLD: OTHERS}})) == Run({}, f"{MINE}/1")


def test_a_failed_batch_is_recovered_from_in_a_new_session() -> None:
    machine = running(attempt(A))
    assert machine.on(BatchFailed()) == Look()
    assert machine.on(Seen({A: {MINE: SLOTS}})) == Initialise(SLOTS.ids, f"{MINE}/2")
    assert machine.on(Done()) == Read()
    at = {A: Position(9, MINE)}
    assert machine.on(Seen({A: {MINE: SLOTS}}, at)) == Run(at, f"{MINE}/2")


@pytest.mark.parametrize("found", ["at the look", "after it has initialised", "at a recovery"])
def test_an_attempt_stops_where_it_finds_a_newer_one(found: str) -> None:
    machine = attempt(A, B)
    newer = Seen({A: {MINE: SLOTS}, B: {MINE: SLOTS, NEW: OTHERS}})
    alone = Seen({A: {MINE: SLOTS}, B: {MINE: SLOTS}})
    if found == "at a recovery":
        running(machine).on(BatchFailed())
    else:
        for event in [Begin(), Done(), *([alone, Done()] if found == "after it has initialised" else [])]:
            machine.on(event)
    action = machine.on(newer)
    assert isinstance(action, Stop)
    assert f"unit {B} is claimed by attempt {NEW}, which is newer than this one ({MINE})" in action.reason
    assert "reset or alter its offsets" in action.reason


def test_a_position_of_a_newer_attempt_stops_it_even_without_a_claim() -> None:
    machine = attempt(A)
    for event in (Begin(), Done(), Seen({A: {MINE: SLOTS}}), Done()):
        machine.on(event)
    assert isinstance(machine.on(Seen({A: {MINE: SLOTS}}, {A: Position(3, NEW)})), Stop)


def test_an_attempt_whose_claim_is_gone_owns_nothing_since_no_successor_would_fence_it() -> None:
    machine = running(attempt(A))
    machine.on(BatchFailed())
    action = machine.on(Seen({A: {}}))
    assert isinstance(action, Stop)
    assert f"the claim of this attempt ({MINE}) on unit {A} is gone" in action.reason


def test_an_event_that_answers_nothing_is_refused() -> None:
    machine = attempt(A)
    with pytest.raises(UnexpectedEvent):
        machine.on(Done())
    machine.on(Begin())
    for event in (Begin(), BatchFailed(), Seen({})):
        with pytest.raises(UnexpectedEvent):
            machine.on(event)
    machine.on(Done())
    machine.on(Seen({A: {NEW: OTHERS}}))
    with pytest.raises(UnexpectedEvent):
        machine.on(BatchFailed())


def test_an_attempt_has_each_unit_once() -> None:
    for units in ((), (A, A)):
        with pytest.raises(ValueError, match="use each unit of the task once"):
            Attempt(MINE, units, SLOTS)
