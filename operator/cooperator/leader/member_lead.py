"""The small part of leading that a member needs when the broker makes it the leader.

It plans with the same planner, policy and memory as the operator (they are in the leader log), and knows
nothing of pods: every absence is held in full. It gives the lead back by being evicted from the group
when the operator returns.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from cooperator.group import Joined, Round
from cooperator.leader import events as ev
from cooperator.leader.endpoint import Handler
from cooperator.leader.lead import GroupHandle, Lead
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.routes import LeaderRoutes, LeaseTimes
from cooperator.leader.state import LeaderSettings
from cooperator.logs import Logs


class MemberLead:
    """Leads whenever ``plan`` is called, until ``lost``. Thread-safe; every call returns at once.

    ``url``: this member's own endpoint, which has to serve ``routes()``. ``contact_age_ms``: since this
    member's last answered request to the broker was sent.
    """

    def __init__(
        self,
        url: str,
        group: GroupHandle,
        logs: Logs,
        times: LeaseTimes,
        contact_age_ms: Callable[[], int],
    ) -> None:
        self._logs = logs
        # Connectors are deleted by who knows what is desired; a member only keeps what is there going.
        self._lead = Lead(
            LeaderMachine(LeaderSettings(url=url, owns_config=False)), group, logs, policy_of_log=True
        )
        self._routes = LeaderRoutes(lambda: (self._lead, self._logs), contact_age_ms, times)
        self._lead.start()

    def routes(self) -> dict[str, Handler]:
        return self._routes.all()

    def plan(self, round_: Round) -> "Future[Mapping[str, bytes]]":
        return self._lead.plan(round_)

    def joined(self, joined: Joined) -> None:
        """A round is complete; only one that this member has planned matters here."""
        self._lead.submit(ev.Delivered(joined.generation))

    def round_void(self, generation: int) -> None:
        self._lead.submit(ev.RoundFailed(generation, "the round ended before its assignments were delivered"))

    def lost(self, reason: str) -> None:
        """No longer the leader: dropped, or another member leads."""
        self._lead.lost(reason)

    def stop(self, timeout_s: float = 10) -> None:
        self._lead.stop(timeout_s)
