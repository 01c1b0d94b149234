"""What people see of a Worker on the API: statuses, events, the readiness gate; and the finalizers.

A status is written when it has changed, at most once a second; nothing here is read back to decide.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from cooperator.controller.api import CONNECTORS, PODS, WORKERS, Api, ApiError, Kind
from cooperator.controller.names import FINALIZER, GROUP, SETTLED, VERSION
from cooperator.controller.observe import Body, milliseconds
from cooperator.controller.recorder import Recorder
from cooperator.controller.restarts import DONE, asked, done, record
from cooperator.controller.store import CONNECTOR, POD, WORKER, Name, Seen, Store
from cooperator.controller.story import Happening, happenings
from cooperator.crd import (
    Condition,
    Connector,
    ConnectorStatus,
    Worker,
    WorkerStatus,
    merge_conditions,
    stored_conditions,
    summary_conditions,
)
from cooperator.crd.status import timestamp
from cooperator.host.status import WorkerFacts, connector_status, worker_status
from cooperator.leader.service import LeaderService
from cooperator.logs import LogUnavailable

log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_FINALIZER_PATIENCE_MS: Final = 120_000
"""How long a deleted Connector waits for its tasks to have stopped."""
API_VERSION: Final = f"{GROUP}/{VERSION}"
_STORED: Final[Mapping[Kind, str]] = {WORKERS: WORKER, CONNECTORS: CONNECTOR, PODS: POD}


class Publisher:
    """Of one Worker and its Connectors; used by its reconciler's thread only."""

    def __init__(self, api: Api, name: Name, store: Store) -> None:
        self._api = api
        self._store = store
        self._name = name
        self._recorder = Recorder(api)
        self._written: dict[tuple[str, str], Any] = {}
        self._written_at = float("-inf")
        self._conditions: dict[tuple[str, str], tuple[Condition, ...]] = {}
        self._before: Mapping[str, Any] = {}
        self._gates: dict[str, bool] = {}
        self._refusal = ""
        self._restarted: dict[str, str] = {}
        """By uid: the request that was carried out last, also when it could not be noted."""

    def refused(self, message: str) -> None:
        """The API did not let us do something; said in the Worker's condition until something works again."""
        self._refusal = message

    def publish(
        self,
        worker: Worker,
        connectors: tuple[Connector, ...],
        facts: WorkerFacts,
        seen: Seen,
        problems: Mapping[tuple[str, str], str],
        leader: LeaderService | None,
    ) -> None:
        """Bring everything up to date. Raises ApiError."""
        assert seen.worker is not None
        for happening in happenings(self._before, facts.leader):
            self._tell(happening, seen)
        self._before = facts.leader
        for body in seen.connectors:
            self._see_connector(body, facts.leader, leader)
        self._open_gates(seen, facts)
        if time.monotonic() - self._written_at < _EVERY_S:
            return
        self._written_at = time.monotonic()
        now_ms = time.time_ns() // 1_000_000
        wrong = [problems.get(("Worker", worker.metadata.name)), self._refusal]
        self._refusal = ""
        self._write(
            WORKERS, seen.worker, worker_status(worker, facts, now_ms, [each for each in wrong if each])
        )
        bodies = {body["metadata"]["name"]: body for body in seen.connectors}
        for connector in connectors:
            name = connector.metadata.name
            problem = problems.get(("Connector", name))
            own = connector_status(connector, (worker,), facts.leader, now_ms, [problem] if problem else ())
            self._write(CONNECTORS, bodies.pop(name), own)
        for name, body in bodies.items():
            if ("Connector", name) in problems:
                self._refuse(CONNECTORS, body, problems[("Connector", name)])

    def unreadable(self, body: Body, problems: Mapping[tuple[str, str], str]) -> None:
        """A Worker that cannot be read and never could."""
        if time.monotonic() - self._written_at >= _EVERY_S:
            self._written_at = time.monotonic()
            self._refuse(WORKERS, body, problems.get(("Worker", self._name[1]), "the spec cannot be read"))
        if body["metadata"].get("deletionTimestamp") is not None:
            self.finalize(WORKERS, body, keep=False)

    def stray(
        self, body: Body, connector: Connector | None, workers: tuple[Worker, ...], problem: str | None
    ) -> None:
        """A Connector whose Worker is not there."""
        if connector is None:
            self._refuse(CONNECTORS, body, problem or "the spec cannot be read")
            return
        now_ms = time.time_ns() // 1_000_000
        status = connector_status(connector, workers, {}, now_ms, [problem] if problem else ())
        self._write(CONNECTORS, body, status)

    def left_behind(self, body: Body, pods: list[str]) -> None:
        note = (
            f"{', '.join(pods)} did not end in time and are left to Kubernetes' garbage collection: "
            "see whether their nodes live"
        )
        log.warning("Worker %s/%s: %s", *self._name, note)
        self._recorder.record(body, "Worker", Happening("LeftBehind", note, True))

    def finalize(self, kind: Kind, body: Body, keep: bool) -> bool:
        """Have our finalizer, or have it no longer. Whether that is so now. Raises ApiError."""
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "Worker" if kind is WORKERS else "Connector",
            # Of the finalizers only ours is ours to give and to take.
            "metadata": {**_meant(body), "finalizers": [FINALIZER] if keep else []},
        }
        try:
            self._saw(kind, self._api.apply(kind, manifest))
        except ApiError as error:
            # Gone since it was seen; or another of its name, or somebody else was first: to be seen again.
            if not error.is_outdated:
                raise
            return error.is_missing
        return True

    def annotate(self, kind: Kind, body: Body, annotations: Mapping[str, str]) -> None:
        """Note something on this object that is decided by. Raises ApiError."""
        metadata = body["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
        self._saw(kind, self._api.merge(kind, metadata["namespace"], metadata["name"], patch))

    def _saw(self, kind: Kind, body: Body) -> None:
        """What an answer shows is seen before the watch tells it: nothing is written twice meanwhile."""
        self._store.put(_STORED[kind], body)

    # --- connectors ---------------------------------------------------------------------------------

    def _see_connector(
        self, body: Body, leader_says: Mapping[str, Any], leader: LeaderService | None
    ) -> None:
        metadata = body["metadata"]
        name = metadata["name"]
        kept = FINALIZER in (metadata.get("finalizers") or ())
        deleted = metadata.get("deletionTimestamp")
        if deleted is None:
            if not kept:
                self.finalize(CONNECTORS, body, keep=True)
            self._restart(body, leader)
        elif kept:
            overdue = time.time() * 1000 - milliseconds(deleted) > _FINALIZER_PATIENCE_MS
            if _is_gone(name, leader_says):
                self.finalize(CONNECTORS, body, keep=False)
            elif overdue:
                note = f"tasks of {name} were not seen to stop within {_FINALIZER_PATIENCE_MS // 1000} s"
                self._recorder.record(body, "Connector", Happening("LeftBehind", note, True))
                self.finalize(CONNECTORS, body, keep=False)

    def _restart(self, body: Body, leader: LeaderService | None) -> None:
        metadata = body["metadata"]
        now, before = asked(body), done(body)
        if now == before:
            return
        carried_out = self._restarted.get(metadata["uid"]) == now
        wanted = None if before is None or carried_out else record(metadata["name"], before, now)
        if wanted is not None:
            try:
                code = leader.restart(wanted) if leader is not None else 409
            except (TimeoutError, LogUnavailable) as error:
                log.warning("restart of %s: %s", metadata["name"], error)
                return
            if code == 409:
                return  # Nobody leads now; the wish stands.
            self._restarted[metadata["uid"]] = now
            note = f"{'the connector and its tasks' if wanted.include_tasks else 'a part of it'} restarts"
            self._recorder.record(body, "Connector", Happening("Restarted", note))
        self.annotate(CONNECTORS, body, {DONE: now})

    # --- readiness ----------------------------------------------------------------------------------

    def _open_gates(self, seen: Seen, facts: WorkerFacts) -> None:
        """Ready is who is a member of a calm group: an eviction after another waits."""
        settled = bool(facts.leader.get("settled"))
        if facts.leader.get("stale") or "members" not in facts.leader:
            return
        members = {(m["identity"], m["incarnation"]) for m in facts.leader["members"]}
        for identity, body in seen.pods.items():
            life = facts.lives[identity]
            is_member = (identity, life.incarnation) in members
            # A member that is there stays ready while a round goes on; a new one becomes ready in a calm one.
            ready = is_member and (settled or self._gates.get(body["metadata"]["uid"], False))
            if self._shown(body) != ready:
                condition = {
                    "type": SETTLED,
                    "status": str(ready),
                    "reason": "Settled" if ready else ("Rebalancing" if is_member else "NoMember"),
                    "lastTransitionTime": timestamp(time.time_ns() // 1_000_000),
                }
                manifest = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": _meant(body),
                    "status": {"conditions": [condition]},
                }
                try:
                    self._saw(PODS, self._api.apply(PODS, manifest, "status"))
                except ApiError as error:
                    # Gone since it was seen, or another of its name: no reason to say nothing of the others.
                    if not error.is_outdated:
                        raise
                    continue
            self._gates[body["metadata"]["uid"]] = ready

    def _shown(self, body: Body) -> bool:
        conditions = body.get("status", {}).get("conditions") or ()
        return any(c["type"] == SETTLED and c["status"] == "True" for c in conditions)

    # --- writing ------------------------------------------------------------------------------------

    def _tell(self, happening: Happening, seen: Seen) -> None:
        assert seen.worker is not None
        about = next(
            (b for b in seen.connectors if b["metadata"]["name"] == happening.connector), seen.worker
        )
        kind = "Worker" if about is seen.worker else "Connector"
        self._recorder.record(about, kind, happening)

    def _refuse(self, kind: Kind, body: Body, problem: str) -> None:
        """The status of what could never be read."""
        generation = body["metadata"].get("generation")
        conditions = summary_conditions((), generation=generation, settled=False, problems=[problem])
        made = WorkerStatus if kind is WORKERS else ConnectorStatus
        self._write(kind, body, made(observed_generation=generation, conditions=conditions))

    def _write(self, kind: Kind, body: Body, status: WorkerStatus | ConnectorStatus) -> None:
        key = (kind.plural, body["metadata"]["name"])
        before = self._conditions.get(key) or stored_conditions(body)
        conditions = merge_conditions(before, status.conditions, time.time_ns() // 1_000_000)
        self._conditions[key] = conditions
        said = status.model_copy(update={"conditions": conditions}).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        if self._written.get(key) == said:
            return
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "Worker" if kind is WORKERS else "Connector",
            "metadata": _meant(body),
            "status": said,
        }
        try:
            self._saw(kind, self._api.apply(kind, manifest, "status"))
        except ApiError as error:
            if not error.is_outdated:
                raise
            return
        self._written[key] = said


def _meant(body: Body) -> dict[str, str]:
    """This object and no later one of its name."""
    metadata = body["metadata"]
    return {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}


def _is_gone(connector: str, leader: Mapping[str, Any]) -> bool:
    """Whether the config log has it no longer, and no member runs anything of it."""
    if not leader.get("leading") or leader.get("stale") or connector in leader["connectors"]:
        return False
    owned = (text for member in leader["members"] for text in (*member["owned"], *member["stopping"]))
    return not any(text == connector or _is_task_of(text, connector) for text in owned)


def _is_task_of(text: str, connector: str) -> bool:
    name, dash, number = text.rpartition("-")
    return bool(dash) and name == connector and number.isdigit()
