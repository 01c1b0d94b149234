"""The history and the present state of a task, from Kafka's logs and from statuses. Pure.

The statuses are those of Workers and Connectors as manifests, which a cluster and this machine have alike.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cooperator.host.story import PLAN, StoryEvent, task_named
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.trace import error_of
from cooperator.terminal.objects import Body, milliseconds, name_in_kafka, status_of
from cooperator.terminal.tables import age, short, until
from cooperator.terminal.timeline import StretchKind, stretches


def log_events(history: LogHistory, task: TaskId, now_ms: int) -> Iterator[StoryEvent]:
    """Yields when and where the task ran, was paused, waited and failed, with reasons; in no order."""
    causes = {
        (identity, hold.since_ms): f"{hold.reason.value}{f', by {hold.cause}' if hold.cause else ''}"
        for memory in history.memories
        for identity, hold in memory.holds.items()
    }
    traces = {(s.worker, s.at_ms): s for s in history.statuses if s.task == task}
    own = [status for status in history.statuses if status.task == task]
    about = frozenset({str(task)})
    for each in stretches(own, history.memories, 0, now_ms):
        if each.task != task:
            continue
        lasted = age(each.since_ms, each.until_ms)
        match each.kind:
            case StretchKind.HELD:
                why = causes.get((each.member, each.since_ms), "")
                what = f"{task} waits for {each.member}" + (f": {why}" if why else "")
                yield StoryEvent(each.since_ms, PLAN, what, about | {each.member})
                continue
            case StretchKind.FAILED:
                status = traces.get((each.member, each.since_ms))
                trace = short(error_of(status.trace)) if status is not None else ""
                yield StoryEvent(
                    each.since_ms, each.member, f"{task} has failed: {trace}".rstrip(": "), about
                )
                continue
        status = traces.get((each.member, each.since_ms))
        under = f" under {status.epoch}" if status is not None and status.epoch is not None else ""
        does = "is paused" if each.kind is StretchKind.PAUSED else "runs"
        yield StoryEvent(each.since_ms, each.member, f"{task} {does}{under}", about)
        if each.until_ms < now_ms:
            yield StoryEvent(each.until_ms, each.member, f"{task} no longer {does}, after {lasted}", about)


def present(worker: Body, connectors: Iterable[Body], task: TaskId, now_ms: int) -> str:
    """The task's state in the statuses of its Connector and its Worker, in one line."""
    entry = entry_of(connectors, task)
    if not entry:
        return "not listed in its Connector's status"
    words = [str(entry["state"])]
    if entry.get("member"):
        words.append(f"on {entry['member']}")
    for held in status_of(worker).get("held") or ():
        if held["task"] == str(task):
            words.append(f"for {held['identity']}, moves {until(milliseconds(held['until']), now_ms)}")
    if entry.get("reason"):
        words.append(f"({entry['reason']})")
    if entry.get("nextAttempt"):
        words.append(f"next attempt {until(milliseconds(entry['nextAttempt']), now_ms)}")
    if entry.get("lastError"):
        words.append(f"- last error: {short(entry['lastError'])}")
    return " ".join(words)


def entry_of(connectors: Iterable[Body], task: TaskId) -> Mapping[str, Any]:
    """The task's entry in its Connector's status; empty if it is not listed."""
    for body in connectors:
        if name_in_kafka(body) == task.connector:
            for entry in status_of(body).get("taskStatuses") or ():
                if entry["id"] == task.task:
                    found: Mapping[str, Any] = entry
                    return found
    return {}


def task_names(connectors: Iterable[Body]) -> set[str]:
    """The names of all tasks and instances."""
    names = set()
    for body in connectors:
        name = name_in_kafka(body)
        numbers = {entry["id"] for entry in status_of(body).get("taskStatuses") or ()}
        names |= {name, *(f"{name}-{number}" for number in numbers if number >= 0)}
    return names


def meant(name: str, connectors: Iterable[Body]) -> TaskId:
    """The task that ``name`` means, by its name in Kafka or by its Connector's resource."""
    bodies = list(connectors)
    task = task_named(name, {name_in_kafka(body) for body in bodies})
    if any(name_in_kafka(body) == task.connector for body in bodies):
        return task
    of_resource = task_named(name, {body["metadata"]["name"] for body in bodies})
    for body in bodies:
        if body["metadata"]["name"] == of_resource.connector:
            return TaskId(name_in_kafka(body), of_resource.task)
    return task
