"""What happened to a task, made of the objects of the API and of what Kafka's logs say. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cooperator.cli.kubectl.seen import Body, milliseconds, status_of
from cooperator.controller.names import CONTAINER
from cooperator.crd.status import timestamp
from cooperator.host.told import PLAN, WORLD, Told, in_order, task_named
from cooperator.local.tables import age, short, until
from cooperator.local.timeline import Kind, stretches
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.trace import error_of


@dataclass(frozen=True, slots=True)
class Sources:
    """``history``: of Kafka's logs; None where they could not be read, and ``missing`` says why."""

    worker: Body
    connectors: Sequence[Body]
    events: Sequence[Body] = ()
    pods: Sequence[Body] = ()
    history: LogHistory | None = None
    missing: str = ""


def story_text(sources: Sources, task: TaskId, now_ms: int) -> str:
    """The lines of the story, oldest first, and how the task is now; lines without an end."""
    lines = [f"{timestamp(line.at_ms)}  {line.who:<12} {line.what}" for line in told(sources, task, now_ms)]
    if not lines:
        lines = ["nothing is told of it: events are kept for an hour, and logs are compacted"]
    if sources.missing:
        lines.append(f"(without Kafka's logs: {sources.missing})")
    return "\n".join([*lines, f"now: {_now(sources, task, now_ms)}"])


def told(sources: Sources, task: TaskId, now_ms: int) -> list[Told]:
    """What concerns the task, by time."""
    names = _task_names(sources.connectors)
    lines = [*_of_events(sources.events, sources.worker, task, names), *_of_pods(sources.pods)]
    if sources.history is not None:
        lines += _of_logs(sources.history, task, now_ms)
    for entry in status_of(sources.worker).get("held") or ():
        # Since when is in the logs only.
        if entry["task"] == str(task) and sources.history is None:
            waits = f"{task} waits for {entry['identity']} until {entry['until']}: {entry['reason']}"
            lines.append(Told(now_ms, PLAN, waits, frozenset({str(task), entry["identity"]})))
    member = str(_entry(sources.connectors, task).get("member", ""))
    if member:
        # Also the members that only the status knows of are involved.
        lines += [Told(now_ms, member, "", frozenset({str(task)}))]
    return [line for line in in_order(lines, str(task)) if line.what]


def _of_events(events: Iterable[Body], worker: Body, task: TaskId, names: Collection[str]) -> Iterator[Told]:
    """Of the Worker, and of the connector of the task. One that names tasks is about these only."""
    wanted = {("Worker", worker["metadata"]["name"]), ("Connector", task.connector)}
    for event in events:
        regarding = event.get("regarding") or {}
        if (regarding.get("kind"), regarding.get("name")) not in wanted:
            continue
        note = str(event.get("note", ""))
        subjects = frozenset(_words(note) & set(names))
        if " more" in note:
            # A list that is cut: it may be about any.
            subjects = frozenset()
        at = event.get("eventTime") or event["metadata"]["creationTimestamp"]
        yield Told(milliseconds(at), WORLD, f"{event.get('reason')}: {note}", subjects)


def _words(text: str) -> set[str]:
    return {word.strip(".,:;()") for word in text.split()}


def _of_pods(pods: Iterable[Body]) -> Iterator[Told]:
    """Ends and starts of the members' containers: the last ones, which is all that the API keeps."""
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
                    yield Told(milliseconds(ended["finishedAt"]), name, what)
                if running and running.get("startedAt"):
                    what = f"its container has started (restart {status.get('restartCount', 0)})"
                    yield Told(milliseconds(running["startedAt"]), name, what)
        if pod["metadata"].get("deletionTimestamp"):
            yield Told(milliseconds(pod["metadata"]["deletionTimestamp"]), name, "its pod is to be gone")


def _of_logs(history: LogHistory, task: TaskId, now_ms: int) -> Iterator[Told]:
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
            case Kind.HELD:
                why = causes.get((each.member, each.since_ms), "")
                what = f"{task} waits for {each.member}" + (f": {why}" if why else "")
                yield Told(each.since_ms, PLAN, what, about | {each.member})
                continue
            case Kind.FAILED:
                status = traces.get((each.member, each.since_ms))
                trace = short(error_of(status.trace)) if status is not None else ""
                yield Told(each.since_ms, each.member, f"{task} has failed: {trace}".rstrip(": "), about)
                continue
        status = traces.get((each.member, each.since_ms))
        under = f" under {status.epoch}" if status is not None and status.epoch is not None else ""
        does = "is paused" if each.kind is Kind.PAUSED else "runs"
        yield Told(each.since_ms, each.member, f"{task} {does}{under}", about)
        if each.until_ms < now_ms:
            yield Told(each.until_ms, each.member, f"{task} {does} no more, after {lasted}", about)


def _now(sources: Sources, task: TaskId, now_ms: int) -> str:
    entry = _entry(sources.connectors, task)
    if not entry:
        return "its Connector's status does not list it"
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
        if body["metadata"]["name"] == task.connector:
            for entry in status_of(body).get("taskStatuses") or ():
                if entry["id"] == task.task:
                    found: Mapping[str, Any] = entry
                    return found
    return {}


def _task_names(connectors: Iterable[Body]) -> set[str]:
    """Of all tasks and instances that there are."""
    names = set()
    for body in connectors:
        name = body["metadata"]["name"]
        numbers = {entry["id"] for entry in status_of(body).get("taskStatuses") or ()}
        names |= {name, *(f"{name}-{number}" for number in numbers if number >= 0)}
    return names


def meant(name: str, connectors: Iterable[Body]) -> TaskId:
    """The task that is called so, by the connectors that there are."""
    return task_named(name, {body["metadata"]["name"] for body in connectors})
