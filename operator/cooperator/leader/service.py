"""The operator's leader of one group: membership, logs, decisions and endpoint, put together.

It joins as a static member that takes no tasks, and leads or waits; it never follows. Whatever is out of
reach is a condition and is tried again.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from cooperator.group import DescribedMember, GroupConfig, Joined, Membership, Round
from cooperator.leader import events as ev
from cooperator.leader.conditions import Conditions
from cooperator.leader.durations import Durations
from cooperator.leader.endpoint import Endpoint
from cooperator.leader.lead import Lead, LeadRefused
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.owners import ask_worker, restart_url
from cooperator.leader.ownership import GroupPolicy, instance_id, log_refusal, member_refusal
from cooperator.leader.projection import is_settled, plan_conditions, project
from cooperator.leader.routes import LeaderRoutes
from cooperator.leader.settings import ServiceSettings as ServiceSettings
from cooperator.leader.stock_routes import StockRoutes
from cooperator.leader.unassigned import UnassignedTime
from cooperator.log_lines.context import event as current_event
from cooperator.logs import (
    Gate,
    LeaderState,
    LeadWriter,
    Logs,
    LogUnavailable,
    TopicMisconfigured,
    ensure_topics,
    fence_producers,
    open_gate,
    open_logs,
)
from cooperator.model import Desired, Member, Policy
from cooperator.planner.view import Facts
from cooperator.wire import (
    ALL_PROTOCOLS,
    AgentReport,
    DecodeError,
    Metadata,
    RestartRecord,
    Role,
    decode_metadata,
    encode_metadata,
    member_of,
)

log = logging.getLogger(__name__)

RETRY_S = 2.0
HAND_BACK_LOOK_S = 0.2
FIRST_READ_MS = 8_000
"""Less than the 10 s within which a user is told that the broker does not answer."""


class LeaderService:
    """Leads one group from ``start`` to ``stop``. All methods are thread-safe; setters return at once.

    ``on_restart`` is told of each request in the config log to restart a connector, on the log's own thread.
    ``gate`` is passed by each write of the lead.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        on_restart: Callable[[RestartRecord], None] | None = None,
        gate: Gate = open_gate,
    ) -> None:
        self.settings = settings
        self._on_restart = on_restart
        self._logs_config = settings.logs_config(gate)
        self.identity = instance_id(settings.owner)
        self.conditions = Conditions(_now_ms)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._desired: Desired | None = None
        self._facts = Facts()
        self._policy = settings.policy
        self._contact_at = float("-inf")
        self._owned = False  # A group once marked as ours stays so: stock workers cannot say whose they are.
        self._evicted: tuple[Member, ...] = ()
        self._described: dict[str, DescribedMember] = {}
        self._projected: dict[str, Any] = {}
        self._durations = Durations()
        self._unassigned = UnassignedTime()
        self._logs: Logs | None = None
        self._lead: Lead | None = None
        self._membership: Membership | None = None
        self._routes = LeaderRoutes(self.current, self._leader_contact_age_ms, settings)
        stock = StockRoutes(self.current, settings.group_id, self._fence, self.restart, self.status)
        self.forwarded = stock.forwarded
        """Who answers requests of users that stock workers hand on; may be given a handler."""
        routes = {**self._routes.all(), "GET /status": self._get, **stock.all()}
        self._endpoint = Endpoint(settings.host, settings.port, routes)
        self._opener = threading.Thread(target=self._open, name="leader-open", daemon=True)
        self.conditions.put("Leading", False, "Starting")
        self.conditions.put("KafkaReachable", None, "Connecting")

    # --- for the host -------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where members reach this leader; known after ``start``."""
        host = self.settings.advertised_host or self._endpoint.host
        return f"http://{host}:{self._endpoint.port}/"

    def start(self) -> None:
        """Serve, and lead as soon as the broker lets us. Raises OSError when the port is taken."""
        self._endpoint.start()
        self._opener.start()

    def stop(self, leave: bool = False, timeout_s: float = 10) -> None:
        """End. Without ``leave`` the group keeps this leader's place for its session time-out, so that the
        next process under the same owner goes on without a round."""
        self._stopping.set()
        self._opener.join(timeout_s)
        if self._membership is not None:
            self._membership.stop(leave=leave, timeout_s=timeout_s)
        if self._lead is not None:
            self._lead.stop(timeout_s)
        if self._logs is not None:
            self._logs.close()
        self._endpoint.stop()

    def hand_back(self, timeout_s: float = 120) -> None:
        """Give the group to its stock workers and end: their leader finds nothing to move, so that no task
        stops. Raises TimeoutError when what runs could not be laid out evenly; then this leader leads on.
        """
        lead, deadline = self._lead, time.monotonic() + timeout_s
        if lead is None:
            raise TimeoutError(f"group {self.settings.group_id!r} is not led from here")
        lead.submit(ev.HandBack())
        while what := lead.lacks_for_hand_back().result(timeout_s):
            if time.monotonic() > deadline or self._stopping.wait(HAND_BACK_LOOK_S):
                lead.submit(ev.HandBack(wanted=False))
                raise TimeoutError(f"group {self.settings.group_id!r} cannot be handed back evenly: {what}")
        self.stop(leave=True)

    def set_desired(self, desired: Desired) -> None:
        with self._lock:
            self._desired = desired
        if self._lead is not None:
            self._lead.submit(ev.DesiredChanged(desired, current_event()))

    def set_facts(self, facts: Facts) -> None:
        with self._lock:
            self._facts = facts
        if self._lead is not None:
            self._lead.submit(ev.FactsChanged(facts, current_event()))

    def set_policy(self, policy: Policy) -> None:
        with self._lock:
            self._policy = policy
        if self._lead is not None:
            self._lead.submit(ev.PolicyChanged(policy))

    def restart(self, record: RestartRecord, timeout_s: float = 10) -> int:
        """Have the members restart what ``record`` names. 202; 404 for what is not configured; 409 while
        this leader does not lead. A single item of a stock worker is that worker's to restart: then its code.
        Raises TimeoutError, LogUnavailable."""
        if self._lead is None:
            return ev.PostOutcome.NOT_LEADING
        at = self._lead.ask(lambda machine: restart_url(machine.state, record)).result(timeout_s)
        if isinstance(at, str):
            return ask_worker(at, timeout_s)
        return self._lead.restart(record).result(timeout_s)

    def _fence(self, transactional_ids: Sequence[str], overrides: Mapping[str, str]) -> None:
        fence_producers(self._logs_config, transactional_ids, overrides)

    def status(self, timeout_s: float = 5) -> dict[str, Any]:
        """The projection (see ``projection``) with ``group_id``, ``url``, ``settled`` and ``conditions``,
        and ``totals`` of this process, which only grow."""
        lead, logs = self._lead, self._logs
        answer: dict[str, Any] = {"group_id": self.settings.group_id, "url": self.url, "settled": False}
        if lead is not None and logs is not None:
            statuses = logs.status.snapshot()
            try:
                projected = lead.ask(lambda machine: project(machine.state, statuses)).result(timeout_s)
            except TimeoutError:
                # The thread waits for the broker; what was true before is better than nothing.
                answer["stale"] = True
                projected = self._projected
            assert isinstance(projected, dict)
            self._projected = projected
            with self._lock:
                self._durations.note(projected)
                self._unassigned.note(projected, time.monotonic())
                answer["totals"] = {
                    "rebalances": self._durations.count,
                    "rebalances_ms": self._durations.total_ms,
                    "plans": lead.plans,
                    "plans_ms": lead.planning_s * 1000,
                    "unassigned_task_ms": self._unassigned.total_s * 1000,
                    "forced_rounds": lead.machine.quiet.forced,
                }
            for condition in plan_conditions(projected):
                self.conditions.put(*condition)
            answer.update(projected)
            answer["settled"] = bool(projected) and is_settled(projected)
        answer["conditions"] = [asdict(condition) for condition in self.conditions.all()]
        return answer

    # --- opening ------------------------------------------------------------------------------------

    def _open(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._try_open():
                    return
            except LogUnavailable as error:
                self.conditions.put("KafkaReachable", False, "Unreachable", str(error))
            except TopicMisconfigured as error:
                self.conditions.put("Leading", False, "TopicMisconfigured", str(error))
            except Exception as error:
                log.exception("opening group %s", self.settings.group_id)
                self.conditions.put("Leading", False, "Failed", f"{type(error).__name__}: {error}")
            self._stopping.wait(RETRY_S)

    def _try_open(self) -> bool:
        settings = self.settings
        if self._logs is None:
            ensure_topics(self._logs_config, timeout_ms=FIRST_READ_MS)
            self._logs = open_logs(self._logs_config, on_trouble=self.trouble)
            if self._on_restart is not None:
                self._logs.config.on_restart(self._on_restart)
        state = self._logs.leader.read_to_end(FIRST_READ_MS)
        self.conditions.put("KafkaReachable", True, "Connected")
        refusal = self._refusal(state, self._logs)
        if refusal:
            self.conditions.put("Leading", False, "GroupConflict", refusal)
            return False
        self._owned = state.owner is not None
        machine = LeaderMachine(settings.leader_settings(self.url))
        membership = Membership(
            GroupConfig(
                bootstrap_servers=settings.bootstrap_servers,
                group_id=settings.group_id,
                client_id=self.identity,
                role=Role.LEADER,
                group_instance_id=self.identity,
                session_timeout_ms=settings.session_timeout_ms,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                security=settings.group_security,
            ),
            self,
        )
        lead = Lead(
            machine,
            membership,
            self._logs,
            claim=self._claim,
            on_refused=self.refused,
            is_silent=lambda: self._leader_contact_age_ms() > settings.session_timeout_ms,
            about={
                "worker": f"{settings.owner.namespace}/{settings.owner.name}",
                "group": settings.group_id,
            },
        )
        with self._lock:
            machine.state.policy = self._policy
            machine.state.facts = self._facts
            machine.state.desired = self._desired
            self._lead, self._membership = lead, membership
        lead.start()
        membership.start()
        return True

    def _refusal(self, state: LeaderState, logs: Logs) -> str:
        config = logs.config.read_to_end(FIRST_READ_MS)
        settings = self.settings
        return log_refusal(settings.owner, state.owner, config, settings.group_policy, settings.group_id)

    def _claim(self, state: LeaderState, writer: LeadWriter) -> None:
        """Once more with the writer before us fenced: two that start at once see each other here."""
        assert self._logs is not None
        refusal = self._refusal(state, self._logs)
        if refusal:
            raise LeadRefused(refusal)
        if state.owner is None:
            writer.write_leader(owner=self.settings.owner)
        self._owned = True

    def current(self) -> tuple[Lead, Logs] | None:
        """What decides and what is followed; None before the broker was reached."""
        lead, logs = self._lead, self._logs
        return None if lead is None or logs is None else (lead, logs)

    def _leader_contact_age_ms(self) -> int:
        return int(min((time.monotonic() - self._contact_at) * 1000, 2**31))

    # --- what the membership tells ------------------------------------------------------------------

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        if self._lead is not None:
            self._lead.submit(ev.Joining())
        logs = self._logs
        offset = logs.config.snapshot().offset if logs is not None else -1
        report = AgentReport(Role.LEADER, self.identity, self.identity)
        metadata = Metadata(self.url, offset, None, report)
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in ALL_PROTOCOLS]

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        assert self._lead is not None
        evicted, self._evicted = self._evicted, ()
        return self._lead.plan(round, evicted)

    def round_void(self, generation: int) -> None:
        assert self._lead is not None
        self._lead.submit(ev.RoundFailed(generation, "the round ended before its assignments were delivered"))

    def joined(self, joined: Joined) -> None:
        assert self._lead is not None
        self._lead.submit(ev.Delivered(joined.generation))

    def dropped(self, reason: str) -> None:
        log.warning("no longer a member: %s", reason)

    def fenced(self) -> None:
        self.conditions.put(
            "Leading", False, "Fenced", "another operator leads under the same name; this one has stopped"
        )
        if self._lead is not None:
            self._lead.lost("fenced")

    def contact(self, sent_at: float) -> None:
        self._contact_at = sent_at
        self.conditions.put("KafkaReachable", True, "Connected")

    def coordinator_lost(self) -> None:
        self.conditions.put("KafkaReachable", False, "CoordinatorLost", "looking for the group's coordinator")

    def trouble(self, message: str) -> None:
        """Of the membership and of the logs; empty when a log's trouble is over."""
        if not message:
            return
        log.warning("%s", message)
        if self._leader_contact_age_ms() > 2 * self.settings.heartbeat_interval_ms:
            self.conditions.put("KafkaReachable", False, "Unreachable", message)

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        for member in members:
            known = self._described.get(member.member_id)
            if member.metadata or known is None:
                self._described[member.member_id] = member
        described = [(member.client_id, member.metadata) for member in members]
        settings = self.settings
        policy = GroupPolicy.ADOPT if self._owned else settings.group_policy
        refusal = member_refusal(self.identity, described, policy, settings.group_id, settings.stock_pool)
        return refusal or True

    def refused(self, reason: str) -> None:
        self.conditions.put("Leading", False, "GroupConflict", reason)

    def lead_taken(self, evicted: Sequence[str]) -> None:
        self._evicted = tuple(
            member
            for member_id in evicted
            if (described := self._described.get(member_id)) and (member := _reported(described))
        )
        self._described.clear()
        self.conditions.put("Leading", True, "Leading")

    def lead_lost(self) -> None:
        self.conditions.put("Leading", False, "TakingLead", "another member leads; taking the lead back")
        if self._lead is not None:
            self._lead.lost("the broker has dropped this member or made another one the leader")

    async def _get(self, request: Any) -> Any:
        return await self._routes.answer_status(self.status)


def _reported(described: DescribedMember) -> Member | None:
    try:
        metadata = decode_metadata(described.metadata)
    except DecodeError:
        return None
    if metadata.agent is not None and metadata.agent.role is Role.LEADER:
        return None
    return member_of(described.member_id, described.client_id, metadata)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
