"""Reconciles one Worker: observe, decide, act; again whenever something has changed.

It is level-triggered: each step starts from what the store shows. It has a thread of its own, so that a
broker or an API server that hangs delays no other Worker.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from pathlib import Path
from typing import Any, Final

from cooperator.controller.api.access import KafkaAccess
from cooperator.controller.api.client import PODS, WORKERS, Api, ApiError
from cooperator.controller.incarnations import in_pool_names, pod_status, proven_ends
from cooperator.controller.manifests.pins import PINNED, pin_of, upgrade_available
from cooperator.controller.manifests.pods import pod_manifest, servers
from cooperator.controller.names import FINALIZER, WORKER_LABEL
from cooperator.controller.news import News, ids_of
from cooperator.controller.observe import Body, milliseconds, nodes, phase, pod
from cooperator.controller.options import OperatorOptions
from cooperator.controller.orphans import release
from cooperator.controller.outputs import Outputs, OutputsSeen
from cooperator.controller.pod_actuator import KubernetesPodActuator
from cooperator.controller.publish import Publisher
from cooperator.controller.resources import Readings, SeenConnectors, read_connectors
from cooperator.controller.rest_front import WorkerFront
from cooperator.controller.store import CONNECTOR, POD, WORKER, Name, Seen, Store
from cooperator.controller.supplies import Supplies
from cooperator.controller.tombstones import Tombstones
from cooperator.crd import Condition, Connector, Worker, compile_desired, compile_policy
from cooperator.crd.choices import DeletionPolicy
from cooperator.crd.connector_names import Named, named
from cooperator.host.desired import pool_desired
from cooperator.host.group import departures, group_seen
from cooperator.host.leader import changed_connectors, leader_settings, same_leader, started_leader
from cooperator.host.pool_step import PoolStep
from cooperator.host.status import WorkerFacts
from cooperator.host.stock import StockIncarnations
from cooperator.leader.process import SteadyClock
from cooperator.leader.service import LeaderService
from cooperator.log_lines import within
from cooperator.model import DesiredConnector
from cooperator.planner.view import Facts
from cooperator.pool import Phase, PoolFacts, PoolObserved
from cooperator.wire import RestartRecord

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often a Worker is reconciled without an event."""
RESYNC_S: Final = 30.0
"""How often its pods are listed: a watch may miss deletions."""
_STATUS_S: Final = 0.5
_STATUS_PATIENCE_S: Final = 0.5
_ERROR_PAUSE_S: Final = 2.0
_REMOVAL_EXTRA_MS: Final = 90_000
"""How long a removal may take beyond the drain time-out and the grace period of its pods."""


