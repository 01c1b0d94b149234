"""One Worker's pods on Kubernetes as a platform of ``host.worker_loop``."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from cooperator.controller.api.access import KafkaAccess
from cooperator.controller.api.client import PODS, WORKERS, Api, ApiError
from cooperator.controller.incarnations import in_pool_names, pod_status, proven_ends
from cooperator.controller.manifests.allowed import kafka_not_allowed, not_allowed
from cooperator.controller.manifests.pins import PINNED, pin_of, upgrade_available
from cooperator.controller.manifests.pods import pod_manifest, servers
from cooperator.controller.names import FINALIZER, LEAVING, RELEASED, WORKER_LABEL
from cooperator.controller.observe import Body, nodes, phase, pod
from cooperator.controller.offset_work import OffsetWork
from cooperator.controller.options import OperatorOptions
from cooperator.controller.outputs import Outputs, OutputsSeen
from cooperator.controller.publish import Publisher
from cooperator.controller.replica_failures import (
    ReplicaFailure,
    failure_of,
    refused_create,
    replica_failure,
)
from cooperator.controller.resources import Readings, SeenConnectors, read_connectors
from cooperator.controller.rest_front import WorkerFront
from cooperator.controller.store import CONNECTOR, POD, WORKER, Name, Seen, Store
from cooperator.controller.supplies import Supplies, owned, taken
from cooperator.controller.tombstones import Tombstones
from cooperator.crd import Condition, Worker
from cooperator.crd.choices import DeletionPolicy
from cooperator.crd.conditions import NAME_TAKEN, NOT_ALLOWED
from cooperator.crd.connector_names import named
from cooperator.host.known import Leader
from cooperator.host.leader import leader_settings
from cooperator.host.platform import Causes, Goal, Observation, Wanted
from cooperator.host.pool_step import pool_desired
from cooperator.host.status import WorkerFacts
from cooperator.leader.process import SteadyClock
from cooperator.leader.service import LeaderService
from cooperator.leader.settings import ServiceSettings
from cooperator.log_lines import within
from cooperator.pool import Action, Create, Delete, Drain, Kill, Phase, Remove, UnDrain

log = logging.getLogger(__name__)

RESYNC_S: Final = 30.0
"""Interval between lists of the pods, since a watch may miss deletions."""
OUTAGE_RESYNC_S: Final = 2.0
"""That interval while the leader has no broker: it confirms leases only if it knows who may join
(``leader.lease_confirmation``), and watches may be late."""
_REMOVAL_EXTRA_MS: Final = 90_000
"""Time that a removal may take beyond the drain time-out and the grace period of its pods."""


class KubernetesPlatform:
    """``folder`` is private to this process."""

    def __init__(
        self,
        name: Name,
        store: Store,
        api: Api,
        options: OperatorOptions,
        folder: Path,
        outputs: Outputs,
    ) -> None:
        self._name = name
        self._store = store
        self._api = api
        self._options = options
        self._clock = SteadyClock()
        self._readings = Readings()
        self._tombstones = Tombstones()
        self._defaults = options.defaults
        self._conditions: tuple[Condition, ...] = ()
        self._supplies = Supplies(api, options.defaults, options.allowance, options.tls)
        self._access = KafkaAccess(api, folder, options.kafka_token, options.defaults.bootstrap_servers)
        self._outputs = outputs
        self._publisher = Publisher(api, name, store)
        self._front = WorkerFront(
            api,
            options,
            lambda: self._leader,
            self._publisher.refused,
            lambda: self._connectors.named.connectors,
        )
        self._offsets = OffsetWork(api, lambda: self._leader, partial(store.put, CONNECTOR))
        self._listed_at = float("-inf")
        self._asked_at_ms = 0
        self._warned = ""
        self._deleted_since_ms: int | None = None
        """When this process first saw the Worker's deletion."""
        self._refused_creates: dict[str, ReplicaFailure] = {}
        self._last_events: dict[str, str] = {}
        """The last event of each pod."""
        self._leader: LeaderService | None = None
        # The last observation.
        self._seen = Seen(None)
        self._wanted: Wanted | None = None
        self._connectors = SeenConnectors()

    def close(self) -> None:
        """Closes the REST server, once the loop has ended."""
        self._front.close()
        self._offsets.close()

    # --- as ``host.platform.Platform`` --------------------------------------------------------------

    def observe(self, leader: Leader) -> Observation | None:
        causes = self._causes()
        self._resync()
        seen = self._seen = self._store.see(self._name)
        self._wanted = None
        if seen.worker is None:
            return None  # The finalizer was removed by hand: its pods go with their owner.
        worker = self._readings.worker(seen.worker)
        if worker is None:
            self._publisher.unreadable(seen.worker, self._readings.problems)
            return None
        goal = _goal(worker, seen.worker)
        if goal is not Goal.REMOVE:
            worker = self._supplied(worker, seen.worker)
        settings = self._settings(worker)
        self._wanted = self._resources(worker, goal, seen, leader, settings is not None)
        self._tombstones.see(seen.pods.values(), seen.gone)
        pods = tuple(pod(body) for body in (*seen.pods.values(), *self._tombstones.standing(seen.pods)))
        bodies = [*seen.pods.values(), *seen.gone]
        incarnations = [(identity, name) for identity, name in leader.get("incarnations", ())]
        return Observation(
            self._wanted,
            settings,
            pool_desired(
                worker, self._supplies.revision(worker, [p.revision for p in pods]), goal is Goal.REMOVE
            ),
            pods,
            in_pool_names(leader, seen.pods),
            lambda ended: proven_ends(incarnations, bodies, ended),
            self._asked_at_ms,
            {name: pod_status(body) for name, body in seen.pods.items()},
            nodes(seen.nodes, worker.spec.zone_label),
            (*self._conditions, *self._replica_failures(worker, seen)),
            causes,
        )

    def act(self, action: Action) -> None:
        try:
            match action:
                case Create(identity, revision):
                    self._create(identity, revision)
                case Drain(identity, _, reason):
                    # The mark outlives this process: if the memory is lost, the pods say which of them leave.
                    self._mark(identity, reason.value)
                case UnDrain(identity):
                    self._mark(identity, None)
                case Delete(identity):
                    self._delete(identity)
                case Kill():
                    raise AssertionError("the kubelet kills what outlives its grace period")
                case Remove(identity, incarnation):
                    self._tombstones.bury(incarnation)
                    self._delete(identity)
        except ApiError as error:
            log.warning("%s", error)
            self._publisher.refused(str(error))

    def publish(self, facts: WorkerFacts, leader: LeaderService | None) -> None:
        assert self._wanted is not None
        self._leader = leader
        worker = self._wanted.worker
        if self._supplies.forbidden:
            self._publisher.refused(self._supplies.forbidden, NOT_ALLOWED)
        served = None if self._wanted.goal is Goal.REMOVE else worker
        self._try(lambda: self._front.keep(served))
        if served is not None:
            in_effect = self._connectors.named.connectors
            self._try(lambda: self._offsets.keep(worker, in_effect, self._seen.connectors, facts.leader))
        self._publisher.publish(
            worker,
            self._connectors,
            facts,
            self._seen,
            self._readings.problems,
            leader,
            self._deletion_waits_for(),
        )

    def removed(self) -> bool:
        body, wanted = self._seen.worker, self._wanted
        if body is not None:
            if wanted is None or wanted.goal is Goal.RUN:
                return False
            if wanted.goal is Goal.REMOVE and not self._has_ended(wanted.worker, body):
                return False
            if wanted.goal is Goal.ORPHAN:
                self._release(self._seen.pods.values())
            if not self._publisher.finalize(WORKERS, body, keep=False):
                return False
        self._store.forget(self._name)
        return True

    # --- what it observes ---------------------------------------------------------------------------

    def _causes(self) -> Causes:
        """Logs what has happened since the last observation."""
        news = self._store.news(self._name)
        for each in news:
            with within(event=each.id, member=each.name if each.kind == POD else None):
                log.info("%s %s: %s", each.kind, each.name, each.words)
            if each.kind == POD:
                self._last_events[each.name] = each.id
        return Causes(
            tuple(each.id for each in news),
            tuple(each.id for each in news if each.kind in (WORKER, CONNECTOR)),
            self._last_events,
        )

    def _resync(self) -> None:
        """List the pods before the first step, and again periodically."""
        if self._listed_at == float("-inf"):
            self._list_pods()
        elif time.monotonic() - self._listed_at >= (OUTAGE_RESYNC_S if self._is_silent() else RESYNC_S):
            self._listed_at = time.monotonic()
            self._try(self._list_pods)

    def _is_silent(self) -> bool:
        return self._leader is not None and self._leader.is_silent

    def _list_pods(self) -> None:
        asked_at_s = time.monotonic()
        namespace, name = self._name
        pods, version = self._api.list(PODS, namespace, f"{WORKER_LABEL}={name}")

        def ours(body: Body) -> bool:
            metadata = body["metadata"]
            return (metadata["namespace"], (metadata.get("labels") or {}).get(WORKER_LABEL)) == self._name

        self._store.replace(POD, pods, version, ours)
        self._listed_at = time.monotonic()
        self._asked_at_ms = int(asked_at_s * 1000)

    def _supplied(self, worker: Worker, body: Body) -> Worker:
        """The Worker as it may run, with all that its pods need."""
        if FINALIZER not in (body["metadata"].get("finalizers") or ()):
            self._try(lambda: self._publisher.finalize(WORKERS, body, keep=True))
        # Members stay as earlier operators made them until the user changes the image or version.
        ours = self._options.defaults
        pin = pin_of(worker, body, ours)
        self._defaults = self._supplies.defaults = pin.defaults(ours)
        self._conditions = (upgrade_available(worker, pin, ours),)
        if (body["metadata"].get("annotations") or {}).get(PINNED) != pin.text():
            self._try(lambda: self._publisher.annotate(WORKERS, body, {PINNED: pin.text()}))
        self._try(lambda: self._supplies.renew(worker))
        if self._supplies.unread:
            self._publisher.refused(self._supplies.unread)
        if self._supplies.taken:
            self._publisher.refused(self._supplies.taken, NAME_TAKEN)
        return self._supplies.allowed(worker, self._publisher.refused)

    def _settings(self, worker: Worker) -> ServiceSettings | None:
        if forbidden := kafka_not_allowed(worker, self._options.allowance):
            self._publisher.refused(forbidden, NOT_ALLOWED)
            return None
        security = self._access.renewed(worker, self._publisher.refused)
        if security is None:
            return None
        return leader_settings(
            worker,
            servers(worker, self._defaults),
            self._options.cluster,
            host=self._options.host,
            advertised_host=self._options.advertised_host,
            security=security,
            tls=self._options.tls,
        )

    def _resources(self, worker: Worker, goal: Goal, seen: Seen, leader: Leader, can_lead: bool) -> Wanted:
        """Reads the Connectors, and binds those that the leader may start."""
        self._readings.keep_only(frozenset(body["metadata"]["name"] for body in seen.connectors))
        found = read_connectors(seen.connectors, self._readings)
        connectors, outputs = found.living, OutputsSeen()
        if goal is not Goal.REMOVE:
            outputs = self._outputs.see(self._name[0], connectors)
        withheld = frozenset(outputs.withheld)
        self._connectors = replace(found, named=named(worker, connectors), outputs=outputs)
        if goal is not Goal.REMOVE and (can_lead or self._leader is not None):
            connectors = self._publisher.bind(worker, connectors, seen, leader, withheld)
        return Wanted(worker, connectors, goal, withheld, found.ending, found.kept)

    # --- what it writes -----------------------------------------------------------------------------

    def _create(self, identity: str, revision: str) -> None:
        assert self._wanted is not None
        if not_allowed(self._wanted.worker, self._options.allowance):
            return  # ``publish`` reports the reason.
        manifest = pod_manifest(self._wanted.worker, self._defaults, identity, revision)
        try:
            self._store.put(POD, self._api.create(PODS, manifest))
        except ApiError as error:
            if error.is_conflict:
                self._look_for_foreign(identity)
                return
            failure = refused_create(identity, error.status, str(error))
            if failure is None:
                raise
            log.warning("%s", error)
            self._refused_creates[identity] = failure

    def _look_for_foreign(self, identity: str) -> None:
        """Reports a conflict if a pod named ``identity`` exists that does not belong to this Worker and is
        not being deleted.
        """
        assert self._wanted is not None
        worker = self._wanted.worker
        found = self._api.get(PODS, self._name[0], identity)
        if not owned(found, worker) and found["metadata"].get("deletionTimestamp") is None:
            self._publisher.refused(taken("Pod", identity), NAME_TAKEN)

    def _replica_failures(self, worker: Worker, seen: Seen) -> Iterable[Condition]:
        """Returns the failures of existing pods and of pods that could not be created."""
        missing = {f"{worker.metadata.name}-{n}" for n in range(worker.spec.replicas)} - seen.pods.keys()
        refused = {name: each for name, each in self._refused_creates.items() if name in missing}
        self._refused_creates = refused
        failures = (*refused.values(), *filter(None, map(failure_of, seen.pods.values())))
        condition = replica_failure(failures, worker.metadata.generation)
        return () if condition is None else (condition,)

    def _deletion_waits_for(self) -> str:
        """Returns what blocks the Worker's deletion; empty if it is not being deleted."""
        assert self._wanted is not None
        if self._wanted.goal is Goal.ORPHAN:
            return "waits for its leader to hand the group back, which requires a reachable Kafka"
        if self._wanted.goal is not Goal.REMOVE:
            return ""
        left = sorted(name for name, each in self._seen.pods.items() if phase(each) is not Phase.ENDED)
        names = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
        return f"waits for {names} to hand over and end" if left else "waits for its objects to be removed"

    def _mark(self, identity: str, mark: str | None) -> None:
        body = self._seen.pods.get(identity)
        if body is not None:
            patch = {"metadata": {"uid": body["metadata"]["uid"], "annotations": {LEAVING: mark}}}
            self._store.put(POD, self._api.merge(PODS, self._name[0], identity, patch))

    def _delete(self, identity: str) -> None:
        body = self._seen.pods.get(identity)
        if body is not None:
            self._api.delete(PODS, self._name[0], identity, body["metadata"]["uid"])

    def _try(self, act: Callable[[], object]) -> None:
        """Log what the API refuses and continue, so that the group is still looked after."""
        try:
            act()
        except ApiError as error:
            if str(error) != self._warned:
                log.warning("Worker %s/%s: %s", *self._name, error)
                self._warned = str(error)
            self._publisher.refused(str(error))

    def _has_ended(self, worker: Worker, body: Body) -> bool:
        """Whether the members of a deleted Worker have ended, or their time is over."""
        left = sorted(name for name, each in self._seen.pods.items() if phase(each) is not Phase.ENDED)
        limit_ms = 2 * worker.spec.drain_timeout_ms + _REMOVAL_EXTRA_MS
        # By the own clock: the API server, which stamped the deletion, has another one.
        if self._deleted_since_ms is None:
            self._deleted_since_ms = self._clock()
        if left and self._clock() - self._deleted_since_ms <= limit_ms:
            return False
        if left:
            self._publisher.left_behind(body, left)
        return True

    def _release(self, pods: Iterable[Body]) -> None:
        """Removes the owner references of pods, which would be collected with their owner."""
        for body in pods:
            metadata = body["metadata"]
            if metadata.get("ownerReferences"):
                released = {RELEASED: self._name[1]}
                patch = {
                    "metadata": {
                        "uid": metadata["uid"],
                        "ownerReferences": None,
                        "annotations": released,
                    }
                }
                self._api.merge(PODS, metadata["namespace"], metadata["name"], patch)


def _goal(worker: Worker, body: Body) -> Goal:
    if body["metadata"].get("deletionTimestamp") is None:
        return Goal.RUN
    return Goal.ORPHAN if worker.spec.deletion_policy is DeletionPolicy.ORPHAN else Goal.REMOVE
