"""A hand-back that cannot be made even ends within its bound, and says what it lacked."""

import threading
from concurrent.futures import Future
from unittest.mock import Mock

import pytest

from cooperator.leader import events as ev
from cooperator.leader.await_even import await_even


class StuckLead:
    """``lacks``: what is lacking, in turn, the last one for ever; None: its thread does not answer."""

    def __init__(self, *lacks: str | None) -> None:
        self._lacks = list(lacks)
        self.submit = Mock()

    def lacks_for_hand_back(self) -> "Future[object]":
        future: Future[object] = Future()
        what = self._lacks.pop(0) if len(self._lacks) > 1 else self._lacks[0]
        if what is not None:
            future.set_result(what)
        return future


@pytest.mark.parametrize(
    ("lacks", "message"), [("a-0 is run by 0 workers", "a-0 is run by 0 workers"), (None, "the leader waits")]
)
def test_it_ends_within_its_bound(lacks: str | None, message: str) -> None:
    lead, said = StuckLead(lacks), []
    # Nothing but the bound ends it.
    assert message in await_even(lead, 0.5, threading.Event(), said.append)  # type: ignore[arg-type]
    assert len(said) == 1, "said once, as it does not change"
    assert lead.submit.call_args.args == (ev.HandBack(wanted=False),), "this leader leads on"


class SlowLead(StuckLead):
    """Its thread answers, and takes its time."""

    def lacks_for_hand_back(self) -> "Future[object]":
        future: Future[object] = Future()
        threading.Timer(0.05, future.set_result, ["a task is held"]).start()
        return future


def test_the_last_look_says_the_true_reason_of_a_leader_that_answers() -> None:
    """It had no time left to answer in, and was taken for one that waits for Kafka."""
    lead, said = SlowLead("x"), []
    assert await_even(lead, 0, threading.Event(), said.append) == "a task is held"  # type: ignore[arg-type]
    assert said == ["a task is held"]


def test_the_last_known_obstacle_is_reported_when_the_leader_stops_answering() -> None:
    lead = StuckLead("a task is held", None)
    lacking = await_even(lead, 0.1, threading.Event(), lambda what: None)  # type: ignore[arg-type]
    assert lacking == "a task is held; the leader waits for Kafka"


def test_a_second_signal_ends_it_at_once() -> None:
    given_up = threading.Event()
    lead = StuckLead("a task is held")
    assert await_even(lead, 60, given_up, lambda what: given_up.set()) == "a task is held"  # type: ignore[arg-type]


def test_it_says_what_it_waits_for_whenever_that_changes() -> None:
    said: list[str] = []
    lead = StuckLead("tasks are being moved", "something is being stopped", "")
    assert await_even(lead, 60, threading.Event(), said.append) == ""  # type: ignore[arg-type]
    assert said == ["tasks are being moved", "something is being stopped"]
