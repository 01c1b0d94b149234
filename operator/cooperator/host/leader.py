"""The leader of one Worker's group: starts it with its settings, passes on the desired state, and hands the
group back.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from typing import Any, Final

from cooperator.connect.properties import topic_names
from cooperator.crd import Worker, compile_policy
from cooperator.host.gate import passing
from cooperator.host.group import candidates, departures
from cooperator.host.known import Leader
from cooperator.host.platform import Causes, Observation, event_of
from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.service import LeaderService, NotLeading, ServiceSettings
from cooperator.leader.tls import ServerCertificates
from cooperator.log_lines import within
from cooperator.logs import Topics
from cooperator.model import DesiredConnector
from cooperator.planner.view import Facts
from cooperator.wire import Owner, RestartRecord

log = logging.getLogger(__name__)

_LEADER_SESSION_MS: Final = 25_000
_SHORTEST_SESSION_MS: Final = 6_000
"""Brokers refuse shorter session time-outs by default."""

_REFUSALS: Final = frozenset({"GroupConflict", "TopicMisconfigured", "WrongConfigTopic"})
"""Reasons of the condition ``Leading`` with which a leader waits for a user."""

_STATUS_S: Final = 0.5
_STATUS_PATIENCE_S: Final = 0.5

OnRestart = Callable[[RestartRecord], None]
StartLeader = Callable[[ServiceSettings, OnRestart], LeaderService]


def leader_settings(
    worker: Worker,
    bootstrap_servers: str,
    cluster: str,
    host: str = "127.0.0.1",
    port: int = 0,
    advertised_host: str = "",
    security: Mapping[str, Any] | None = None,
    tls: ServerCertificates | None = None,
) -> ServiceSettings:
    """The settings of the leader of a Worker's group.

    ``cluster``: part of the group's owner. ``security``: settings of the Kafka clients (see
    ``host.security``). ``tls``: see ``ServiceSettings``.
    """
    spec = worker.spec
    # The session of an absent leader must expire before a round has waited for it in vain.
    session_timeout_ms = max(
        _SHORTEST_SESSION_MS, min(_LEADER_SESSION_MS, spec.rebalance_timeout_ms * 5 // 6)
    )
    return ServiceSettings(
        bootstrap_servers=bootstrap_servers,
        group_id=worker.group_id,
        owner=Owner(cluster, worker.metadata.namespace, worker.metadata.name),
        group_policy=GroupPolicy(spec.group_policy.value),
        policy=compile_policy(worker),
        host=host,
        port=port,
        advertised_host=advertised_host,
        tls=tls,
        session_timeout_ms=session_timeout_ms,
        # The members' own interval, unless the leader's times are shorter than theirs.
        heartbeat_interval_ms=min(
            spec.heartbeat_interval_ms, session_timeout_ms // 3, spec.rebalance_timeout_ms // 2
        ),
        rebalance_timeout_ms=spec.rebalance_timeout_ms,
        group_security=security or {},
        log_security=security or {},
        topics=_topics(worker),
        stock_pool=worker.metadata.name if spec.is_stock else "",
        exactly_once_source=_is_exactly_once(worker),
    )


def _is_exactly_once(worker: Worker) -> bool:
    connect = worker.spec.connect
    support = str(connect.config.get("exactly.once.source.support", "")) if connect is not None else ""
    return support.lower() in ("preparing", "enabled")


def _topics(worker: Worker) -> Topics | None:
    if not worker.spec.is_stock:
        return None
    named = topic_names(worker)
    return replace(Topics.of(worker.group_id), config=named.config, status=named.status)


def started_leader(settings: ServiceSettings, on_restart: OnRestart) -> LeaderService:
    """A started leader; on another port if its own is taken. Raises OSError."""
    leader = LeaderService(settings, on_restart, passing)
    try:
        leader.start()
    except OSError:
        if not settings.port:
            raise
        with suppress(Exception):
            leader.stop()
        log.warning("port %d is taken: the leader of %s gets another", settings.port, settings.group_id)
        leader = LeaderService(replace(settings, port=0), on_restart, passing)
        leader.start()
    return leader


def same_leader(running: ServiceSettings, wanted: ServiceSettings) -> bool:
    """Whether ``running`` can go on as ``wanted``: policies may change while it leads, ports may differ."""
    return replace(running, policy=wanted.policy, port=wanted.port) == wanted


def port_of(leader: LeaderService) -> int:
    return int(leader.url.rstrip("/").rpartition(":")[2])


def changed_connectors(before: Mapping[str, Any], now: Mapping[str, Any]) -> frozenset[str]:
    """Names of connectors that appeared, disappeared or changed: this may have fixed what killed members.

    Both arguments map names to ``DesiredConnector``.
    """
    return frozenset(
        name
        for name in before.keys() | now.keys()
        if (old := before.get(name)) is None or (new := now.get(name)) is None or old.config != new.config
    )


class Leadership:
    """One thread uses it; any thread may read its attributes.

    ``leader`` is None until its settings are known, and after it was handed back. ``status``: its last known
    projection. ``facts``: the last facts given to it.
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
                    log.info("%s has ended or is leaving: notifying the leader", name)
            if self.leader is not None:
                self.leader.set_facts(facts)

    def tell_candidates(self, seen: Observation) -> None:
        """Passes on who may join the group."""
        if self.leader is not None:
            self.leader.set_candidates(candidates(seen.pods, self.facts or Facts(), seen.asked_at_ms))

    def hand_back(self) -> bool:
        """Returns the group to its members, if it is led; False while that is not possible.

        A group whose lead is refused is let go of, so that a Worker with a wrong group or topic can be
        deleted and created again.
        """
        if self.leader is not None:
            try:
                self.leader.hand_back(on_wait=lambda what: log.info("the hand-back waits: %s", what))
            except TimeoutError as error:
                log.warning("%s", error)
                if not (isinstance(error, NotLeading) and self._is_refused()):
                    return False
                # It never led, so that there is nothing to hand back.
                self.leader.stop(leave=True)
            self.leader = None
        return True

    def _is_refused(self) -> bool:
        """Whether the lead is refused until a user acts; a broker that is away is waited for."""
        leading = [each for each in self.status.get("conditions", ()) if each["type"] == "Leading"]
        return any(each["status"] == "False" and each["reason"] in _REFUSALS for each in leading)

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
