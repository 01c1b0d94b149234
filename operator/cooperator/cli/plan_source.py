"""The starting point of ``cooperator plan``: a live group, found by its broker or by a local Worker's
name."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cooperator.connectors import find
from cooperator.connectors.options import OptionError
from cooperator.crd import Worker
from cooperator.leader.observability.group_inspector import GroupAddress, look, with_status
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.daemon import HostAway, ask_host
from cooperator.local.layout import StateDir, read_cluster
from cooperator.local.options import existing_state
from cooperator.local.store import ManifestStore
from cooperator.model import is_amiss
from cooperator.model.text import choice, counted
from cooperator.scenarios.changes import Resize
from cooperator.scenarios.snapshot import LedBy, Snapshot


class PlanError(Exception):
    """The question cannot be answered; the text names the option, its value and the remedy."""


def of_group(bootstrap_servers: str, group_id: str, config_topic: str | None = None) -> Snapshot:
    """A live group, inspected from outside. Raises PlanError, NotSeen."""
    for server in bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise PlanError(
                f"--bootstrap-servers {server.strip()!r} is not host:port: write host1:port1,host2:port2"
            )
    snapshot = look(GroupAddress(bootstrap_servers, group_id, config_topic))
    if snapshot.led_by is LedBy.OPERATOR:
        note = (
            "what only the operator's host knows (expected, cordoned and quarantined members) and the "
            "weights of tasks are unknown here"
        )
        snapshot = replace(snapshot, notes=(*snapshot.notes, note))
    return snapshot


def of_worker(state: Path, namespace: str, name: str) -> Snapshot:
    """The group of a Worker that runs from a state directory. Raises PlanError, ClusterError, NotSeen."""
    directory = existing_state(state)
    stored = ManifestStore(directory, lambda: 0).read()
    known = {w.metadata.name: w for w in stored.workers if w.metadata.namespace == namespace}
    if name not in known:
        raise PlanError(
            f"--worker {name}: namespace {namespace} of {state} has no such Worker; "
            f"{choice(name, sorted(known)) if known else 'it has none'}"
        )
    worker = known[name]
    snapshot = look(GroupAddress(_servers(directory, worker), worker.group_id))
    try:
        groups = ask_host(directory)["groups"]
    except HostAway:
        note = "the host daemon does not run: its facts are not in the answer"
        return replace(snapshot, notes=(*snapshot.notes, note))
    found = [group for group in groups if (group["namespace"], group["worker"]) == (namespace, name)]
    status = found[0] if found else {}
    return with_conditions(with_status(snapshot, status), status.get("conditions", ()))


def with_conditions(snapshot: Snapshot, conditions: Iterable[Mapping[str, Any]]) -> Snapshot:
    """The snapshot with a note for each of a Worker's conditions that is not met."""
    notes = (
        f"{each['type']} is {each['status']} ({each['reason']}): {each.get('message', '')}".removesuffix(": ")
        for each in conditions
        if is_amiss(each["type"], each["status"])
    )
    return replace(snapshot, notes=(*snapshot.notes, *notes))


def _servers(directory: StateDir, worker: Worker) -> str:
    cluster = read_cluster(directory)
    servers = worker.spec.bootstrap_servers or (cluster.bootstrap_servers if cluster is not None else None)
    return servers or EmbeddedBroker(directory.broker, detached=True).bootstrap_servers


def regrouped(snapshot: Snapshot, change: Resize) -> tuple[Resize, tuple[str, ...]]:
    """Return ``change`` as the connector's class would deal its units to that many tasks, and notes."""
    name, old = change.connector, snapshot.units.get(change.connector)
    if name not in snapshot.view.tasks or change.tasks < 1:
        return change, ()
    try:
        connector = find(snapshot.classes.get(name, ""))
    except OptionError:
        old = None
    if old is None:
        return change, (f"connector {name}: remaining tasks are assumed to keep their configuration",)
    units = [unit for group in old for unit in group]
    new = connector.groups(units, change.tasks, old)
    affected = frozenset(n for n, group in enumerate(old) if n >= len(new) or new[n] != group)
    found = counted(len(new), "task")
    capped = f"--tasks-max {name}={change.tasks} exceeds its number of units: there will be {found}"
    notes = (capped,) if len(new) < change.tasks else ()
    return replace(change, tasks=len(new), affected=affected), notes
