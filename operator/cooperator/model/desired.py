"""What users asked for, compiled from resources; the config log is reconciled towards it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cooperator.model.config import TargetState


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A Connector resource in the planner's terms.

    ``config`` is flat as in Kafka Connect and contains ``connector.class`` and ``tasks.max``;
    secrets in it are references (``${env:…}``, ``${file:…}``), never values.
    """

    config: Mapping[str, str]
    target: TargetState = TargetState.STARTED
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Desired:
    """All Connectors of one Worker. ``revision`` grows with each change."""

    revision: int
    connectors: Mapping[str, DesiredConnector] = field(default_factory=dict)
