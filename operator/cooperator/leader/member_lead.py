"""The small part of leading that a member needs when the broker makes it the leader.

It plans with the operator's planner, policy and memory (they are in the leader log) but knows nothing of
pods, so every absence is held in full. It loses the lead when the returning operator evicts it from the
group.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from cooperator.group import Joined, Round
from cooperator.leader import events as ev
from cooperator.leader.actuator import GroupHandle
from cooperator.leader.endpoint import Handler
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.plugins import installed_assignors
from cooperator.leader.routes import LeaderRoutes, LeaseTimes
from cooperator.leader.state import LeaderSettings
from cooperator.logs import Logs


class MemberLead:
    """Leads from any call of ``plan`` until ``lost``. Thread-safe; every call returns at once.

    ``url``: this member's own endpoint, which must serve ``routes()``. ``contact_age_ms``: time since this
    member sent its last answered request to the broker.
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
        # Only the operator, which knows the desired state, deletes connectors; a member keeps existing ones
        # going.
        settings = LeaderSettings(url=url, owns_config=False, assignors=installed_assignors())
        self._lead = LeaderThread(LeaderMachine(settings), group, logs, policy_of_log=True)
        self._routes = LeaderRoutes(lambda: (self._lead, self._logs), contact_age_ms, times)
        self._lead.start()

    @property
    def offers_reconciliation(self) -> bool:
        """Whether this member, while it leads, offers the protocol in which rounds assign no tasks."""
        return self._lead.offers_reconciliation

    def routes(self) -> dict[str, Handler]:
        return self._routes.all()

    def joining(self) -> None:
        """This member's own JoinGroup is about to be sent."""
        self._lead.joining()

    def plan(self, round_: Round) -> "Future[Mapping[str, bytes]]":
        return self._lead.plan(round_)

    def joined(self, joined: Joined) -> None:
        """A round is complete; only rounds that this member has planned matter here."""
        self._lead.submit(ev.Delivered(joined.generation))

    def round_void(self, generation: int) -> None:
        self._lead.submit(ev.RoundFailed(generation, ""))

    def lost(self, reason: str) -> None:
        """This member no longer leads: it was dropped, or another member leads."""
        self._lead.lost(reason)

    def stop(self, timeout_s: float = 10) -> None:
        self._lead.stop(timeout_s)
