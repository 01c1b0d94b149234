"""Carries over the last known figures of a status while no leader reports newer ones. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.crd.status import ratio

_OF_BOTH: Final = ("tasks", "taskSummary", "heldSummary")
_OF_WORKERS: Final = ("held", "heldCount", "adopted", "adoptedCount", "lastRebalance")
_OF_LEADERS: Final = frozenset({"state", "epoch", "targetEpoch"})
"""A member's figures that are not carried over: a leader elsewhere may have changed them."""
_OF_CONNECTORS: Final = ("state", "taskStatuses", "lag", "stateRows", "stateBytes")
"""Rates are not carried over, since they would look current."""

Status = Mapping[str, Any]
"""A status in API form."""


def kept_of_worker(now: Status, before: Status, replicas: int) -> dict[str, Any]:
    """Returns ``now`` with the figures of ``before``, for use while no leader reports figures.

    A member that still has its incarnation keeps its phase. ``replicas``: the desired number.
    """
    if not isinstance(before.get("tasks"), Mapping):
        return dict(now)
    known = {each.get("identity"): each for each in before.get("members", ())}
    members = [_kept_member(each, known.get(each["identity"], {})) for each in now.get("members", ())]
    ready = sum(each["phase"] == "Running" for each in members)
    more = {"members": members, "readyReplicas": ready, "memberSummary": ratio(ready, replicas)}
    return {**now, **_chosen(before, (*_OF_BOTH, *_OF_WORKERS)), **more}


def kept_of_connector(now: Status, before: Status) -> dict[str, Any]:
    """Returns ``now`` with the figures of ``before``, for use while no leader reports figures."""
    tasks = before.get("tasks")
    if not isinstance(tasks, Mapping) or not tasks.get("desired"):
        return dict(now)
    kept = _chosen(before, (*_OF_BOTH, *_OF_CONNECTORS))
    # The progress of learners would look current, too.
    entries = [
        {**each, "learning": ""} if each.get("learning") else each for each in kept.get("taskStatuses", ())
    ]
    return {**now, **kept, **({"taskStatuses": entries} if entries else {})}


def _kept_member(now: Status, before: Status) -> Status:
    same = now.get("incarnation") and now["incarnation"] == before.get("incarnation")
    if not (same and now["phase"] == "Pending"):
        return now
    return {name: value for name, value in before.items() if name not in _OF_LEADERS}


def _chosen(status: Status, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: status[name] for name in names if name in status}
