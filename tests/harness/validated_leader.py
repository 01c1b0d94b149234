"""A leader machine whose invariants are checked after every event."""

from collections import deque
from typing import ClassVar

from cooperator.leader import events as ev
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.state import LeaderSettings
from cooperator.model import Policy


class ValidatedLeader(LeaderMachine):
    """``latest``: the machines made last, whose stories explain a failing test."""

    latest: ClassVar["deque[ValidatedLeader]"] = deque(maxlen=3)

    def __init__(self, settings: LeaderSettings, policy: Policy | None = None) -> None:
        super().__init__(settings, policy)
        self.latest.append(self)

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Instruction]:
        out = super().handle(event, now_ms)
        self.validate()
        return out
