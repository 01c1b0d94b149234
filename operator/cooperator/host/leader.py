"""A Worker's resource as the settings of its leader, and a leader started with them."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from cooperator.connect.properties import topic_names
from cooperator.crd import Worker, compile_policy
from cooperator.host.gate import passing
from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.service import LeaderService, ServiceSettings
from cooperator.logs import Topics
from cooperator.wire import Owner, RestartRecord

log = logging.getLogger(__name__)

_LEADER_SESSION_MS: Final = 25_000
_SHORTEST_SESSION_MS: Final = 6_000
"""Brokers refuse shorter session time-outs by default."""

OnRestart = Callable[[RestartRecord], None]


def leader_settings(
    worker: Worker,
    bootstrap_servers: str,
    cluster: str,
    host: str = "127.0.0.1",
    port: int = 0,
    advertised_host: str = "",
    security: Mapping[str, Any] | None = None,
) -> ServiceSettings:
    """The settings of the leader of a Worker's group.

    ``cluster``: part of the group's owner. ``security``: settings of the Kafka clients (see
    ``host.security``).
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
