"""The history of a task, from objects of the API and Kafka's logs. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cooperator.cli.kubectl.seen import Body, milliseconds, name_in_kafka, status_of
from cooperator.cli.kubectl.status_text import amiss
from cooperator.controller.names import CONTAINER
from cooperator.crd.conditions import SUMMARIES
from cooperator.crd.status import timestamp
from cooperator.host.story import PLAN, WORLD, StoryEvent, in_order, task_named
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.trace import error_of
from cooperator.terminal.tables import age, short, until
from cooperator.terminal.timeline import StretchKind, stretches


@dataclass(frozen=True, slots=True)
class Sources:
    """``history`` comes from Kafka's logs; if unreadable it is None, and ``missing`` gives the reason."""

    worker: Body
    connectors: Sequence[Body]
    events: Sequence[Body] = ()
    pods: Sequence[Body] = ()
    history: LogHistory | None = None
    missing: str = ""


def story_text(sources: Sources, task: TaskId, now_ms: int) -> str:
    """The events oldest first, the task's present state, its Worker's problems; no final newline."""
    lines = [
        f"{timestamp(line.at_ms)}  {line.who:<12} {line.what}" for line in events_of(sources, task, now_ms)
    ]
    if not lines:
        lines = ["no history: events are kept for an hour, and logs are compacted"]
    if sources.missing:
        lines.append(f"(without Kafka's logs: {sources.missing})")
    name = sources.worker["metadata"]["name"]
    conditions = [
        f"Worker {name}: {each['type']} is {each['status']}: {each['message']}"
        for each in amiss(sources.worker)
        if each.get("message") and each["type"] not in SUMMARIES
    ]
    return "\n".join([*lines, f"now: {_now(sources, task, now_ms)}", *conditions])


def events_of(sources: Sources, task: TaskId, now_ms: int) -> list[StoryEvent]:
    """The events that concern the task, by time."""
    names = _task_names(sources.connectors)
    bodies = (body for body in sources.connectors if name_in_kafka(body) == task.connector)
    resource = next((str(body["metadata"]["name"]) for body in bodies), task.connector)
    lines = [*_of_events(sources.events, sources.worker, resource, names), *_of_pods(sources.pods)]
    if sources.history is not None:
        lines += _of_logs(sources.history, task, now_ms)
    for entry in status_of(sources.worker).get("held") or ():
        # Only the logs know since when it waits.
        if entry["task"] == str(task) and sources.history is None:
            waits = f"{task} waits for {entry['identity']} until {entry['until']}: {entry['reason']}"
            lines.append(StoryEvent(now_ms, PLAN, waits, frozenset({str(task), entry["identity"]})))
    member = str(_entry(sources.connectors, task).get("member", ""))
    if member:
        # Members that only the status knows of are involved, too.
        lines += [StoryEvent(now_ms, member, "", frozenset({str(task)}))]
    return [line for line in in_order(lines, str(task)) if line.what]


def _of_events(
    events: Iterable[Body], worker: Body, resource: str, names: Collection[str]
) -> Iterator[StoryEvent]:
    """Events of the Worker and of the Connector ``resource``. One that names tasks concerns only these."""
    wanted = {("Worker", worker["metadata"]["name"]), ("Connector", resource)}
    for event in events:
        regarding = event.get("regarding") or {}
        if (regarding.get("kind"), regarding.get("name")) not in wanted:
            continue
        note = str(event.get("note", ""))
        subjects = frozenset(_words(note) & set(names))
        if " more" in note:
            # A truncated list may concern any task.
            subjects = frozenset()
        at = event.get("eventTime") or event["metadata"]["creationTimestamp"]
        yield StoryEvent(milliseconds(at), WORLD, f"{event.get('reason')}: {note}", subjects)


def _words(text: str) -> set[str]:
    return {word.strip(".,:;()") for word in text.split()}


def _of_pods(pods: Iterable[Body]) -> Iterator[StoryEvent]:
    """The latest ends and starts of the members' containers; the API keeps no earlier ones."""
    for pod in pods:
        name = pod["metadata"]["name"]
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            if status["name"] != CONTAINER:
                continue
            for state in (status.get("lastState") or {}, status.get("state") or {}):
                ended, running = state.get("terminated"), state.get("running")
                if ended and ended.get("finishedAt"):
                    why = f"{ended['reason']}, " if ended.get("reason") else ""
                    what = f"its container has ended ({why}exit code {ended.get('exitCode')})"
                    yield StoryEvent(milliseconds(ended["finishedAt"]), name, what)
                if running and running.get("startedAt"):
                    what = f"its container has started (restart {status.get('restartCount', 0)})"
                    yield StoryEvent(milliseconds(running["startedAt"]), name, what)
        if pod["metadata"].get("deletionTimestamp"):
            yield StoryEvent(
                milliseconds(pod["metadata"]["deletionTimestamp"]), name, "its pod is to be gone"
            )


def _of_logs(history: LogHistory, task: TaskId, now_ms: int) -> Iterator[StoryEvent]:
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


def _now(sources: Sources, task: TaskId, now_ms: int) -> str:
    entry = _entry(sources.connectors, task)
    if not entry:
        return "not listed in its Connector's status"
    words = [str(entry["state"])]
    if entry.get("member"):
        words.append(f"on {entry['member']}")
    for held in status_of(sources.worker).get("held") or ():
        if held["task"] == str(task):
            words.append(f"for {held['identity']}, moves {until(milliseconds(held['until']), now_ms)}")
    if entry.get("reason"):
        words.append(f"({entry['reason']})")
    if entry.get("nextAttempt"):
        words.append(f"next attempt {until(milliseconds(entry['nextAttempt']), now_ms)}")
    if entry.get("lastError"):
        words.append(f"- last error: {short(entry['lastError'])}")
    return " ".join(words)


def _entry(connectors: Iterable[Body], task: TaskId) -> Mapping[str, Any]:
    for body in connectors:
        if name_in_kafka(body) == task.connector:
            for entry in status_of(body).get("taskStatuses") or ():
                if entry["id"] == task.task:
                    found: Mapping[str, Any] = entry
                    return found
    return {}


def _task_names(connectors: Iterable[Body]) -> set[str]:
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
