"""``kubectl cooperator top``: members, tasks and rebalances, live, laid out like ``cooperator local top``."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from cooperator.cli.kubectl.errors import errors_said, explained
from cooperator.cli.kubectl.options import (
    AllNamespacesOption,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    SomeWorkerArgument,
)
from cooperator.cli.kubectl.seen import Body, Seen, milliseconds, name_in_kafka, pods_of, see, status_of
from cooperator.controller.api.client import ApiError
from cooperator.controller.api.kubeconfig import connect
from cooperator.controller.incarnations import pod_status
from cooperator.terminal.top import NotAnswering, show

Rounds = dict[tuple[str, str], dict[str, Mapping[str, Any]]]
"""The rebalances seen so far, by (namespace, Worker) and then by time."""


def top(
    worker: SomeWorkerArgument = None,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", help="Seconds between two updates.", min=0.2, max=3600)
    ] = 2.0,
    namespace: NamespaceOption = None,
    everywhere: AllNamespacesOption = False,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Watch members, tasks, holds, failures and rebalances until Ctrl-C."""
    with errors_said():
        place = connect(namespace, context, kubeconfig)
        rounds: Rounds = {}
        first = True

        def look() -> Mapping[str, Any]:
            nonlocal first
            try:
                seen = see(place, worker, everywhere and worker is None)
                pods = [
                    pod
                    for body in seen.workers
                    for pod in pods_of(
                        place, body["metadata"]["name"], body["metadata"]["namespace"]
                    ).values()
                ]
            except ApiError as error:
                if first:
                    raise
                raise NotAnswering(explained(error)) from None
            first = False
            return view_of(seen, pods, time.time_ns() // 1_000_000, rounds)

        show(look, once, interval_s)


def view_of(seen: Seen, pods: Iterable[Body], now_ms: int, rounds: Rounds) -> dict[str, Any]:
    """The input of ``terminal.top.picture``. Adds to ``rounds``, since a status has only the last
    rebalance."""
    by_name = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in pods}
    return {
        "at_ms": now_ms,
        "workers": seen.workers,
        "members": [row for worker in seen.workers for row in _members(worker, by_name)],
        "tasks": [
            row
            for worker in seen.workers
            for connector in seen.connectors_of(worker)
            for row in _tasks(worker, connector)
        ],
        "unlisted": [
            _unlisted(status_of(connector))
            for worker in seen.workers
            for connector in seen.connectors_of(worker)
        ],
        "groups": [_group(worker, rounds) for worker in seen.workers],
    }


def _unlisted(status: Mapping[str, Any]) -> dict[str, int | None]:
    """Figures of the tasks that a Connector's status counts and does not list; None: not known."""
    entries = [entry for entry in status.get("taskStatuses") or () if entry["id"] >= 0]
    if (status.get("tasks") or {}).get("desired", 0) <= len(entries):
        return {}

    def rest(name: str) -> int | None:
        whole = status.get(name)
        return None if whole is None else max(0, whole - sum(entry.get(name) or 0 for entry in entries))

    return {"lag": rest("lag"), "rows_per_second": rest("rowsPerSecond")}


def _members(worker: Body, pods: Mapping[tuple[str, str], Body]) -> Iterator[dict[str, Any]]:
    metadata = worker["metadata"]
    for member in status_of(worker).get("members") or ():
        pod = pods.get((metadata["namespace"], member["identity"]))
        incarnation = pod_status(pod) if pod is not None else None
        yield {
            "name": member["identity"],
            "worker": metadata["name"],
            "phase": member["phase"],
            "tasks": member.get("tasks", 0),
            "restarts": incarnation.restarts if incarnation is not None else "",
            "started_ms": incarnation.started_ms if incarnation is not None else None,
            "message": member.get("message", ""),
        }


def _tasks(worker: Body, connector: Body) -> Iterator[dict[str, Any]]:
    held = {entry["task"]: entry for entry in status_of(worker).get("held") or ()}
    name = name_in_kafka(connector)
    for entry in status_of(connector).get("taskStatuses") or ():
        task = name if entry["id"] < 0 else f"{name}-{entry['id']}"
        wait = held.get(task)
        row = {
            "name": task,
            "task": entry["id"],
            "worker": worker["metadata"]["name"],
            "state": entry["state"],
            "member": entry.get("member", ""),
            "trace": entry.get("trace", ""),
            "progress": entry.get("progress", ""),
            "learning": entry.get("learning", ""),
            "reason": entry.get("reason", ""),
            "at_ms": milliseconds(entry["reportedAt"]) if entry.get("reportedAt") else 0,
        }
        if entry.get("nextAttempt"):
            row["next_attempt_ms"] = milliseconds(entry["nextAttempt"])
        if wait is not None:
            row |= {
                "state": "HELD",
                "held_for": wait["identity"],
                "held_until_ms": milliseconds(wait["until"]),
                "held_reason": wait["reason"],
            }
        elif entry["state"] == "HELD":
            # It belongs to a longer list than is shown, or to an earlier moment.
            row["state"] = "UNASSIGNED"
        yield row


def _group(worker: Body, rounds: Rounds) -> dict[str, Any]:
    metadata, last = worker["metadata"], status_of(worker).get("lastRebalance")
    known = rounds.setdefault((metadata["namespace"], metadata["name"]), {})
    if last:
        known[last["at"]] = {
            "generation": last["generation"],
            "epoch": last.get("epoch", 0),
            "at_ms": milliseconds(last["at"]),
            "assigned": last.get("assigned", 0),
            "revoked": last.get("revoked", 0),
            "cause": last.get("reason", ""),
        }
    return {"worker": metadata["name"], "rebalances": _newest(list(known.values()))}


def _newest(rounds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rounds, key=lambda each: int(each["at_ms"]))[-20:]
