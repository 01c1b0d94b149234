"""Builds the front of one Worker for its runtime."""

from collections.abc import Callable

from cooperator.connect.properties import topic_names
from cooperator.crd import Worker
from cooperator.leader.service import LeaderService
from cooperator.logs.connect_offsets import ConnectOffsets
from cooperator.rest.answers import RequestRefused
from cooperator.rest.front import Front
from cooperator.rest.led import LedGroup
from cooperator.rest.parts import Authorizer, Connectors, Members, Offsets
from cooperator.rest.spark import SparkMembers, SparkOffsets
from cooperator.rest.stock import StockMembers
from cooperator.rest.stock_offsets import StockOffsets


def front_of(
    worker: Worker, leader: Callable[[], LeaderService | None], connectors: Connectors, access: Authorizer
) -> Front:
    """``leader`` returns the Worker's present one, or None while there is none."""
    name = (worker.metadata.namespace, worker.metadata.name)
    group = LedGroup(leader)
    members = StockMembers(group.urls) if worker.spec.is_stock else SparkMembers()
    offsets = offsets_of(worker, leader, members)
    return Front(name, connectors, group, members, offsets, access)


def offsets_of(
    worker: Worker, leader: Callable[[], LeaderService | None], members: Members | None = None
) -> Offsets:
    """The offsets of the Worker's connectors. ``members`` are asked for the types of stock plug-ins."""
    group = LedGroup(leader)
    if not worker.spec.is_stock:
        return SparkOffsets(group.urls, group.session_key)

    def kept() -> ConnectOffsets:
        current = leader()
        if current is None:
            raise RequestRefused(503, "the group has no leader at the moment: try again")
        return ConnectOffsets(current.settings.bootstrap_servers, current.settings.log_security)

    topic = topic_names(worker).offset
    return StockOffsets(kept, topic, members or StockMembers(group.urls), group.fence)


def terms_of(worker: Worker) -> object:
    """The inputs of a front: it need not be rebuilt while this is equal."""
    return worker.spec.rest, worker.spec.runtime, worker.spec.stock
