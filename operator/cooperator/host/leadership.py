"""The leader of one Worker's group: started, told what is wanted and what is known, and handed back."""

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import replace
from typing import Final

from cooperator.crd import compile_policy
from cooperator.host.group import departures
from cooperator.host.leader import OnRestart, changed_connectors, same_leader, started_leader
from cooperator.host.platform import Causes, Observation, event_of
from cooperator.host.status import Leader
from cooperator.leader.service import LeaderService
from cooperator.leader.settings import ServiceSettings
from cooperator.log_lines import within
from cooperator.model import DesiredConnector
from cooperator.planner.view import Facts

log = logging.getLogger(__name__)

_STATUS_S: Final = 0.5
_STATUS_PATIENCE_S: Final = 0.5

StartLeader = Callable[[ServiceSettings, OnRestart], LeaderService]


class Leadership:
    """One thread uses it; any thread may read its attributes.

    ``leader`` is None until its settings are known, and after it was handed back. ``status``: its last known
    projection. ``facts``: what it was told last.
    """

    def __init__(
        self, on_restart: OnRestart, clock_ms: Callable[[], int], start: StartLeader = started_leader
    ) -> None:
        self._on_restart = on_restart
        self._clock_ms = clock_ms
        self._start = start
        self.leader: LeaderService | None = None
        self.status: Leader = {}
        self.facts: Facts | None = None
        self._status_at = float("-inf")
        self._applied: object = None
        self._connectors: Mapping[str, DesiredConnector] = {}

    def refresh(self) -> Leader:
        """Returns the projection, at most a moment old."""
        now = time.monotonic()
        if self.leader is not None and now - self._status_at >= _STATUS_S:
            self.status = self.leader.status(timeout_s=_STATUS_PATIENCE_S)
            self._status_at = now
        return self.status

    def apply(self, seen: Observation) -> frozenset[str]:
        """Has the group led as resources ask for. Returns the names of connectors that have changed.

        Raises OSError when the leader cannot be started.
        """
        settings = seen.settings
        terms = (seen.wanted.terms(), settings and replace(settings, port=0))
        if terms == self._applied:
            return frozenset()
        if settings is not None:
            self._lead(settings)
        if self.leader is None:
            return frozenset()
        self.leader.set_policy(compile_policy(seen.wanted.worker))
        desired = seen.wanted.desired(self._clock_ms())
        changed = changed_connectors(self._connectors, desired.connectors)
        self._connectors = desired.connectors
        with within(event=event_of(seen.causes.resources)):
            self.leader.set_desired(desired)
        self._applied = terms
        return changed

    def tell(self, facts: Facts, causes: Causes) -> None:
        """Passes the facts to the leader, if they have changed."""
        if facts == self.facts:
            return
        departed = departures(self.facts or Facts(), facts)
        self.facts = facts
        # A pod's own events explain its departure better than whatever else has happened meanwhile.
        with within(event=event_of(causes.members[name] for name in departed if name in causes.members)):
            for name in departed:
                with within(member=name):
                    log.info("%s has ended or leaves: the leader is told", name)
            if self.leader is not None:
                self.leader.set_facts(facts)

    def hand_back(self) -> bool:
        """Returns the group to its members, if it is led; False while that is not possible."""
        if self.leader is not None:
            try:
                self.leader.hand_back()
            except TimeoutError as error:
                log.warning("%s", error)
                return False
            self.leader = None
        return True

    def stop(self, leave: bool) -> None:
        """Without ``leave`` the leader keeps its place in the group for the next process."""
        if self.leader is not None:
            self.leader.stop(leave=leave)

    def _lead(self, settings: ServiceSettings) -> None:
        if self.leader is not None:
            if same_leader(self.leader.settings, settings):
                return
            self.leader.stop(leave=False)
        # The leader outlives the event that starts it, so it gets an empty context.
        self.leader = Context().run(self._start, settings, self._on_restart)
        self.leader.set_facts(self.facts or Facts())
