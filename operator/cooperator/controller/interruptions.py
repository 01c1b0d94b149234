"""Announced ends of nodes, and what they cost the members there. Pure.

A notice makes the members of a node leave at once (``pool.Node.leaving``): all of their tasks are handed over
in parallel. Tasks that are still there when the machine ends are held, as after any death.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cooperator.controller.story import Happening
from cooperator.host.known import Leader, is_known
from cooperator.model import TaskState
from cooperator.model.text import counted, listed

Body = Mapping[str, Any]

NOTICES_MS: Final[Mapping[str, int | None]] = {
    "aws-node-termination-handler/spot-itn": 120_000,
    "aws-node-termination-handler/asg-lifecycle-termination": None,
    "aws-node-termination-handler/scheduled-maintenance": None,
    "cloud.google.com/impending-node-termination": 30_000,
    "remediator.kubernetes.azure.com/unschedulable": 30_000,
    "remediator.aks.microsoft.com/unschedulable": 30_000,
    "karpenter.sh/disrupted": None,
    "karpenter.sh/disruption": None,
    "ToBeDeletedByClusterAutoscaler": None,
}
"""Taints of nodes that will go, with the shortest notice that the provider promises; None: there is none."""
SHORTEST_NOTICE_MS: Final = 30_000
"""The shortest notice of any provider; it is assumed where there is no promise."""
_CONDITIONS_MS: Final[Mapping[str, int | None]] = {
    "PreemptScheduled": 30_000,
    "TerminateScheduled": None,
    "RedeployScheduled": None,
}
"""Azure's scheduled events as conditions of a node that end its machine."""
_OWN: Final = frozenset(
    f"node.kubernetes.io/{reason}" for reason in ("not-ready", "unreachable", "out-of-service")
)
"""Taints of Kubernetes itself: the machine fails, or its administrator says that it is off."""
_AT_WORK: Final = frozenset(
    state.value for state in (TaskState.RUNNING, TaskState.PAUSED, TaskState.STOPPED, TaskState.FAILED)
)
_LISTED: Final = 5


@dataclass(frozen=True, slots=True)
class Notice:
    """``cause``: the taint or condition. ``within_ms``: the shortest time until the machine ends, from the
    moment of the notice; None if unknown."""

    cause: str
    within_ms: int | None = None


def notice_of(node: Body) -> Notice | None:
    """Returns why the machine will go, and when, at the earliest; None if it will not."""
    found: list[Notice] = []
    for taint in node.get("spec", {}).get("taints") or ():
        key = taint.get("key", "")
        if key in NOTICES_MS:
            found.append(Notice(key, NOTICES_MS[key]))
        elif taint.get("effect") == "NoExecute" and key not in _OWN:
            found.append(Notice(key))
    for condition in node.get("status", {}).get("conditions") or ():
        name = condition.get("type", "")
        if name in _CONDITIONS_MS and condition.get("status") == "True":
            found.append(Notice(name, _CONDITIONS_MS[name]))
    endless = float("inf")
    return min(found, key=lambda each: endless if each.within_ms is None else each.within_ms, default=None)


@dataclass(frozen=True, slots=True)
class Interruption:
    """The hand-over of one member's tasks, since ``since_ms``.

    ``waiting``: tasks that neither run elsewhere nor are held. ``seen_ms``: when each task was last seen to
    run here. ``moved``: for how long (ms), at most, each task that runs elsewhere ran nowhere: a hand-over
    may be quicker than the observations. ``told``: the end has been reported.
    """

    node: str
    notice: Notice
    since_ms: int
    waiting: frozenset[str]
    seen_ms: Mapping[str, int]
    moved: Mapping[str, int]
    held: frozenset[str] = frozenset()
    told: bool = False


Interruptions = Mapping[str, Interruption]
"""By identity."""


def notices(nodes: Mapping[str, Body], pods: Mapping[str, Body]) -> dict[str, tuple[str, Notice]]:
    """Returns node and notice by identity, of members on nodes that will go."""
    found = {}
    for identity, pod in pods.items():
        name = pod.get("spec", {}).get("nodeName") or ""
        notice = notice_of(nodes[name]) if name in nodes else None
        if notice is not None:
            found[identity] = (name, notice)
    return found


def observe(
    before: Interruptions, given: Mapping[str, tuple[str, Notice]], leader: Leader, now_ms: int
) -> tuple[Interruptions, tuple[Happening, ...]]:
    """Returns the interruptions by the leader's present status, and the events to report: the notice, and
    what it has cost.

    Nothing changes while the tasks are not known, or with an old status.
    """
    if not is_known(leader) or leader.get("stale"):
        return before, ()
    tasks = {task["name"]: task for task in leader["tasks"]}
    told: list[Happening] = []
    now: dict[str, Interruption] = {}
    for identity in sorted(before.keys() | given.keys()):
        known = before.get(identity)
        if known is None:
            node, notice = given[identity]
            own = frozenset(name for name, task in tasks.items() if task["member"] == identity)
            known = Interruption(node, notice, now_ms, own, dict.fromkeys(own, now_ms), {}, told=not own)
            if own:
                told.append(_announced(identity, known))
        known = _advanced(identity, known, tasks, now_ms)
        if not known.told and (not known.waiting or identity not in given):
            told.append(_ended(identity, known, now_ms))
            known = replace(known, told=True)
        if identity in given:
            now[identity] = known
    return now, tuple(told)


def _advanced(identity: str, known: Interruption, tasks: Mapping[str, Any], now_ms: int) -> Interruption:
    waiting, held = set(known.waiting), set(known.held)
    seen_ms, moved = dict(known.seen_ms), dict(known.moved)
    for name in known.waiting:
        task = tasks.get(name)
        if task is None:
            waiting.discard(name)  # deleted meanwhile
        elif task.get("held_for"):
            waiting.discard(name)
            held.add(name)
        elif task["member"] not in (None, identity) and task["state"] in _AT_WORK:
            waiting.discard(name)
            moved[name] = max(0, task["at_ms"] - seen_ms[name])
        elif task["member"] == identity and task["state"] in _AT_WORK:
            seen_ms[name] = now_ms
    return replace(known, waiting=frozenset(waiting), held=frozenset(held), seen_ms=seen_ms, moved=moved)


def _announced(identity: str, known: Interruption) -> Happening:
    within_ms = known.notice.within_ms
    when = "" if within_ms is None else f", {within_ms // 1000} s or more after the notice"
    return Happening(
        "InterruptionAnnounced",
        f"node {known.node} will go ({known.notice.cause}{when}): {identity} hands over "
        f"{counted(len(known.waiting), 'task')}",
    )


def _ended(identity: str, known: Interruption, now_ms: int) -> Happening:
    cost = "; ".join(_parts(known)) or "its tasks were deleted"
    after_s = (now_ms - known.since_ms) / 1000
    return Happening(
        "Interrupted",
        f"{identity} on node {known.node} ({known.notice.cause}), {after_s:.1f} s after the notice: {cost}",
        warning=bool(known.held),
    )


def _parts(known: Interruption) -> Iterator[str]:
    if known.moved:
        yield (
            f"{counted(len(known.moved), 'task')} handed over, each unassigned for "
            f"{max(known.moved.values()) / 1000:.1f} s at most ({sum(known.moved.values()) / 1000:.1f} "
            "task-seconds)"
        )
    if known.held:
        yield f"{counted(len(known.held), 'task')} held: {_some(known.held)}"
    if known.waiting:
        yield f"{counted(len(known.waiting), 'task')} not handed over: {_some(known.waiting)}"


def _some(names: frozenset[str]) -> str:
    return listed(sorted(names), _LISTED)
