"""The operator's leader of one group: combines membership, logs, decisions and endpoint.

It joins as a static member that takes no tasks, and either leads or waits; it never follows. Anything
unreachable becomes a condition and is retried.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from typing import Any, Final

from cooperator.group import DescribedMember, GroupConfig, Joined, Membership, Round
from cooperator.leader import events as ev
from cooperator.leader.await_even import await_even
from cooperator.leader.endpoint import Endpoint, answer_health
from cooperator.leader.evicted import Evicted, LastHeard
from cooperator.leader.group_record import usable_bytes
from cooperator.leader.leader_thread import LeaderThread, LeadRefused
from cooperator.leader.lease_confirmation import Candidates
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.observability.conditions import Conditions
from cooperator.leader.observability.group_inspector import seen_refusal
from cooperator.leader.observability.projection import is_settled, plan_conditions
from cooperator.leader.observability.totals import Totals
from cooperator.leader.owners import ask_worker, restart_url
from cooperator.leader.ownership import GroupPolicy, instance_id, log_refusal, member_refusal
from cooperator.leader.routes import LeaderRoutes
from cooperator.leader.settings import ServiceSettings as ServiceSettings
from cooperator.leader.stock.posts import NOT_NOW
from cooperator.leader.stock_routes import StockRoutes
from cooperator.log_lines.context import event as current_event
from cooperator.logs import (
    Gate,
    LeaderRecords,
    LeadWriter,
    Logs,
    LogUnavailable,
    TopicMisconfigured,
    ensure_topics,
    fence_producers,
    group_record_bytes,
    open_gate,
    open_logs,
)
from cooperator.model import Desired, Policy
from cooperator.planner.view import Facts
from cooperator.supervision import supervised, trouble, turn, wait_turning
from cooperator.wire import (
    ALL_PROTOCOLS,
    AgentReport,
    Metadata,
    Protocol,
    RestartRecord,
    Role,
    encode_metadata,
)

log = logging.getLogger(__name__)

RETRY_S = 2.0
_OPEN_S: Final = 120.0
"""No attempt to open takes longer: it waits for a few requests at most."""
_GRACE_S: Final = 1.0
"""For the leader's thread to answer a request that has expired."""
RETAKING: Final = "TakingLead"
HAND_BACK_S: Final = 45.0
"""Less than the 90 s after which systemd kills a service that is to stop."""
FIRST_READ_MS = 8_000
"""Less than the 10 s after which an unresponsive broker is reported."""


class NotLeading(TimeoutError):
    """This leader has nothing to hand back; the text says why it does not lead."""


