"""The phase of a member, as the status of its Worker shows it. Pure."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

MESSAGES: Final = {
    "Warming": "its runtime is starting: until it is up, the member gets no task that another member runs",
    "Adopted": "this Worker did not start it, and neither replaces nor ends it",
    "Stalled": "its runtime failed to start (see its log): it gets no task that another member can run",
}
"""Messages of members by phase; while the runtime is not up, the phase is the runtime's own state."""


class MemberIncarnation(Protocol):
    """The newest incarnation of a member's pod. Times are milliseconds since the epoch.

    * ``incarnation``, ``past`` (earlier ones, all ended): the member's own names of its incarnations.
    * ``removed``: nothing of the pod is left.
    * ``marked_for``: the reason for its removal; empty if it stays.
    * ``pid``: on this machine.
    """

    @property
    def identity(self) -> str: ...
    @property
    def incarnation(self) -> str: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def ended_ms(self) -> int | None: ...
    @property
    def ended(self) -> bool: ...
    @property
    def terminating_ms(self) -> int | None: ...
    @property
    def marked_for(self) -> str: ...
    @property
    def past(self) -> tuple[str, ...]: ...
    @property
    def restarts(self) -> int: ...
    @property
    def removed(self) -> bool: ...
    @property
    def pid(self) -> int | None: ...


def phase_of(incarnation: MemberIncarnation | None, member: Mapping[str, Any] | None) -> str:
    if incarnation is not None and incarnation.ended:
        return "Ended"
    leaving = incarnation is not None and (incarnation.terminating_ms is not None or incarnation.marked_for)
    if leaving or (member and member["draining"]):
        return "Draining"
    if member is None:
        return "Pending"
    if incarnation is None and not member.get("is_agent", True):
        return "Adopted"
    runtime: str = member["runtime"]
    return runtime if runtime in MESSAGES else "Running"
