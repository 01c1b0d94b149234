"""``cooperator local story``: the history of a task on this machine, with reasons."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from cooperator.crd.projection import timestamp
from cooperator.host.story import WORLD, StoryEvent, in_order
from cooperator.local.daemon import ask_host
from cooperator.local.history import history_of
from cooperator.local.layout import ClusterError
from cooperator.local.members import ProcessIncarnation, read_incarnations
from cooperator.local.options import (
    DEFAULT_STATE,
    NamespaceOption,
    StateOption,
    errors_said,
    existing_state,
)
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.text import hinted
from cooperator.model.visible import visible_lines
from cooperator.terminal.console import Console, write
from cooperator.terminal.objects import amiss, name_in_kafka
from cooperator.terminal.story import log_events, meant, present, task_names
from cooperator.terminal.tables import name_of


def story(
    task: Annotated[
        str, typer.Argument(help="a task such as orders-0; a connector's name alone means its instance")
    ],
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Show when and where a task started, waited, moved and failed, and why."""
    with errors_said(Console()):
        directory = existing_state(state)
        view = ask_host(directory)
        connectors = [c for c in view["connectors"] if c["metadata"]["namespace"] == namespace]
        item = meant(task, connectors)
        owner = next((c for c in connectors if name_in_kafka(c) == item.connector), None)
        if owner is None or (item.task >= 0 and str(item) not in task_names(connectors)):
            remedy = hinted(task, sorted(task_names(connectors)), "see `cooperator local get tasks`")
            raise ClusterError(f"there is no task {task!r}; {remedy}")
        worker = owner["spec"]["workerRef"]["name"]
        history = history_of(view, namespace, worker)
        processes = read_incarnations(directory.worker(namespace, worker).members)
        write(story_text(view, item, worker, namespace, history, processes, time.time_ns() // 1_000_000))


def story_text(
    view: Mapping[str, Any],
    task: TaskId,
    worker: str,
    namespace: str,
    history: LogHistory,
    processes: Iterable[ProcessIncarnation],
    now_ms: int,
) -> str:
    """The events oldest first, the task's present state, its Worker's problems; no final newline. Pure."""
    group = next(g for g in view["groups"] if (g["namespace"], g["worker"]) == (namespace, worker))
    [body] = (
        w
        for w in view["workers"]
        if (w["metadata"]["namespace"], w["metadata"]["name"]) == (namespace, worker)
    )
    connectors = [c for c in view["connectors"] if c["metadata"]["namespace"] == namespace]
    events = [*log_events(history, task, now_ms), *_of_processes(processes), *_of_rounds(group)]
    shown = [event for event in in_order(events, str(task)) if event.what]
    lines = [f"{timestamp(event.at_ms)}  {event.who:<12} {event.what}" for event in shown]
    problems = [
        f"Worker {worker}: {each['type']} is {each['status']}: {each['message']}"
        for each in amiss(body)
        if each.get("message")
    ]
    return visible_lines(
        [
            *(lines or ["no history: the logs are compacted"]),
            f"now: {present(body, connectors, task, now_ms)}",
            *problems,
        ]
    )


def _of_processes(processes: Iterable[ProcessIncarnation]) -> Iterator[StoryEvent]:
    """The start and the end of the members' present processes; earlier ones have left no times."""
    for each in processes:
        yield StoryEvent(each.started_ms, each.identity, f"its process has started (restart {each.restarts})")
        if each.ended_ms is not None:
            code = "" if each.exit_code is None else f" (exit code {each.exit_code})"
            yield StoryEvent(each.ended_ms, each.identity, f"its process has ended{code}")


def _of_rounds(group: Mapping[str, Any]) -> Iterator[StoryEvent]:
    for each in group.get("rebalances", ()):
        if each["assigned"] or each["revoked"]:
            what = (
                f"Rebalanced: {name_of(each)}: {each['assigned']} tasks assigned, "
                f"{each['revoked']} revoked ({each['cause'] or 'no cause known'})"
            )
            yield StoryEvent(each["at_ms"], WORLD, what)
