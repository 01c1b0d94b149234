"""The history of a task, from objects of the API and Kafka's logs. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cooperator.controller.names import CONTAINER
from cooperator.crd.conditions import SUMMARIES
from cooperator.crd.status import timestamp
from cooperator.host.story import PLAN, WORLD, StoryEvent, in_order
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.visible import visible_lines
from cooperator.terminal.objects import Body, amiss, milliseconds, name_in_kafka, status_of
from cooperator.terminal.story import entry_of, log_events, present, task_names


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
    return visible_lines(
        [*lines, f"now: {present(sources.worker, sources.connectors, task, now_ms)}", *conditions]
    )


def events_of(sources: Sources, task: TaskId, now_ms: int) -> list[StoryEvent]:
    """The events that concern the task, by time."""
    names = task_names(sources.connectors)
    bodies = (body for body in sources.connectors if name_in_kafka(body) == task.connector)
    resource = next((str(body["metadata"]["name"]) for body in bodies), task.connector)
    lines = [*_of_events(sources.events, sources.worker, resource, names), *_of_pods(sources.pods)]
    if sources.history is not None:
        lines += log_events(sources.history, task, now_ms)
    for entry in status_of(sources.worker).get("held") or ():
        # Only the logs know since when it waits.
        if entry["task"] == str(task) and sources.history is None:
            waits = f"{task} waits for {entry['identity']} until {entry['until']}: {entry['reason']}"
            lines.append(StoryEvent(now_ms, PLAN, waits, frozenset({str(task), entry["identity"]})))
    member = str(entry_of(sources.connectors, task).get("member", ""))
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
