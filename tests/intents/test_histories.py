"""Visible rows are the source's, once, in every order of the attempts' steps; histories find planted bugs."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.intents.machine import (
    Action,
    Created,
    Hold,
    Look,
    Read,
    Recover,
    Tidy,
    UnitMachine,
)
from cooperator.connectors.intents.values import Intent, StagedFile
from tests.intents.histories import Broken, Directory, Rules, run
from tests.microbatch.histories import Chance, Tape
from tests.simulation.seeds import FIXED, FRESH, first_fresh

LIMIT = 3_000
"""Every planted bug is found within this number of seeds."""


@pytest.mark.parametrize("first", [0, first_fresh()], ids=["fixed", "fresh"])
def test_each_row_is_visible_once_and_the_newest_attempt_delivers(first: int) -> None:
    for seed in range(first, first + (2 * FIXED if first == 0 else FRESH)):
        try:
            run(Chance(seed))
        except Broken as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@given(st.lists(st.integers(0, 119), max_size=1_200))
def test_no_choice_breaks_a_promise(numbers: list[int]) -> None:
    run(Tape(numbers))


class PublishesWithoutALook(UnitMachine):
    def on(self, event: object) -> Action:
        action = super().on(event)
        return self._be(self._looked(self._number)) if isinstance(action, Look) else action

    def _be(self, action: Action) -> Action:
        self._action = action
        return action


class BeginsNoSession(PublishesWithoutALook):
    """It owns the unit as soon as it has read the log, and never writes an intent without files."""

    def _published(self) -> Action:
        self._begun = True
        if self._last is None:
            self._last = Intent(self._session, None, None)
        return super()._published()


class LeavesThePredecessorsCut(UnitMachine):
    def _finish(self) -> Action:
        return super()._finish() if self._begun else self._published()


class ForgetsFilesThatItLeaves(UnitMachine):
    """An operation without Spark moves the position, and the cut before it is not visible yet."""

    def _left(self) -> tuple[StagedFile, ...]:
        return ()


class GoesOnAfterAFailure(PublishesWithoutALook):
    def on(self, event: object) -> Action:
        if isinstance(event, Recover) and self._begun and not isinstance(self._action, Read):
            return self._be(Hold(self._base, self._entry()))
        return super().on(event)


class RecoversInTheSameSession(UnitMachine):
    def _anew(self) -> Action:
        return Read() if self._begun else super()._anew()

    def _published(self) -> Action:
        action = super()._published()
        return replace(action, base=self._base) if isinstance(action, Tidy) else action


class TakesATakenNumberForItsOwn(UnitMachine):
    def on(self, event: object) -> Action:
        return super().on(Created(True) if isinstance(event, Created) else event)


class IgnoresNewerSessions(UnitMachine):
    def _found(self, number: int, intent: Intent | None) -> Action:
        self._number, self._last = number, intent
        if intent is not None and intent.session == self._session:
            self._begun = True
        return self._finish()


class DiscardsBeforeItsSession(PublishesWithoutALook):
    """It discards older sessions' files before its own intent is there, and before it finishes their cut."""

    def _finish(self) -> Action:
        return super()._finish() if self._begun or self._is_tidy else Tidy(0, self._number + 1)

    _is_tidy = False

    def on(self, event: object) -> Action:
        if isinstance(self._action, Tidy) and not self._begun and not isinstance(event, Recover):
            self._is_tidy = True
            return self._be(self._finish())
        self._is_tidy = False
        return UnitMachine.on(self, event)


class RemovesTheNewest(UnitMachine):
    def on(self, event: object) -> Action:
        action = super().on(event)
        if isinstance(action, Tidy):
            action = self._action = replace(action, below=action.below + 1)
        return action


@dataclass
class Replacing(Directory):
    def create(self, unit: str, number: int, intent: Intent) -> bool:
        self.logs[unit][number] = intent
        return True


@dataclass
class CopyingIfAbsent(Directory):
    """Its staged files outlive their copies, as a look before a copy has it."""

    def publish(self, file: StagedFile) -> None:
        if file.token in self.staged and file.name not in self.visible:
            unit, _, rows = self.staged[file.token]
            self.visible[file.name] = (unit, rows)


PLANTED = {
    "publishes without a look": Rules(machine=PublishesWithoutALook),
    "begins no session": Rules(machine=BeginsNoSession),
    "leaves the predecessor's cut": Rules(machine=LeavesThePredecessorsCut),
    "forgets files that it leaves": Rules(machine=ForgetsFilesThatItLeaves),
    "goes on after a failure": Rules(machine=GoesOnAfterAFailure),
    "recovers in the same session": Rules(machine=RecoversInTheSameSession, discards=lambda o, m: o <= m),
    "takes a taken number for its own": Rules(machine=TakesATakenNumberForItsOwn),
    "ignores newer sessions": Rules(machine=IgnoresNewerSessions),
    "discards before its session": Rules(machine=DiscardsBeforeItsSession),
    "discards newer sessions' files": Rules(discards=lambda other, mine: other != mine),
    "removes the newest intent": Rules(machine=RemovesTheNewest),
    "replaces an intent": Rules(directory=Replacing),
    "copies a file that is absent": Rules(directory=CopyingIfAbsent),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    for seed in range(LIMIT):
        try:
            run(Chance(seed), PLANTED[bug])
        except Broken:
            return
    raise AssertionError(f"no seed below {LIMIT} shows it")
