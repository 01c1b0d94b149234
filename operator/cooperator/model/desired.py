"""The desired state, compiled from resources; the config log is reconciled towards it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cooperator.model.config import TargetState


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A Connector resource in the planner's terms.

    ``config`` is flat as in Kafka Connect and contains ``connector.class`` and ``tasks.max``;
    secrets in it are references (``${env:…}``, ``${file:…}``), never values. ``orphan``: the connector keeps
    running unchanged when it is no longer desired.
    """

    config: Mapping[str, str]
    target: TargetState = TargetState.STARTED
    weight: float = 1.0
    orphan: bool = False


@dataclass(frozen=True, slots=True)
class Desired:
    """All Connectors of one Worker, by name in Kafka. ``revision`` grows with each change.

    ``kept``: other connectors that are neither changed nor deleted, such as those whose resource cannot be
    read. ``ending``: connectors whose resource is being deleted, and whether each keeps running without it.
    ``prune``: connectors that are no longer desired are deleted; otherwise they keep running.
    """

    revision: int
    connectors: Mapping[str, DesiredConnector] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    ending: Mapping[str, bool] = field(default_factory=dict)
    prune: bool = True
