"""Waits, within a bound, until a group is laid out evenly (see ``handback``)."""

import threading
import time
from collections.abc import Callable
from typing import Final

from cooperator.leader import events as ev
from cooperator.leader.leader_thread import LeaderThread

_LOOK_S: Final = 0.2
_ANSWER_S: Final = 1.0
"""A leader that takes longer (s) waits for Kafka: else it answers between two events."""
_NO_ANSWER: Final = "the leader waits for Kafka"


def await_even(
    lead: LeaderThread, timeout_s: float, given_up: threading.Event, on_wait: Callable[[str], None]
) -> str:
    """Have ``lead`` make the layout even; returns an empty string once it is.

    After ``timeout_s`` (and at most a second more), or when ``given_up`` is set, returns what the layout
    still lacks. ``on_wait`` is called with what is awaited, whenever that changes.
    """
    deadline = time.monotonic() + timeout_s
    lead.submit(ev.HandBack())
    known = said = ""
    while True:
        answer = _lacks(lead)
        if answer == "":
            return ""
        known = known if answer is None else answer
        what = "; ".join(filter(None, (known, _NO_ANSWER if answer is None else "")))
        if what != said:
            on_wait(what)
        said = what
        if time.monotonic() > deadline or given_up.wait(_LOOK_S):
            lead.submit(ev.HandBack(wanted=False))
            return what


def _lacks(lead: LeaderThread) -> str | None:
    """None: the leader does not answer."""
    try:
        return str(lead.lacks_for_hand_back().result(_ANSWER_S))
    except TimeoutError:
        return None
