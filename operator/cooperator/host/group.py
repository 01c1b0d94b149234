"""Converts the group for the pool, and the pool's facts for the leader. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from cooperator.leader.lease_confirmation import Candidates
from cooperator.leader.observability.projection import POISON_TASK
from cooperator.model import TaskId, Warmth
from cooperator.planner.view import Facts
from cooperator.pool import GroupSeen, MemberSeen, Pod, PoolFacts

_ABOUT_TO_RUN = frozenset(("UNASSIGNED", "STARTING", "RESTARTING"))


def group_seen(leader: Mapping[str, Any]) -> GroupSeen | None:
    """The group from its leader's projection; None while it is not known or the projection is stale."""
    if not leader.get("known") or leader.get("stale"):
        return None
    tasks = leader["tasks"]
    owned: dict[str, set[TaskId]] = {}
    starting: dict[str, set[TaskId]] = {}
    for task in tasks:
        if task["member"] is not None:
            owned.setdefault(task["member"], set()).add(TaskId(task["connector"], task["task"]))
        # A task that waits for its next attempt has failed, and may fail for long.
        about_to_run = task["state"] in _ABOUT_TO_RUN and "next_attempt_ms" not in task
        if task["member"] is not None and about_to_run:
            starting.setdefault(task["member"], set()).add(TaskId(task["connector"], task["task"]))
    return GroupSeen(
        members={
            member["identity"]: MemberSeen(
                incarnation=member["incarnation"],
                busy=bool(member["owned"]),
                owned=frozenset(owned.get(member["identity"], ())),
                starting=frozenset(starting.get(member["identity"], ())),
                warming=member["runtime"] == Warmth.WARMING,
                hangs=member["identity"] in leader.get("hanging", ()),
            )
            for member in leader["members"]
        },
        held=frozenset(task["held_for"] for task in tasks if "held_for" in task),
        hung=frozenset(
            (each["identity"], each["incarnation"]) for each in leader.get("hung", ()) if each["to_replace"]
        ),
        moving=any(member["stopping"] for member in leader["members"])
        or any(_is_moving(task) for task in tasks),
    )


def _is_moving(task: Mapping[str, Any]) -> bool:
    """Whether a task has no owner but will soon get one: it is neither held nor in quarantine."""
    return task["member"] is None and "held_for" not in task and task.get("reason") != POISON_TASK


def departures(before: Facts, now: Facts) -> list[str]:
    """Identities that are leaving or gone since ``before``, or of which an incarnation has ended since."""
    ended = {identity for identity, _ in now.ended - before.ended}
    return sorted(ended | (now.leaving - before.leaving) | (now.gone - before.gone))


def candidates(pods: Iterable[Pod], facts: Facts, asked_at_ms: int) -> Candidates:
    """Who may join the group: everybody who runs or may start, and who will be created."""
    living = frozenset(pod.identity for pod in pods if pod.may_run)
    return Candidates(living | (facts.expected or frozenset()), asked_at_ms)


def planner_facts(pool: PoolFacts, ended: frozenset[tuple[str, str]]) -> Facts:
    """The pool's facts for the planner.

    ``ended``: (identity, incarnation) of incarnations whose end is proven, in the members' own names for
    them.
    """
    return Facts(
        expected=pool.expected,
        leaving=pool.leaving,
        gone=pool.gone,
        ended=ended,
        cordoned=pool.cordoned,
        returning=pool.returning,
        poisoned=pool.poisoned,
        suspected=pool.suspected,
        zones=pool.zones,
        notices_ms=pool.notices_ms,
    )
