"""Events for people: what has happened between two statuses of a leader. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cooperator.host.known import Leader
from cooperator.host.progress import report_of
from cooperator.leader.observability.durations import round_of
from cooperator.model import is_amiss
from cooperator.model.text import counted, listed
from cooperator.model.trace import error_of
from cooperator.model.waits import read
from cooperator.terminal.tables import name_of


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of the API. ``connector`` is what it is about; empty for the Worker."""

    reason: str
    note: str
    warning: bool = False
    connector: str = ""


_LISTED = 5


def happenings(before: Leader, now: Leader) -> Iterator[Happening]:
    """Yield rebalances, holds, their ends, waits, failures, refusals.

    The first status yields nothing: it is old.
    """
    if not before or not now or now.get("stale"):
        return
    yield from _rebalances(before, now)
    yield from _tasks(before, now)
    yield from _conditions(before, now)


def _rebalances(before: Leader, now: Leader) -> Iterator[Happening]:
    known = {round_of(each) for each in before.get("rebalances", ())} if before else set()
    for each in now.get("rebalances", ()):
        if round_of(each) in known:
            continue
        if each["assigned"] or each["revoked"]:
            yield Happening(
                "Rebalanced",
                f"{name_of(each)}: {counted(each['assigned'], 'task')} assigned, {each['revoked']} "
                f"revoked ({each['cause'] or 'no cause known'}{_by(each)})",
            )


def _by(rebalance: Mapping[str, Any]) -> str:
    """The ids of the events that caused it, to search for in the logs."""
    return f", by {rebalance['events']}" if rebalance.get("events") else ""


def _tasks(before: Leader, now: Leader) -> Iterator[Happening]:
    earlier = {task["name"]: task for task in before.get("tasks", ())}
    held: dict[str, list[str]] = {}
    waiting: dict[tuple[str, str], list[str]] = {}
    for task in now.get("tasks", ()):
        was = earlier.get(task["name"], {})
        if "held_for" in task and was.get("held_for") != task["held_for"]:
            held.setdefault(task["held_for"], []).append(task["name"])
        if task["state"] == "FAILED" and was.get("state") != "FAILED":
            why = f" ({task['reason']})" if task.get("reason") else ""
            yield Happening(
                "TaskFailed",
                f"{task['name']} has failed{why}: {error_of(task.get('trace', ''))[:300]}",
                True,
                task["connector"],
            )
        waits = read(report_of(task))
        # Texts of one wait may change with each attempt, and each would be an event.
        if waits and not read(report_of(was)):
            waiting.setdefault((task["connector"], waits[0].text), []).append(task["name"])
        if was.get("held_for") and "held_for" not in task and task["member"]:
            back = "is back at" if task["member"] == was["held_for"] else "has moved to"
            yield Happening("HoldEnded", f"{task['name']} {back} {task['member']}", False, task["connector"])
    for (connector, text), names in sorted(waiting.items()):
        yield Happening("TaskWaits", f"{listed(names, _LISTED)}: {text[:300]}", True, connector)
    for identity, names in sorted(held.items()):
        yield Happening(
            "TasksHeld",
            f"{counted(len(names), 'task')} {'waits' if len(names) == 1 else 'wait'} for {identity}: "
            f"{listed(names, _LISTED)}",
            True,
        )


def _conditions(before: Leader, now: Leader) -> Iterator[Happening]:
    earlier = {c["type"]: c for c in before.get("conditions", ())}
    for condition in now.get("conditions", ()):
        was = earlier.get(condition["type"], {})
        status = condition["status"]
        if status == "Unknown" or not is_amiss(condition["type"], status):
            continue
        if (was.get("status"), was.get("reason")) != (status, condition["reason"]):
            yield Happening(condition["reason"] or condition["type"], condition["message"], True)
