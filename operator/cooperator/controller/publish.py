"""Publishes a Worker on the API: statuses, events, the readiness gate and finalizers.

A status is written when it has changed, at most once a second. Of it only the binding of a Connector to its
Worker is read back for decisions.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from cooperator.controller.api.client import CONNECTORS, PODS, WORKERS, Api, ApiError, Kind
from cooperator.controller.api.recorder import Recorder
from cooperator.controller.interruptions import Interruptions, notices, observe
from cooperator.controller.names import FINALIZER, SETTLED
from cooperator.controller.observe import Body, milliseconds
from cooperator.controller.outputs import OUTPUTS, pod_local
from cooperator.controller.resources import SeenConnectors, connector_name
from cooperator.controller.restarts import DONE, asked, done, record
from cooperator.controller.status_writer import API_VERSION, StatusWriter, meant
from cooperator.controller.store import Name, Seen, Store, referred
from cooperator.controller.story import Happening, happenings
from cooperator.crd import (
    Connector,
    ConnectorStatus,
    Worker,
    WorkerStatus,
    summary_conditions,
)
from cooperator.crd.conditions import INVALID_SPEC, REPLICA_FAILURE
from cooperator.crd.status import timestamp
from cooperator.host.kept import kept_of_connector, kept_of_worker
from cooperator.host.known import NO_TASKS, is_known
from cooperator.host.status import WorkerFacts, connector_status, worker_status
from cooperator.leader.service import LeaderService
from cooperator.logs import LogUnavailable

log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_FINALIZER_PATIENCE_MS: Final = 120_000
"""Time that a deleted Connector waits for its tasks to stop."""


class Publisher:
    """Serves one Worker and its Connectors; used by one thread only."""

    def __init__(self, api: Api, name: Name, store: Store) -> None:
        self._api = api
        self._name = name
        self._recorder = Recorder(api)
        self._writer = StatusWriter(api, store, self._bound_worker)
        self._written_at = float("-inf")
        self._before: Mapping[str, Any] = {}
        self._failing: Set[str] = frozenset()
        self._interruptions: Interruptions = {}
        self._gates: dict[str, bool] = {}
        self._refusal = (INVALID_SPEC, "")
        self._bound: dict[str, int] = {}
        """By uid of each Connector that this process has bound to the Worker: the generation that it bound.
        The observation may be older."""
        self._restarted: dict[str, str] = {}
        """By uid: the last request that was carried out, even if it could not be recorded."""

    def refused(self, message: str, reason: str = INVALID_SPEC) -> None:
        """Record a refused action: the Worker's condition shows it, with a one-word reason, until the next
        successful step.
        """
        self._refusal = (reason, message)

    def publish(
        self,
        worker: Worker,
        found: SeenConnectors,
        facts: WorkerFacts,
        seen: Seen,
        problems: Mapping[tuple[str, str], str],
        leader: LeaderService | None,
        deletion: str = "",
    ) -> None:
        """Publish the current statuses, events and readiness gates. ``deletion``: what blocks the Worker's
        deletion. Raises ApiError.
        """
        assert seen.worker is not None
        interrupted = notices(seen.nodes, seen.pods)
        self._interruptions, told = observe(self._interruptions, interrupted, facts.leader, _now_ms())
        for happening in (*happenings(self._before, facts.leader), *self._failures(facts), *told):
            self._tell(happening, seen)
        self._before = facts.leader
        failed: Exception | None = None
        for body in seen.connectors:
            try:
                self._see_connector(body, facts.leader, leader, found)
            except Exception as error:
                failed = failed or _passed_over(error)
        self._open_gates(seen, facts)
        if time.monotonic() - self._written_at < _EVERY_S:
            if failed is not None:
                raise failed
            return
        self._written_at = time.monotonic()
        now_ms = _now_ms()
        (reason, refusal), self._refusal = self._refusal, (INVALID_SPEC, "")
        wrong = [text for text in (problems.get(("Worker", worker.metadata.name)), refusal) if text]
        self._writer.write(
            WORKERS,
            seen.worker,
            worker_status(worker, facts, now_ms, wrong, reason, deletion),
            None if is_known(facts.leader) else partial(kept_of_worker, replicas=worker.spec.replicas),
        )
        bodies = {body["metadata"]["name"]: body for body in seen.connectors}
        for connector in (*found.living, *found.ending):
            body = bodies.pop(connector.metadata.name)
            try:
                self._publish_connector(connector, body, worker, found, facts, problems, now_ms)
            except Exception as error:
                failed = failed or _passed_over(error)
        for name, body in bodies.items():
            if ("Connector", name) in problems:
                self._refuse(CONNECTORS, body, problems[("Connector", name)])
        if failed is not None:
            raise failed

    def _publish_connector(
        self,
        connector: Connector,
        body: Body,
        worker: Worker,
        found: SeenConnectors,
        facts: WorkerFacts,
        problems: Mapping[tuple[str, str], str],
        now_ms: int,
    ) -> None:
        name = connector.metadata.name
        wrong = [problems.get(("Connector", name)), found.named.refused.get(name)]
        # The tasks that run under this name belong to another Connector.
        source = NO_TASKS if name in found.named.refused else facts.leader
        own = connector_status(
            connector,
            (worker,),
            source,
            now_ms,
            [each for each in wrong if each],
            withheld=found.outputs.withheld.get(name, ""),
            deletion=_waits_for(connector.connector_name, source) if connector in found.ending else "",
            local=pod_local(worker),
        )
        self._writer.write(CONNECTORS, body, own, None if is_known(source) else kept_of_connector)

    def unreadable(self, body: Body, problems: Mapping[tuple[str, str], str]) -> None:
        """Publish that a Worker cannot be read and never could be."""
        if time.monotonic() - self._written_at >= _EVERY_S:
            self._written_at = time.monotonic()
            self._refuse(WORKERS, body, problems.get(("Worker", self._name[1]), "the spec cannot be read"))
        if body["metadata"].get("deletionTimestamp") is not None:
            self.finalize(WORKERS, body, keep=False)

    def stray(
        self, body: Body, connector: Connector | None, workers: tuple[Worker, ...], problem: str | None
    ) -> None:
        """Publish the status of a Connector without a Worker."""
        if connector is None:
            self._refuse(CONNECTORS, body, problem or "the spec cannot be read")
            return
        now_ms = time.time_ns() // 1_000_000
        status = connector_status(connector, workers, NO_TASKS, now_ms, [problem] if problem else ())
        self._writer.write(CONNECTORS, body, status)

    def bind(
        self,
        worker: Worker,
        connectors: Sequence[Connector],
        seen: Seen,
        leader: Mapping[str, Any],
        withheld: Collection[str] = (),
    ) -> tuple[Connector, ...]:
        """Return those of ``connectors`` that may have progress in the Worker's group. Their status records
        the binding, so that their workerRef and connectorName stay as they were seen. Connectors whose
        binding cannot be written now are left
        out and tried again. ``withheld`` names those that must not start; they are not newly bound."""
        name = worker.metadata.name
        bodies = {body["metadata"]["name"]: body for body in seen.connectors}
        uids = {body["metadata"]["uid"] for body in seen.connectors}
        self._bound = {uid: generation for uid, generation in self._bound.items() if uid in uids}
        ready, may_write = [], True
        for connector in connectors:
            body = bodies[connector.metadata.name]
            metadata = body["metadata"]
            generation = int(metadata.get("generation", 0))
            # An older spec than the one that was bound may have another name in Kafka.
            is_outdated = generation < self._bound.get(metadata["uid"], 0)
            if is_outdated or self._bound_worker(body) != name:
                if connector.metadata.name in withheld:
                    continue
                status = connector_status(
                    connector,
                    (worker,),
                    leader,
                    time.time_ns() // 1_000_000,
                    local=pod_local(worker),
                )
                status = status.model_copy(update={"bound_worker": name})
                kept = None if is_known(leader) else kept_of_connector
                try:
                    if not may_write or not self._writer.write(CONNECTORS, body, status, kept, exact=True):
                        continue
                except ApiError as error:
                    # It now names another Worker. Any other error would fail the next one, too.
                    may_write = error.status == HTTPStatus.UNPROCESSABLE_ENTITY
                    log.info("Connector %s/%s is not bound yet: %s", *_place(body), error)
                    continue
                self._bound[metadata["uid"]] = generation
            ready.append(connector)
        return tuple(ready)

    def _bound_worker(self, body: Body) -> str | None:
        """The Worker whose group may have progress of this Connector, if there is one."""
        metadata = body["metadata"]
        if metadata["uid"] in self._bound:
            return self._name[1]
        noted = (body.get("status") or {}).get("boundWorker")
        if noted is None and FINALIZER in (metadata.get("finalizers") or ()):
            # Operators that recorded no binding gave a finalizer to all Connectors given to members.
            noted = referred(body)
        return noted or None

    def left_behind(self, body: Body, pods: list[str]) -> None:
        note = (
            f"{', '.join(pods)} did not end in time and are left to Kubernetes' garbage collection: "
            "check whether their nodes are alive"
        )
        log.warning("Worker %s/%s: %s", *self._name, note)
        self._recorder.record(body, "Worker", Happening("LeftBehind", note, True))

    def finalize(self, kind: Kind, body: Body, keep: bool) -> bool:
        """Add or remove our finalizer, and return whether that is in effect now. Raises ApiError."""
        manifest = {
            "apiVersion": API_VERSION,
            "kind": "Worker" if kind is WORKERS else "Connector",
            # Only our own finalizer is applied; others' stay.
            "metadata": {**meant(body), "finalizers": [FINALIZER] if keep else []},
        }
        try:
            self._writer.saw(kind, self._api.apply(kind, manifest))
        except ApiError as error:
            # It is gone, was replaced under its name, or another writer was first: it will be seen again.
            if not error.is_outdated:
                raise
            return error.is_missing
        return True

    def annotate(self, kind: Kind, body: Body, annotations: Mapping[str, str]) -> None:
        """Record an annotation that decisions depend on. Raises ApiError."""
        metadata = body["metadata"]
        patch = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
        self._writer.saw(kind, self._api.merge(kind, metadata["namespace"], metadata["name"], patch))

    # --- connectors ---------------------------------------------------------------------------------

    def _see_connector(
        self,
        body: Body,
        leader_says: Mapping[str, Any],
        leader: LeaderService | None,
        found: SeenConnectors,
    ) -> None:
        metadata = body["metadata"]
        name = connector_name(body)
        kept = FINALIZER in (metadata.get("finalizers") or ())
        deleted = metadata.get("deletionTimestamp")
        if deleted is None:
            if not kept and self._bound_worker(body) is not None:
                self.finalize(CONNECTORS, body, keep=True)
            note = found.outputs.notes.get(metadata["name"])
            if note and (metadata.get("annotations") or {}).get(OUTPUTS) != note:
                self.annotate(CONNECTORS, body, {OUTPUTS: note})
            if metadata["name"] not in found.named.refused:
                self._restart(body, leader)
        elif kept:
            overdue = time.time() * 1000 - milliseconds(deleted) > _FINALIZER_PATIENCE_MS
            # Under the name of another Connector its tasks continue as that one's.
            if name in found.named.connectors or _is_gone(name, leader_says):
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
        wanted = None if before is None or carried_out else record(connector_name(body), before, now)
        if wanted is not None:
            try:
                code = leader.restart(wanted, timeout_s=2) if leader is not None else 409
            except (TimeoutError, LogUnavailable) as error:
                log.warning("restart of %s: %s", metadata["name"], error)
                return
            if code == 409:
                return  # No leader is active now; the request stands.
            self._restarted[metadata["uid"]] = now
            note = f"{'the connector and its tasks' if wanted.include_tasks else 'a part of it'} restarts"
            self._recorder.record(body, "Connector", Happening("Restarted", note))
        self.annotate(CONNECTORS, body, {DONE: now})

    # --- readiness ----------------------------------------------------------------------------------

    def _open_gates(self, seen: Seen, facts: WorkerFacts) -> None:
        """A pod is ready once it is a member of a settled group, so that the next eviction waits."""
        settled = bool(facts.leader.get("settled"))
        if facts.leader.get("stale") or "members" not in facts.leader:
            return
        members = {(m["identity"], m["incarnation"]) for m in facts.leader["members"]}
        for identity, body in seen.pods.items():
            incarnation = facts.incarnations[identity]
            is_member = (identity, incarnation.incarnation) in members
            # A ready member stays ready during a round; a new one becomes ready when the group has settled.
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
                    "metadata": meant(body),
                    "status": {"conditions": [condition]},
                }
                try:
                    self._writer.saw(PODS, self._api.apply(PODS, manifest, "status"))
                except ApiError as error:
                    # It is gone or was replaced under its name; continue with the others.
                    if not error.is_outdated:
                        raise
                    continue
            self._gates[body["metadata"]["uid"]] = ready

    def _shown(self, body: Body) -> bool:
        conditions = body.get("status", {}).get("conditions") or ()
        return any(c["type"] == SETTLED and c["status"] == "True" for c in conditions)

    # --- writing ------------------------------------------------------------------------------------

    def _failures(self, facts: WorkerFacts) -> Iterator[Happening]:
        """Yields an event for each reason of a ``ReplicaFailure``, when it appears."""
        now = {each.reason: each.message for each in facts.more if each.type == REPLICA_FAILURE}
        yield from (Happening(reason, now[reason], True) for reason in now.keys() - self._failing)
        self._failing = now.keys()

    def _tell(self, happening: Happening, seen: Seen) -> None:
        assert seen.worker is not None
        about = next((b for b in seen.connectors if connector_name(b) == happening.connector), seen.worker)
        kind = "Worker" if about is seen.worker else "Connector"
        self._recorder.record(about, kind, happening)

    def _refuse(self, kind: Kind, body: Body, problem: str) -> None:
        """Write the status of an object that could never be read."""
        generation = body["metadata"].get("generation")
        conditions = summary_conditions((), generation=generation, settled=False, problems=[problem])
        made = WorkerStatus if kind is WORKERS else ConnectorStatus
        self._writer.write(kind, body, made(observed_generation=generation, conditions=conditions))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _place(body: Body) -> Name:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _waits_for(connector: str, leader: Mapping[str, Any]) -> str:
    """Return what blocks the deletion of a Connector."""
    needed = (each for each in leader.get("conditions", ()) if each["type"] in ("KafkaReachable", "Leading"))
    away = next((each["message"] or each["reason"] for each in needed if each["status"] != "True"), "")
    if away or not is_known(leader):
        return f"its tasks run on until its group's leader can stop them: {away or 'it does not lead yet'}"
    left = sorted(text for text in _owned(leader) if text == connector or _is_task_of(text, connector))
    if not left:
        return "waits for its record in the config topic to be deleted"
    return f"waits for {', '.join(left[:5])}{', …' if len(left) > 5 else ''} to stop"


def _owned(leader: Mapping[str, Any]) -> Iterator[str]:
    for member in leader["members"]:
        yield from (*member["owned"], *member["stopping"])


def _is_gone(connector: str, leader: Mapping[str, Any]) -> bool:
    """Whether the config log has dropped it and no member runs any of it, or it runs on as an orphan."""
    if not is_known(leader) or leader.get("stale"):
        return False
    if connector in leader["connectors"]:
        return connector in leader.get("orphans", ())
    return not any(text == connector or _is_task_of(text, connector) for text in _owned(leader))


def _is_task_of(text: str, connector: str) -> bool:
    name, dash, number = text.rpartition("-")
    return bool(dash) and name == connector and number.isdigit()


def _passed_over(error: Exception) -> Exception:
    """Return an error that concerns this Connector only; it is raised after the statuses of all others have
    been written. Raise an error that would affect all of them.
    """
    if isinstance(error, ApiError) and not error.is_of_the_request:
        raise error
    return error
