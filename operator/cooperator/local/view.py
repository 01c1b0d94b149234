"""The output of `get`, made from stored resources, running processes and the leaders' projections. Pure."""

from collections.abc import Mapping
from typing import Any

from cooperator.crd import Connector, ConnectorStatus, to_manifest
from cooperator.crd.connector_names import named
from cooperator.host.known import NO_TASKS, Leader
from cooperator.host.status import WorkerFacts, connector_status, member_rows, with_holds, worker_status
from cooperator.local.store import Key, Stored


def state_view(
    stored: Stored,
    facts: Mapping[tuple[str, str], WorkerFacts],
    now_ms: int,
    withheld: Mapping[tuple[str, str], str] | None = None,
) -> dict[str, Any]:
    """Returns the whole view, JSON-like.

    ``facts`` are by (namespace, name) of Workers, including Workers that are being removed. ``withheld``
    holds the reasons why Connectors are not started.
    """
    nothing = WorkerFacts()
    workers = stored.workers
    by_name = {(w.metadata.namespace, w.metadata.name): w for w in workers}
    facts = {name: with_holds(seen, by_name.get(name)) for name, seen in facts.items()}
    refused = {name: named(worker, stored.connectors).refused for name, worker in by_name.items()}

    def of_connector(connector: Connector) -> ConnectorStatus:
        namespace, name = connector.metadata.namespace, connector.metadata.name
        worker = (namespace, connector.spec.worker_ref.name)
        problem = refused.get(worker, {}).get(name)
        return connector_status(
            connector,
            workers,
            # The Connector that runs under its name is another one.
            NO_TASKS if problem is not None else facts.get(worker, nothing).leader,
            now_ms,
            [] if problem is None else [problem],
            bound_worker=stored.bound.get(Key.of(connector)),
            withheld=(withheld or {}).get((namespace, name), ""),
        )

    return {
        "at_ms": now_ms,
        "workers": [
            to_manifest(worker, worker_status(worker, facts.get(name, nothing), now_ms))
            for name, worker in by_name.items()
        ],
        "connectors": [to_manifest(connector, of_connector(connector)) for connector in stored.connectors],
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
    """Returns the view without a daemon: only the manifests are known."""
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
