"""The part of the ``leader`` package that a member uses while the broker makes it the leader."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol

from cooperator.agent.options import WorkerOptions
from cooperator.group import Joined, Round
from cooperator.leader.actuator import GroupHandle
from cooperator.leader.endpoint import Handler
from cooperator.leader.member_lead import MemberLead
from cooperator.logs import Logs


class ElectedLead(Protocol):
    """Leads from the first ``plan`` until ``lost``. Calls return at once. See ``leader.member_lead``."""

    @property
    def offers_reconciliation(self) -> bool: ...
    def routes(self) -> Mapping[str, Handler]: ...
    def joining(self) -> None: ...
    def plan(self, round_: Round) -> "Future[Mapping[str, bytes]]": ...
    def joined(self, joined: Joined) -> None: ...
    def round_void(self, generation: int) -> None: ...
    def lost(self, reason: str) -> None: ...
    def stop(self, timeout_s: float) -> None: ...


MakeLead = Callable[[str, GroupHandle, Logs, WorkerOptions, Callable[[], int]], ElectedLead]
"""Makes a lead from (own URL, group, logs, options, age in ms of the last contact with the broker)."""


def member_lead(
    url: str, group: GroupHandle, logs: Logs, options: WorkerOptions, contact_age_ms: Callable[[], int]
) -> ElectedLead:
    return MemberLead(url, group, logs, options, contact_age_ms)
