"""What `get` prints: made of what is stored, what runs and what the leaders say. Pure; decides nothing."""

from collections.abc import Mapping
from typing import Any

from cooperator.crd import to_manifest
from cooperator.host.status import (
    Leader,
    WorkerFacts,
    connector_status,
    member_rows,
    with_holds,
    worker_status,
)
from cooperator.local.store import Stored


def state_view(stored: Stored, facts: Mapping[tuple[str, str], WorkerFacts], now_ms: int) -> dict[str, Any]:
    """Everything, JSON-like. ``facts``: by (namespace, name) of Workers, also of ones being removed."""
    nothing = WorkerFacts()
    workers = stored.workers
    by_name = {(w.metadata.namespace, w.metadata.name): w for w in workers}
    facts = {name: with_holds(seen, by_name.get(name)) for name, seen in facts.items()}
    return {
        "at_ms": now_ms,
        "workers": [
            to_manifest(worker, worker_status(worker, facts.get(name, nothing), now_ms))
            for name, worker in by_name.items()
        ],
        "connectors": [
            to_manifest(
                connector,
                connector_status(
                    connector,
                    workers,
                    facts.get((connector.metadata.namespace, connector.spec.worker_ref.name), nothing).leader,
                    now_ms,
                ),
            )
            for connector in stored.connectors
        ],
        "members": [row for name, seen in sorted(facts.items()) for row in member_rows(name, seen)],
        "tasks": [
            {**task, "worker": name[1], "namespace": name[0]}
            for name, seen in sorted(facts.items())
            for task in seen.leader.get("tasks", ())
        ],
        "groups": [
            {"namespace": name[0], "worker": name[1], **_without_tasks(seen.leader)}
            for name, seen in sorted(facts.items())
        ],
        "problems": [str(problem) for problem in stored.problems],
    }


def unknown_view(stored: Stored, now_ms: int) -> dict[str, Any]:
    """What can be said while no daemon runs: the manifests."""
    return {
        "at_ms": now_ms,
        "workers": [to_manifest(worker) for worker in stored.workers],
        "connectors": [to_manifest(connector) for connector in stored.connectors],
        "members": [],
        "tasks": [],
        "groups": [],
        "problems": [str(problem) for problem in stored.problems],
    }


def _without_tasks(leader: Leader) -> dict[str, Any]:
    return {name: value for name, value in leader.items() if name != "tasks"}