class LeaderService:
    """Leads one group from ``start`` to ``stop``. All methods are thread-safe; setters return at once.

    ``on_restart``: called for each restart request in the config log, on the log's own thread. ``gate``:
    every write of the lead passes it.
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
        self._candidates: Candidates | None = None
        self._policy = settings.policy
        self._contact_at = float("-inf")
        self._has_statuses = False
        self._owned = False  # A group once marked as ours stays so: stock workers name no owner.
        self.is_fenced = False
        """Another process leads under the same owner: this service leads no more and must be stopped."""
        self._evicted = Evicted()
        self._last_heard = LastHeard(settings.owner.name)
        self._totals = Totals()
        self._logs: Logs | None = None
        self._lead: LeaderThread | None = None
        self._membership: Membership | None = None
        self._routes = LeaderRoutes(
            self.current, self._leader_contact_age_ms, settings, lambda: self._candidates
        )
        stock = StockRoutes(self.current, settings.group_id, self._fence, self.restart, self.status)
        self.forwarded = stock.forwarded
        """Handles user requests that stock workers forward; you may set its handler."""
        own = {"GET /status": self._get, "GET /healthz": answer_health}
        routes = {**self._routes.all(), **own, **stock.all()}
        self._endpoint = Endpoint(settings.host, settings.port, routes, settings.tls)
        self._opener = supervised(self._open, "leader-open", limit_s=_OPEN_S)
        self.conditions.put("Leading", False, "Starting")
        self.conditions.put("KafkaReachable", None, "Connecting")

    # --- for the host -------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL at which members reach this leader; known after ``start``."""
        return self._endpoint.url_at(self.settings.advertised_host or self._endpoint.host)

    def start(self) -> None:
        """Serve, and lead as soon as the broker allows it. Raises OSError when the port is taken."""
        self._endpoint.start()
        self._opener.start()

    def stop(self, leave: bool = False, timeout_s: float = 10) -> None:
        """Stop.

        Without ``leave`` the group keeps this leader's place for its session time-out, so that the next
        process with the same owner continues without a rebalance.
        """
        self._stopping.set()
        self._opener.join(timeout_s)
        if self._membership is not None:
            self._membership.stop(leave=leave, timeout_s=timeout_s)
        if self._lead is not None:
            self._lead.stop(timeout_s)
        if self._logs is not None:
            self._logs.close()
        self._endpoint.stop()

    def hand_back(
        self, timeout_s: float = HAND_BACK_S, on_wait: Callable[[str], None] = lambda what: None
    ) -> None:
        """Return the group to its stock workers and stop, without stopping any task.

        The layout is made even first, so that the workers' own leader finds nothing to move. Raises
        TimeoutError when that takes longer than ``timeout_s``; this leader then continues to lead. Raises
        NotLeading at once when this service does not lead. ``on_wait`` is called with what is awaited,
        whenever that changes.
        """
        self._require_lead()
        assert self._lead is not None
        lacking = await_even(self._lead, timeout_s, self._stopping, on_wait)
        if lacking:
            self._require_lead()
            raise TimeoutError(f"group {self.settings.group_id!r} cannot be handed back evenly: {lacking}")
        self.stop(leave=True)

    def _require_lead(self) -> None:
        leading = self.conditions.get("Leading")
        assert leading is not None
        # A lead that is being taken back may be ours again in time.
        if self._lead is None or (leading.status != "True" and leading.reason != RETAKING):
            raise NotLeading(f"group {self.settings.group_id!r} is not led from here: {leading.message}")

    def stop_waiting(self) -> None:
        """Cancel a ``hand_back`` that is under way."""
        self._stopping.set()

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

    def set_candidates(self, candidates: Candidates) -> None:
        """Who may join, as of now. It does not wait for the lead's thread, which an outage may hold up."""
        self._candidates = candidates

    def set_policy(self, policy: Policy) -> None:
        with self._lock:
            self._policy = policy
        if self._lead is not None:
            self._lead.submit(ev.PolicyChanged(policy))

    def restart(self, record: RestartRecord, timeout_s: float = 10) -> int:
        """Have the members restart what ``record`` names.

        Returns 202 once that is in the config log, 404 if it is not configured, or 409 while this leader does
        not lead. A single item of a stock worker is restarted by that worker, whose code is returned. Raises
        TimeoutError, LogUnavailable; it is written later only after a TimeoutError, which is rare.
        """
        if self._lead is None:
            return ev.PostOutcome.NOT_LEADING
        at = self._lead.ask(lambda machine: restart_url(machine.state, record)).result(timeout_s)
        if isinstance(at, str):
            return ask_worker(at, timeout_s)
        code = self._lead.restart(record, timeout_s).result(timeout_s + _GRACE_S)
        if code == ev.PostOutcome.AGAIN:
            why = self._lead.machine.state.topic_refusal or NOT_NOW
            raise LogUnavailable(f"the restart is not written: {why}")
        return code

    def _fence(self, transactional_ids: Sequence[str], overrides: Mapping[str, str]) -> None:
        fence_producers(self._logs_config, transactional_ids, overrides)

    def status(self, timeout_s: float = 5) -> dict[str, Any]:
        """The projection (see ``projection``) with ``group_id``, ``url``, ``settled`` and ``conditions``.

        Also contains ``totals`` of this process, which only grow, and ``reading_statuses``: true while the
        status log is being read, so that task states are not known yet.
        """
        lead, logs = self._lead, self._logs
        answer: dict[str, Any] = {"group_id": self.settings.group_id, "url": self.url, "settled": False}
        if lead is not None and logs is not None:
            projected = self._totals.projected(lead, logs.status.snapshot(), timeout_s)
            answer.update(projected)
            for condition in plan_conditions(projected):
                self.conditions.put(*condition)
            answer["settled"] = "leading" in projected and is_settled(projected)
            answer["reading_statuses"] = not self._has_statuses
        # The process leads other groups, too. A process that never had trouble does not have this condition.
        if (found := trouble()) or self.conditions.get("ProcessHealthy") is not None:
            self.conditions.put("ProcessHealthy", not found, "Trouble" if found else "Healthy", found)
        answer["conditions"] = [asdict(condition) for condition in self.conditions.all()]
        return answer

    # --- opening ------------------------------------------------------------------------------------

    def _open(self) -> None:
        while not self._stopping.is_set():
            turn()
            try:
                if self._lead is not None or self._try_open():
                    assert self._logs is not None
                    self._logs.status.read_to_end(FIRST_READ_MS)
                    self._has_statuses = True
                    self.conditions.put("KafkaReachable", True, "Connected")
                    return
            except LogUnavailable as error:
                self.conditions.put("KafkaReachable", False, "Unreachable", str(error))
            except TopicMisconfigured as error:
                self.conditions.put("Leading", False, "TopicMisconfigured", str(error))
            except Exception as error:
                log.exception("opening group %s", self.settings.group_id)
                self.conditions.put("Leading", False, "Failed", f"{type(error).__name__}: {error}")
            wait_turning(self._stopping, RETRY_S)

    def _try_open(self) -> bool:
        settings = self.settings
        if self._logs is None:
            ensure_topics(self._logs_config, timeout_ms=FIRST_READ_MS)
            self._logs = open_logs(self._logs_config, on_outage=self.trouble)
            if self._on_restart is not None:
                self._logs.config.on_restart(self._on_restart)
        state = self._logs.leader.read_to_end(FIRST_READ_MS)
        self.conditions.put("KafkaReachable", True, "Connected")
        refusal = self._refusal(state, self._logs)
        if refusal:
            self.conditions.put("Leading", False, "GroupConflict", refusal)
            return False
        if refusal := seen_refusal(settings, self._logs.config):
            self.conditions.put("Leading", False, "WrongConfigTopic", refusal)
            return False
        self._owned = state.owner is not None
        limits = settings.leader_settings(self.url)
        if (most_bytes := group_record_bytes(self._logs_config)) is not None:
            limits = replace(limits, max_group_bytes=usable_bytes(most_bytes))
        machine = LeaderMachine(limits)
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
        lead = LeaderThread(
            machine,
            membership,
            self._logs,
            claim=self._claim,
            on_refused=self.refused,
            is_silent=lambda: self.is_silent,
            about={
                "worker": f"{settings.owner.namespace}/{settings.owner.name}",
                "group": settings.group_id,
            },
        )
        now_ms = _now_ms()
        with self._lock:
            # Initialise the machine before its thread delivers events; a machine that does not lead returns
            # no instructions.
            machine.handle(ev.PolicyChanged(self._policy), now_ms)
            machine.handle(ev.FactsChanged(self._facts), now_ms)
            if self._desired is not None:
                machine.handle(ev.DesiredChanged(self._desired), now_ms)
            self._lead, self._membership = lead, membership
        lead.start()
        membership.start()
        return True

    def _refusal(self, state: LeaderRecords, logs: Logs) -> str:
        config = logs.config.read_to_end(FIRST_READ_MS)
        settings = self.settings
        return log_refusal(settings.owner, state.owner, config, settings.group_policy, settings.group_id)

    def _claim(self, state: LeaderRecords, writer: LeadWriter) -> None:
        """Check again with the previous writer fenced: two simultaneous starts see each other here."""
        assert self._logs is not None
        refusal = self._refusal(state, self._logs)
        if refusal:
            raise LeadRefused(refusal)
        if state.owner is None:
            writer.write_leader(owner=self.settings.owner)
        self._owned = True

    def current(self) -> tuple[LeaderThread, Logs] | None:
        """The lead and its logs; None before the broker was reached."""
        lead, logs = self._lead, self._logs
        return None if lead is None or logs is None else (lead, logs)

    @property
    def is_silent(self) -> bool:
        """Whether the broker has not answered for this leader's session time-out."""
        return self._leader_contact_age_ms() >= self.settings.session_timeout_ms

    def _leader_contact_age_ms(self) -> int:
        return int(min((time.monotonic() - self._contact_at) * 1000, 2**31))

    # --- callbacks of the membership ------------------------------------------------------------------

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        if self._lead is not None:
            self._lead.joining()
        logs = self._logs
        offset = logs.config.snapshot().offset if logs is not None else -1
        report = AgentReport(Role.LEADER, self.identity, self.identity)
        metadata = Metadata(self.url, offset, None, report)
        lead = self._lead
        is_offered = lead is not None and lead.offers_reconciliation
        offered = (Protocol.RECONCILED, *ALL_PROTOCOLS) if is_offered else ALL_PROTOCOLS
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in offered]

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        assert self._lead is not None
        evicted, self._evicted = self._evicted, Evicted()
        return self._lead.plan(round, evicted)

    def round_void(self, generation: int) -> None:
        assert self._lead is not None
        self._lead.submit(ev.RoundFailed(generation, ""))

    def joined(self, joined: Joined) -> None:
        assert self._lead is not None
        self._lead.submit(ev.Delivered(joined.generation))

    def dropped(self, reason: str) -> None:
        log.warning("no longer a member: %s", reason)

    def fenced(self) -> None:
        self.is_fenced = True
        self._stopping.set()
        self.conditions.put(
            "Leading", False, "Fenced", "another operator leads under the same name; this one has stopped"
        )
        if self._lead is not None:
            self._lead.lost("fenced")

    def contact(self, sent_at: float) -> None:
        self._contact_at = sent_at
        self.conditions.put("KafkaReachable", True, "Connected")

    def ready_to_join(self) -> None:
        """Nothing to wait for: a leader runs no tasks."""

    def coordinator_lost(self) -> None:
        where = f"looking for the group's coordinator at {self.settings.bootstrap_servers}"
        self.conditions.put("KafkaReachable", False, "CoordinatorLost", where)

    def trouble(self, message: str) -> None:
        """Trouble of the membership or of a log; an empty message means that a log has recovered."""
        if not message:
            return
        log.warning("%s", message)
        if self._leader_contact_age_ms() > 2 * self.settings.heartbeat_interval_ms:
            self.conditions.put("KafkaReachable", False, "Unreachable", message)

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        self._last_heard.note(members)
        described = [(member.client_id, member.metadata) for member in members]
        settings = self.settings
        policy = GroupPolicy.ADOPT if self._owned else settings.group_policy
        refusal = member_refusal(self.identity, described, policy, settings.group_id, settings.stock_pool)
        return refusal or True

    def refused(self, reason: str) -> None:
        self.conditions.put("Leading", False, "GroupConflict", reason)

    def lead_taken(self, evicted: Sequence[str]) -> None:
        self._evicted = self._last_heard.evicted(evicted)
        self.conditions.put("Leading", True, "Leading")

    def lead_lost(self) -> None:
        self.conditions.put("Leading", False, RETAKING, "another member leads; taking the lead back")
        if self._lead is not None:
            self._lead.lost("the broker has dropped this member or made another one the leader")

    async def _get(self, request: Any) -> Any:
        return await self._routes.answer_status(self.status)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
