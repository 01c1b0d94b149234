"""The ears of a member: called on other rooms' threads, they put events and return."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from cooperator.agent import events as ev
from cooperator.agent.desk import Desk
from cooperator.agent.lead import Lead
from cooperator.agent.options import WorkerOptions
from cooperator.agent.state import Report
from cooperator.group import DescribedMember, Joined, Round
from cooperator.log_lines import within
from cooperator.model import Epoch, TaskId
from cooperator.wire import (
    AgentReport,
    AgentShare,
    Assignment,
    DecodeError,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
)

log = logging.getLogger(__name__)

EventOf = Callable[[Desk], ev.Event]
Put = Callable[[EventOf], None]

PROTOCOLS = (Protocol.SESSIONED, Protocol.COMPATIBLE)
"""Not ``default``: its members say in a join that they run nothing, and ours do not stop for a join."""

_UNREADABLE = -1
_KEPT = 64
"""Shares whose events are known."""


class GroupEars:
    """The listener of the membership. ``url`` and ``lead`` are set before the membership is started."""

    def __init__(self, options: WorkerOptions, desk: Desk, put: Put) -> None:
        self.url = ""
        self.lead: Lead | None = None
        self._options = options
        self._desk = desk
        self._put = put
        self._leading = False
        self._leader_url = ""
        self._contact_at = float("-inf")
        self._events: dict[Epoch, str] = {}

    def events_of(self, epoch: Epoch | None) -> str:
        """Ids of what the share of this epoch goes back to, as far as the leader knew. Any thread."""
        return self._events.get(epoch, "") if epoch is not None else ""

    def contact_age_ms(self) -> int:
        """Since the last answered request was sent. Any thread."""
        return int(min((time.monotonic() - self._contact_at) * 1000, 2**31))

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        metadata = self._metadata(self._desk.join())
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in PROTOCOLS]

    def joined(self, joined: Joined) -> None:
        join, report = self._desk.answered()
        try:
            share = decode_assignment(joined.assignment)
        except DecodeError as error:
            log.error("generation %d: the share cannot be read: %s", joined.generation, error)
            share = Assignment(_UNREADABLE, "", self._leader_url, -1)
        if share.agent is not None and share.agent.events:
            self._note(share.agent, share)
        leads = share.leader == joined.member_id
        self._leader_url = share.leader_url
        if self._leading and self.lead is not None:
            if leads:
                self.lead.joined(joined)
            else:
                self._lose_lead("another member leads")
        self._put(lambda desk: self._share(desk, joined, share, join, report, leads))

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
        self._put(lambda desk: ev.Dropped(reason))

    def fenced(self) -> None:
        # Only static members are fenced, and this one is dynamic: whatever it was, it is over.
        self._lose_lead("fenced")
        self._put(lambda desk: ev.StopRequested(1))

    def contact(self, sent_at: float) -> None:
        self._contact_at = sent_at
        self._put(lambda desk: ev.Contact(int(sent_at * 1000)))

    def coordinator_lost(self) -> None:
        """What runs goes on under its lease."""

    def trouble(self, message: str) -> None:
        """The group has logged it."""

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        return "a worker takes the lead only when the broker gives it"

    def refused(self, reason: str) -> None:
        """Of the leader role."""

    def lead_taken(self, evicted: Sequence[str]) -> None:
        """Of the leader role."""

    def lead_lost(self) -> None:
        """Of the leader role."""

    def _note(self, agent: AgentShare, share: Assignment) -> None:
        self._events[agent.epoch] = agent.events
        if len(self._events) > _KEPT:
            del self._events[next(iter(self._events))]
        if share.assigned or share.revoked:
            with within(event=agent.events, generation=str(agent.epoch)):
                log.info("a share under %s: %d new, %d to let go", agent.epoch, *map(len, share[4:6]))

    def _lose_lead(self, reason: str) -> None:
        was_leading, self._leading = self._leading, False
        if was_leading and self.lead is not None:
            self.lead.lost(reason)

    def _metadata(self, report: Report) -> Metadata:
        options = self._options
        allocation = None
        if report.applied is not None or report.owned:
            allocation = Assignment(0, "", self._leader_url, report.config_offset, assigned=report.owned)
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
        )
        return Metadata(self.url, report.config_offset, allocation, agent)

    def _share(
        self, desk: Desk, joined: Joined, share: Assignment, join: int, report: Report, leads: bool
    ) -> ev.ShareReceived:
        agent = share.agent
        return ev.ShareReceived(
            # A stock worker that leads writes no epoch; its generations follow those of our leader.
            epoch=Epoch(desk.term, joined.generation) if agent is None else agent.epoch,
            answers=report,
            assigned=share.assigned,
            revoked=share.revoked,
            config_offset=share.config_offset,
            lease_ms=self._options.lease_ms if agent is None else agent.lease_ms,
            leader_url=share.leader_url,
            leads=leads,
            member_id=joined.member_id,
            error=share.error,
            superseded=desk.is_superseded(join),
        )


class RuntimeEars:
    """The listener of the runtime."""

    def __init__(self, put: Put, about: Callable[[TaskId], Mapping[str, object]] = lambda task: {}) -> None:
        """``about``: what lines on a task are about (see ``log_lines``)."""
        self._put = put
        self._about = about

    def started(self, task: TaskId, attempt: int) -> None:
        with within(**self._about(task)):
            log.info("%s runs (attempt %d)", task, attempt)
        self._put(lambda desk: ev.Started(task, attempt))

    def paused(self, task: TaskId, attempt: int) -> None:
        self._put(lambda desk: ev.Paused(task, attempt))

    def stopped(self, task: TaskId, attempt: int) -> None:
        self._put(lambda desk: ev.Stopped(task, attempt))

    def failed(self, task: TaskId, attempt: int, trace: str) -> None:
        self._put(lambda desk: ev.Failed(task, attempt, trace))

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        self._put(lambda desk: ev.Progressed(task, attempt, text))

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        configs = tuple(dict(config) for config in task_configs)
        self._put(lambda desk: ev.UnitsChanged(connector, configs))

    def warmed_up(self) -> None:
        self._put(lambda desk: ev.WarmedUp())

    def warm_up_failed(self) -> None:
        self._put(lambda desk: ev.WarmUpFailed())
