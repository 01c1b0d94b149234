"""The listeners of a member. They are called on other packages' threads, queue events and return."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from cooperator.agent import events as ev
from cooperator.agent.elected_lead import ElectedLead
from cooperator.agent.inbox import Put, RuntimeEvent
from cooperator.agent.options import WorkerOptions
from cooperator.agent.state import Report
from cooperator.agent.synchronized import SynchronizedSupervisor
from cooperator.group import DescribedMember, Joined, Round
from cooperator.log_lines import within
from cooperator.model import Epoch, TaskId
from cooperator.wire import (
    NO_ERROR,
    AgentAssignment,
    AgentReport,
    DecodeError,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
)

log = logging.getLogger(__name__)

PROTOCOLS = (Protocol.SESSIONED, Protocol.COMPATIBLE)
"""Without ``default``: its members revoke everything before a join, and ours do not stop for a join."""

_UNREADABLE = -1
_KEPT = 64
"""Number of recent assignments whose events are kept."""


class AgentGroupListener:
    """Listener of the membership. Set ``url`` and ``lead`` before the membership starts.

    ``is_reconciliation_asked``: whether the policy in the leader log asks for it.
    ``prove``: receives proofs of the lease, which are handled before events queued earlier.
    """

    def __init__(
        self,
        options: WorkerOptions,
        supervisor: SynchronizedSupervisor,
        put: Put,
        prove: Callable[[ev.Contact], None],
    ) -> None:
        self.url = ""
        self.lead: ElectedLead | None = None
        self.is_reconciliation_asked: Callable[[], bool] = lambda: False
        self._options = options
        self._supervisor = supervisor
        self._put = put
        self._prove = prove
        self._leading = False
        self._stops_before_join = False
        self._released: Future[None] | None = None
        self._leader_url = ""
        self._contact_at = float("-inf")
        self._events: dict[Epoch, str] = {}

    def events_of(self, epoch: Epoch | None) -> str:
        """Ids of the events that caused the assignment of this epoch, as known to the leader. Any thread."""
        return self._events.get(epoch, "") if epoch is not None else ""

    def contact_age_ms(self) -> int:
        """Milliseconds since the last answered request was sent. Any thread."""
        return int(min((time.monotonic() - self._contact_at) * 1000, 2**31))

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        if self.lead is not None and self._leading:
            self.lead.joining()
        metadata = self._metadata(self._supervisor.join())
        offered = (Protocol.RECONCILED, *PROTOCOLS) if self._offers_reconciliation() else PROTOCOLS
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in offered]

    def _offers_reconciliation(self) -> bool:
        """A member that leads offers it only while it knows what the others run."""
        if not self._options.reconciles or not self.is_reconciliation_asked():
            return False
        return self.lead is None or not self._leading or self.lead.offers_reconciliation

    def ready_to_join(self) -> "Future[None] | None":
        if not self._stops_before_join:
            return None
        released: Future[None] = Future()
        self._released = released
        self._put(lambda supervisor: ev.JoinAhead())
        return released

    def released(self) -> None:
        """Nothing is owned any more: the JoinGroup that waits may be sent. Any thread."""
        if self._released is not None and not self._released.done():
            self._released.set_result(None)

    def joined(self, joined: Joined) -> None:
        join, report = self._supervisor.answered()
        try:
            assignment = decode_assignment(joined.assignment)
        except DecodeError as error:
            log.error("generation %d: the assignment cannot be read: %s", joined.generation, error)
            assignment = ExtendedAssignment(_UNREADABLE, "", self._leader_url, -1)
        if assignment.agent is not None and assignment.agent.events:
            self._note(assignment.agent, assignment)
        if assignment.error == NO_ERROR:
            agent = assignment.agent
            self._stops_before_join = agent is not None and agent.stops_before_join
        leads = assignment.leader == joined.member_id
        self._leader_url = assignment.leader_url
        if self._leading and self.lead is not None:
            if leads:
                self.lead.joined(joined)
            else:
                self._lose_lead("another member leads")
        self._put(lambda supervisor: self._assignment(supervisor, joined, assignment, join, report, leads))

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        if self.lead is None:
            refusal: Future[Mapping[str, bytes]] = Future()
            refusal.set_exception(RuntimeError("this member cannot lead"))
            return refusal
        self._leading = True
        return self.lead.plan(round)

    def round_void(self, generation: int) -> None:
        if self.lead is not None:
            self.lead.round_void(generation)

    def dropped(self, reason: str) -> None:
        self._lose_lead(reason)
        self._put(lambda supervisor: ev.Dropped(reason))

    def fenced(self) -> None:
        # Only static members are fenced, and this one is dynamic: there is nothing to recover, so stop.
        self._lose_lead("fenced")
        self._put(lambda supervisor: ev.StopRequested(1))

    def contact(self, sent_at: float) -> None:
        self._contact_at = sent_at
        self._prove(ev.Contact(int(sent_at * 1000)))

    def coordinator_lost(self) -> None:
        """Nothing to do: running tasks continue under their lease."""

    def trouble(self, message: str) -> None:
        """Nothing to do: the group has logged it."""

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        return "a worker takes the lead only when the broker gives it"

    def refused(self, reason: str) -> None:
        """Nothing to do: only the leader role is refused."""

    def lead_taken(self, evicted: Sequence[str]) -> None:
        """Nothing to do: leader role only."""

    def lead_lost(self) -> None:
        """Nothing to do: leader role only."""

    def _note(self, agent: AgentAssignment, assignment: ExtendedAssignment) -> None:
        self._events[agent.epoch] = agent.events
        if len(self._events) > _KEPT:
            del self._events[next(iter(self._events))]
        if assignment.assigned or assignment.revoked:
            with within(event=agent.events, generation=str(agent.epoch)):
                log.info(
                    "an assignment under %s: %d new, %d revoked", agent.epoch, *map(len, assignment[4:6])
                )

    def _lose_lead(self, reason: str) -> None:
        was_leading, self._leading = self._leading, False
        if was_leading and self.lead is not None:
            self.lead.lost(reason)

    def _metadata(self, report: Report) -> Metadata:
        options = self._options
        allocation = None
        if report.applied is not None or report.owned:
            allocation = ExtendedAssignment(
                0, "", self._leader_url, report.config_offset, assigned=report.owned
            )
        agent = AgentReport(
            Role.WORKER,
            options.identity,
            options.incarnation,
            stopping=report.stopping,
            draining=report.draining,
            applied=report.applied,
            capacity=options.capacity,
            zone=options.zone,
            nonce=report.nonce,
            warmth=report.warmth,
            learns=options.learns,
            reconciles=options.reconciles,
        )
        return Metadata(self.url, report.config_offset, allocation, agent)

    def _assignment(
        self,
        supervisor: SynchronizedSupervisor,
        joined: Joined,
        assignment: ExtendedAssignment,
        join: int,
        report: Report,
        leads: bool,
    ) -> ev.AssignmentReceived:
        agent = assignment.agent
        supervisor.note_assignment(join)
        return ev.AssignmentReceived(
            # A stock worker that leads writes no epoch; its generations follow those of our leader.
            epoch=Epoch(supervisor.term, joined.generation) if agent is None else agent.epoch,
            answers=report,
            assigned=assignment.assigned,
            revoked=assignment.revoked,
            config_offset=assignment.config_offset,
            lease_ms=self._options.lease_ms if agent is None else agent.lease_ms,
            leader_url=assignment.leader_url,
            leads=leads,
            member_id=joined.member_id,
            error=assignment.error,
            superseded=supervisor.is_superseded(join),
            reconciled=joined.protocol == Protocol.RECONCILED.value,
        )


class AgentRuntimeListener:
    """Listener of the runtime."""

    def __init__(self, put: Put, about: Callable[[TaskId], Mapping[str, object]] = lambda task: {}) -> None:
        """``about``: the context fields of log lines about a task (see ``log_lines``)."""
        self._put = put
        self._about = about

    def started(self, task: TaskId, attempt: int) -> None:
        with within(**self._about(task)):
            log.info("%s runs (attempt %d)", task, attempt)
        self._put(RuntimeEvent(ev.Started(task, attempt)))

    def paused(self, task: TaskId, attempt: int) -> None:
        self._put(RuntimeEvent(ev.Paused(task, attempt)))

    def stopped(self, task: TaskId, attempt: int) -> None:
        self._put(RuntimeEvent(ev.Stopped(task, attempt)))

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        self._put(RuntimeEvent(ev.Failed(task, attempt, trace, reason)))

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        self._put(RuntimeEvent(ev.Progressed(task, attempt, text)))

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        configs = tuple(dict(config) for config in task_configs)
        self._put(RuntimeEvent(ev.UnitsChanged(connector, configs)))

    def warmed_up(self) -> None:
        self._put(RuntimeEvent(ev.WarmedUp()))

    def warm_up_failed(self) -> None:
        self._put(RuntimeEvent(ev.WarmUpFailed()))
