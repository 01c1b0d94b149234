"""Attempts deliver each record once, in every order of their steps; the histories find planted bugs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.microbatch.ownership import Ownership, Seen, Step
from tests.microbatch.attempts import FOREIGN, Broken, Rules
from tests.microbatch.histories import Chance, Tape, run
from tests.simulation.seeds import FIXED, FRESH, first_fresh

LIMIT = 2_000
"""Every planted bug is found within this number of seeds."""

CLAIM, LOOK, FENCE, INITIALISE, READ, TOMBSTONE = Step


@pytest.mark.parametrize("first", [0, first_fresh()], ids=["fixed", "fresh"])
def test_each_record_is_delivered_once_and_the_newest_attempt_delivers(first: int) -> None:
    for seed in range(first, first + (4 * FIXED if first == 0 else FRESH)):
        try:
            run(Chance(seed))
        except Broken as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@given(st.lists(st.integers(0, 119), max_size=1_500))
def test_no_choice_breaks_a_promise(numbers: list[int]) -> None:
    run(Tape(numbers))


class IgnoresNewerClaims(Ownership):
    def _lost(self, seen: Seen) -> str:
        reason = super()._lost(seen)
        return reason if "is gone" in reason else ""


class TrustsALookBeforeItsClaim(Ownership):
    def _lost(self, seen: Seen) -> str:
        reason = super()._lost(seen)
        return "" if "is gone" in reason else reason


class FencesAsManySlotsAsItHas(Ownership):
    def _foreign_ids(self) -> tuple[str, ...]:
        count = self.attempt.slots.count
        return tuple(name for name in super()._foreign_ids() if int(name.rpartition("/")[2]) < count)


def start(*steps: Step, **more: Any) -> Rules:
    return Rules(start=steps, **more)


ROWS = "committed rows are"
DISTURBS = "a newer claim was there before"

PLANTED = {
    "does not read again after fencing": (start(CLAIM, READ, FENCE, INITIALISE, TOMBSTONE), ROWS),
    "reads before it fences": (start(CLAIM, LOOK, READ, FENCE, INITIALISE, TOMBSTONE), ROWS),
    "initialises after it has read": (start(CLAIM, LOOK, FENCE, READ, INITIALISE, TOMBSTONE), ROWS),
    "initialises before it claims": (start(INITIALISE, CLAIM, LOOK, FENCE, READ, TOMBSTONE), DISTURBS),
    "fences no older attempt": (start(CLAIM, LOOK, INITIALISE, READ, TOMBSTONE), ROWS),
    "removes claims before it has fenced": (start(CLAIM, LOOK, TOMBSTONE, FENCE, INITIALISE, READ), ROWS),
    "looks before it claims": (
        start(
            *(LOOK, CLAIM, FENCE, INITIALISE, READ, TOMBSTONE),
            machine=TrustsALookBeforeItsClaim,
            may_disturb=True,
        ),
        ROWS,
    ),
    "ignores newer claims": (Rules(machine=IgnoresNewerClaims, may_disturb=True), ROWS),
    "fences as many slots as it has": (Rules(machine=FencesAsManySlotsAsItHas), ROWS),
    "recovers without reading": (Rules(recovery=(LOOK, INITIALISE)), ROWS),
    "recovers without initialising": (Rules(recovery=(LOOK, READ)), ""),
    "recovers by reading first": (Rules(recovery=(LOOK, READ, INITIALISE)), ROWS),
    "recovers without looking": (Rules(recovery=(INITIALISE, READ)), DISTURBS),
    "initialises where a producer is missing": (Rules(writers_initialise=True), ROWS),
    "writes by a producer of another session": (Rules(any_session=True), ROWS),
    "numbers sessions alike in all attempts": (Rules(bare_sessions=True), ROWS),
    "does not wait for open transactions": (Rules(reads_to_stable=True), ROWS),
    "changes offsets without fencing": (
        Rules(altering=(CLAIM, LOOK, INITIALISE, READ, TOMBSTONE)),
        ROWS,
    ),
    "changes offsets that it has read before": (
        Rules(altering=(CLAIM, LOOK, READ, FENCE, INITIALISE, TOMBSTONE)),
        ROWS,
    ),
    "names ids by the task": (Rules(ids_by_task=True), FOREIGN),
}


SHOWN_BY = {
    "removes claims before it has fenced": (219,),
    "fences as many slots as it has": (129,),
    "does not wait for open transactions": (600,),
}
"""The first seeds that show bugs which few seeds show. They are tried first, and then all."""


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    rules, expected = PLANTED[bug]
    for seed in (*SHOWN_BY.get(bug, ()), *range(LIMIT)):
        try:
            run(Chance(seed), rules)
        except Broken as error:
            if expected in str(error).splitlines()[0]:
                return
    raise AssertionError(f"no seed below {LIMIT} shows it")
