"""Members in the pool's terms, and its decisions in the leader's. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from cooperator.leader.projection import POISON_TASK
from cooperator.local.members import Life
from cooperator.model import TaskId
from cooperator.planner.view import Facts
from cooperator.pool import GroupSeen, Mark, MarkReason, MemberSeen, Phase, Pod, PoolFacts

_ABOUT_TO_RUN = frozenset(("UNASSIGNED", "STARTING", "RESTARTING"))


def pod(life: Life) -> Pod:
    """A life as a pod. Here a pod has one life only, so both have one name."""
    return Pod(
        identity=life.identity,
        uid=life.incarnation,
        incarnation=life.incarnation,
        phase=_phase(life),
        revision=life.revision,
        started_ms=life.started_ms,
        mark=Mark(MarkReason(life.marked_for), life.marked_ms) if life.marked_for else None,
        terminating_since_ms=life.terminating_ms,
    )


def _phase(life: Life) -> Phase:
    if life.ended:
        return Phase.ENDED
    if life.terminating_ms is not None:
        return Phase.TERMINATING
    return Phase.PENDING if life.pid is None else Phase.RUNNING


def group_seen(leader: Mapping[str, Any]) -> GroupSeen | None:
    """The group out of its leader's own projection; None while it does not lead, or is not up to date."""
    if not leader.get("leading") or leader.get("stale") or leader.get("generation", -1) < 0:
        return None
    tasks = leader["tasks"]
    starting: dict[str, set[TaskId]] = {}
    for task in tasks:
        if task["member"] is not None and task["state"] in _ABOUT_TO_RUN:
            starting.setdefault(task["member"], set()).add(TaskId(task["connector"], task["task"]))
    return GroupSeen(
        members={
            member["identity"]: MemberSeen(
                incarnation=member["incarnation"],
                busy=bool(member["owned"]),
                starting=frozenset(starting.get(member["identity"], ())),
            )
            for member in leader["members"]
        },
        held=frozenset(task["held_for"] for task in tasks if "held_for" in task),
        moving=any(member["stopping"] for member in leader["members"])
        or any(_is_moving(task) for task in tasks),
    )


def _is_moving(task: Mapping[str, Any]) -> bool:
    """Whether a task is nowhere, and will be somewhere soon: it waits for nobody, and is in no quarantine."""
    return task["member"] is None and "held_for" not in task and task.get("reason") != POISON_TASK


def planner_facts(pool: PoolFacts, lives: Iterable[Life]) -> Facts:
    """The pool's facts, and the ends of earlier lives that the pool may have been restarted since."""
    ended = set(pool.ended)
    for life in lives:
        ended.update((life.identity, incarnation) for incarnation in life.past)
        if life.ended:
            ended.add((life.identity, life.incarnation))
    return Facts(
        expected=pool.expected,
        leaving=pool.leaving,
        gone=pool.gone,
        ended=frozenset(ended),
        cordoned=pool.cordoned,
        returning=pool.returning,
        poisoned=pool.poisoned,
    )