class Reconciler:
    """Works towards what the API says of one Worker, from ``start`` until ``stop`` or ``done``."""

    def __init__(
        self,
        name: Name,
        store: Store,
        api: Api,
        options: OperatorOptions,
        folder: Path,
        outputs: Outputs,
    ) -> None:
        self.name = name
        self._store = store
        self._api = api
        self._options = options
        self._clock = SteadyClock()
        self._readings = Readings()
        self._tombstones = Tombstones()
        self._defaults = options.defaults
        self._upgrade: Condition | None = None
        self._supplies = Supplies(api, options.defaults)
        self._access = KafkaAccess(api, folder)
        self._outputs = outputs
        self._shared = OutputsSeen()
        self._publisher = Publisher(api, name, store)
        self._actuator = KubernetesPodActuator(
            api,
            name[0],
            self._manifest,
            created=lambda body: store.put(POD, body),
            buried=self._tombstones.bury,
            refused=self._publisher.refused,
        )
        self._pool = PoolStep(self._actuator, self._tell_leader, self._clock)
        self._facts = Facts()
        self._stock = StockIncarnations()
        self._worker: Worker | None = None
        self._connectors: Mapping[str, DesiredConnector] = {}
        self._named = Named()
        self._applied: object = None
        self._leader: LeaderService | None = None
        self._front = WorkerFront(
            api, options, lambda: self._leader, self._publisher.refused, lambda: self._named.connectors
        )
        self._status: Mapping[str, Any] = {}
        self._status_at = float("-inf")
        self._listed_at = float("-inf")
        self._next_ms: int | None = None
        self._warned = ""
        self._news: tuple[News, ...] = ()
        self._last: dict[str, News] = {}
        """The last news of each pod."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"worker-{'-'.join(name)}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def done(self) -> bool:
        """Whether nothing of this Worker is left."""
        return self._done.is_set()

    @property
    def status(self) -> Mapping[str, Any]:
        """The leader's last known status; empty while there is no leader."""
        return self._status

    def stop(self, timeout_s: float = 15) -> None:
        """Stop. Pods run on, and the leader keeps its place in the group for the next operator."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        with within(worker="/".join(self.name)):
            self._be()

    def _be(self) -> None:
        while not self._stopping.is_set() and not self.done:
            pause_s = self._pause_s()
            try:
                with within(event=self._told()):
                    self._step()
            except ApiError as error:
                self._warn_of(error)
                pause_s = _ERROR_PAUSE_S
            except Exception:
                # Whatever the error was, the next step starts from the present state.
                log.exception("Worker %s/%s", *self.name)
                pause_s = _ERROR_PAUSE_S
            self._wake.wait(pause_s)
            self._wake.clear()
        self._front.close()
        if self._leader is not None:
            self._leader.stop(leave=self.done)

    def _told(self) -> str:
        """Log what has happened since the last step and return the ids."""
        self._news = self._store.news(self.name)
        for news in self._news:
            with within(event=news.id, member=news.name if news.kind == POD else None):
                log.info("%s %s: %s", news.kind, news.name, news.words)
            if news.kind == POD:
                self._last[news.name] = news
        return ids_of(self._news)

    def _pause_s(self) -> float:
        due_s = LOOK_S if self._next_ms is None else (self._next_ms - self._clock()) / 1000
        return min(LOOK_S, max(0.05, due_s))

    def _step(self) -> None:
        self._resync()
        seen = self._store.see(self.name)
        if seen.worker is None:
            # The finalizer was removed by hand: its pods go with their owner.
            self._finish()
            return
        body, worker = seen.worker, self._readings.worker(seen.worker)
        if worker is None:
            self._publisher.unreadable(seen.worker, self._readings.problems)
            return
        deleted = seen.worker["metadata"].get("deletionTimestamp") is not None
        orphaned = deleted and worker.spec.deletion_policy is DeletionPolicy.ORPHAN
        removing = deleted and not orphaned
        if not removing:
            read = worker
            self._try(lambda: self._keep_finalizer(body))
            self._pin(read, body)
            self._try(lambda: self._supplies.renew(read))
            if self._supplies.unread:
                self._publisher.refused(self._supplies.unread)
            worker = self._supplies.allowed(worker, self._publisher.refused)
        self._worker = worker
        found = self._read_connectors(seen)
        connectors = found.living
        self._named = named(worker, connectors)
        self._apply(worker, () if removing else connectors, found, seen)
        self._try(lambda: self._front.keep(None if removing else worker))
        self._refresh_status()
        bodies = [*seen.pods.values(), *seen.gone]
        self._tombstones.see(seen.pods.values(), seen.gone)
        self._actuator.pods = seen.pods
        pods = tuple(pod(body) for body in (*seen.pods.values(), *self._tombstones.standing(seen.pods)))
        if worker.spec.is_stock:
            self._stock = self._stock.seen(self._status, {p.identity: p.incarnation for p in pods})
        leader = self._stock.in_pool_names(in_pool_names(self._status, seen.pods))
        observed = PoolObserved(pods, group_seen(leader), nodes(seen.nodes, worker.spec.zone_label))
        self._next_ms = self._pool.step(
            pool_desired(worker, self._supplies.revision(worker, [p.revision for p in pods]), removing),
            observed,
            lambda facts: self._ends(facts, bodies),
        )
        self._publish(worker, connectors, seen, leader)
        if removing:
            self._remove(body, seen, worker)
        elif orphaned:
            self._leave(body, seen)

    def _pin(self, worker: Worker, body: Body) -> None:
        """Members stay as earlier operators made them until the user changes the image or version."""
        ours = self._options.defaults
        pin = pin_of(worker, body, ours)
        self._defaults = self._supplies.defaults = pin.defaults(ours)
        self._upgrade = upgrade_available(worker, pin, ours)
        if (body["metadata"].get("annotations") or {}).get(PINNED) != pin.text():
            self._try(lambda: self._publisher.annotate(WORKERS, body, {PINNED: pin.text()}))

    def _try(self, act: Callable[[], None]) -> None:
        """Log what the API refuses and continue, so that the group is still looked after."""
        try:
            act()
        except ApiError as error:
            self._warn_of(error)
            self._publisher.refused(str(error))

    def _warn_of(self, error: ApiError) -> None:
        """Log an error once and not at every step while it lasts."""
        if str(error) != self._warned:
            log.warning("Worker %s/%s: %s", *self.name, error)
            self._warned = str(error)

    def _resync(self) -> None:
        """List the pods before the first step, and again periodically."""
        if self._listed_at == float("-inf"):
            self._list_pods()
        elif time.monotonic() - self._listed_at >= RESYNC_S:
            self._listed_at = time.monotonic()
            self._try(self._list_pods)

    def _list_pods(self) -> None:
        namespace, name = self.name
        pods, version = self._api.list(PODS, namespace, f"{WORKER_LABEL}={name}")

        def ours(body: Body) -> bool:
            metadata = body["metadata"]
            return (metadata["namespace"], (metadata.get("labels") or {}).get(WORKER_LABEL)) == self.name

        self._store.replace(POD, pods, version, ours)
        self._listed_at = time.monotonic()

    def _read_connectors(self, seen: Seen) -> SeenConnectors:
        self._readings.keep_only(frozenset(body["metadata"]["name"] for body in seen.connectors))
        return read_connectors(seen.connectors, self._readings)

    def _apply(
        self, worker: Worker, connectors: tuple[Connector, ...], found: SeenConnectors, seen: Seen
    ) -> None:
        security = self._access.renewed(worker, self._publisher.refused)
        self._shared = self._outputs.see(self.name[0], connectors)
        withheld = frozenset(self._shared.withheld)
        if security is not None or self._leader is not None:
            connectors = self._publisher.bind(worker, connectors, seen, self._status, withheld)
        wanted = (worker.spec, found.terms(connectors), security, withheld)
        if wanted == self._applied:
            return
        if security is not None:
            self._lead(worker, security)
        if self._leader is None:
            return
        self._leader.set_policy(compile_policy(worker))
        desired = compile_desired(worker, connectors, self._clock(), found.ending, found.kept, withheld)
        for name in changed_connectors(self._connectors, desired.connectors):
            self._pool.pardon(name)
        self._connectors = desired.connectors
        with within(event=ids_of(news for news in self._news if news.kind in (WORKER, CONNECTOR))):
            self._leader.set_desired(desired)
        self._applied = wanted

    def _lead(self, worker: Worker, security: Mapping[str, Any]) -> None:
        """Ensure a leader with the Worker's settings."""
        options = self._options
        settings = leader_settings(
            worker,
            servers(worker, self._defaults),
            options.cluster,
            host=options.host,
            advertised_host=options.advertised_host,
            security=security,
        )
        if self._leader is not None:
            if same_leader(self._leader.settings, settings):
                return
            self._leader.stop(leave=False)
        # The leader outlives the event that starts it, so it gets an empty context.
        self._leader = Context().run(started_leader, settings, self._restarted)
        self._leader.set_facts(self._facts)

    def _restarted(self, record: RestartRecord) -> None:
        self._pool.pardon(record.connector, record.include_tasks or record.task is not None)
        self._wake.set()

    def _refresh_status(self) -> None:
        now = time.monotonic()
        if self._leader is not None and now - self._status_at >= _STATUS_S:
            self._status = self._leader.status(timeout_s=_STATUS_PATIENCE_S)
            self._status_at = now

    def _ends(self, facts: PoolFacts, bodies: list[Body]) -> frozenset[tuple[str, str]]:
        incarnations = (
            (identity, incarnation) for identity, incarnation in self._status.get("incarnations", ())
        )
        return proven_ends(incarnations, bodies, facts.ended) | self._stock.ended(facts.ended)

    def _tell_leader(self, facts: Facts) -> None:
        departed = departures(self._facts, facts)
        self._facts = facts
        # A pod's own news explain its departure better than whatever else has happened meanwhile.
        with within(event=ids_of(self._last[name] for name in departed if name in self._last)):
            for name in departed:
                with within(member=name):
                    log.info("%s has ended or leaves: the leader is told", name)
            if self._leader is not None:
                self._leader.set_facts(facts)

    def _manifest(self, identity: str, revision: str) -> Mapping[str, Any]:
        assert self._worker is not None
        return pod_manifest(self._worker, self._defaults, identity, revision)

    # --- what people see ----------------------------------------------------------------------------

    def _publish(
        self, worker: Worker, connectors: tuple[Connector, ...], seen: Seen, leader: Mapping[str, Any]
    ) -> None:
        facts = WorkerFacts(
            incarnations={name: pod_status(body) for name, body in seen.pods.items()},
            leader=leader,
            reports=self._pool.reports,
            expected=self._facts.expected or frozenset(),
            more=(self._upgrade,) if self._upgrade is not None else (),
        )
        self._publisher.publish(
            worker, connectors, facts, seen, self._readings.problems, self._leader, self._shared, self._named
        )

    # --- coming and going ---------------------------------------------------------------------------

    def _keep_finalizer(self, body: Body) -> None:
        metadata = body["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            self._publisher.finalize(WORKERS, body, keep=True)

    def _remove(self, body: Body, seen: Seen, worker: Worker) -> None:
        """Release the object once its members have ended, or their time is over."""
        left = sorted(name for name, each in seen.pods.items() if phase(each) is not Phase.ENDED)
        limit_ms = 2 * worker.spec.drain_timeout_ms + _REMOVAL_EXTRA_MS
        if left and self._clock() - milliseconds(body["metadata"]["deletionTimestamp"]) <= limit_ms:
            return
        if left:
            self._publisher.left_behind(body, left)
        if self._publisher.finalize(WORKERS, body, keep=False):
            self._finish()

    def _leave(self, body: Body, seen: Seen) -> None:
        """Members stay and run without an operator from now on."""
        if self._leader is not None:
            try:
                self._leader.hand_back()
                self._leader = None
            except TimeoutError as error:
                log.warning("Worker %s/%s: %s", *self.name, error)
                return
        release(self._api, seen.pods.values())
        if self._publisher.finalize(WORKERS, body, keep=False):
            self._finish()

    def _finish(self) -> None:
        self._store.forget(self.name)
        self._done.set()
