"""Workers and Connectors as manifests with a status, as a cluster and this machine show them alike. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.crd.conditions import (
    LOCAL_CHECKPOINTS,
    LOCAL_DIRECTORY,
    READY,
    RECONCILING,
    STALLED,
    UNOBSERVED,
)
from cooperator.crd.projection import milliseconds
from cooperator.model import PROBLEMS

__all__ = ["Body", "amiss", "milliseconds", "name_in_kafka", "status_of"]

Body = Mapping[str, Any]
"""An object as the API server, or the daemon of this machine, shows it."""

_SHOULD_BE_FALSE: Final = PROBLEMS | {RECONCILING, STALLED, "UpgradeAvailable"}
_SUMMARIES: Final = frozenset({READY, RECONCILING, STALLED})


def status_of(body: Body) -> Mapping[str, Any]:
    """The status; empty if no operator has written one yet."""
    status: Mapping[str, Any] = body.get("status") or {}
    return {} if status.get("observedGeneration") == UNOBSERVED else status


def name_in_kafka(body: Body) -> str:
    """A Connector's name in Kafka, by which its tasks are named."""
    return str(body["spec"].get("connectorName") or body["metadata"]["name"])


def amiss(body: Body) -> list[Body]:
    """The conditions that are not met, summaries last; only the first with each reason."""
    wrong = [each for each in status_of(body).get("conditions") or () if _is_amiss(each)]
    wrong.sort(key=lambda each: each["type"] in _SUMMARIES)
    first: dict[str, Body] = {}
    for each in wrong:
        first.setdefault(each["reason"], each)
    return list(first.values())


def _is_amiss(condition: Body) -> bool:
    if condition["type"] == "ExactlyOnce":
        # It states what a connector promises for its sink, which its Worker may break.
        return condition["reason"] in (LOCAL_CHECKPOINTS, LOCAL_DIRECTORY)
    expected = "False" if condition["type"] in _SHOULD_BE_FALSE else "True"
    return bool(condition["status"] != expected)
