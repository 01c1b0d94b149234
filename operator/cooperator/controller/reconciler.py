"""One Worker: what is seen of it, what is decided, what is done; again whenever something has changed.

Level-triggered: each step starts from what the store shows. On a thread of its own, so that neither a broker
nor an API server that hangs keeps anybody else waiting.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from pathlib import Path
from typing import Any, Final

from cooperator.controller.access import KafkaAccess
from cooperator.controller.api import PODS, WORKERS, Api, ApiError
from cooperator.controller.hands import PodHands
from cooperator.controller.lives import in_pool_names, pod_status, proven_ends
from cooperator.controller.names import FINALIZER, WORKER_LABEL
from cooperator.controller.news import News, ids_of
from cooperator.controller.observe import Body, milliseconds, nodes, phase, pod
from cooperator.controller.options import OperatorOptions
from cooperator.controller.orphans import release
from cooperator.controller.pins import PINNED, pin_of, upgrade_available
from cooperator.controller.pods import pod_manifest, servers
from cooperator.controller.publish import Publisher
from cooperator.controller.resources import Readings
from cooperator.controller.rest_front import WorkerFront
from cooperator.controller.store import CONNECTOR, POD, WORKER, Name, Seen, Store
from cooperator.controller.supplies import Supplies
from cooperator.controller.tombs import Tombs
from cooperator.crd import Condition, Connector, Worker, compile_desired, compile_policy
from cooperator.crd.choices import DeletionPolicy
from cooperator.host.desired import pool_desired
from cooperator.host.group import departures, group_seen
from cooperator.host.leader import changed_connectors, leader_settings, same_leader, started_leader
from cooperator.host.pool_step import PoolStep
from cooperator.host.status import WorkerFacts
from cooperator.host.stock import StockLives
from cooperator.leader.clock import SteadyClock
from cooperator.leader.service import LeaderService
from cooperator.log_lines import within
from cooperator.model import DesiredConnector
from cooperator.planner.view import Facts
from cooperator.pool import Phase, PoolFacts, PoolObserved
from cooperator.wire import RestartRecord

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often a Worker is looked at when no event tells to."""
RESYNC_S: Final = 30.0
"""How often its pods are listed: a watch may miss deletions."""
_STATUS_S: Final = 0.5
_STATUS_PATIENCE_S: Final = 0.5
_ERROR_PAUSE_S: Final = 2.0
_REMOVAL_EXTRA_MS: Final = 90_000
"""What a removal may take beyond the drain time-out and the grace period of its pods."""


class Reconciler:
    """Works towards what the API says of one Worker, from ``start`` until ``stop`` or ``done``."""

    def __init__(self, name: Name, store: Store, api: Api, options: OperatorOptions, folder: Path) -> None:
        self.name = name
        self._store = store
        self._api = api
        self._options = options
        self._clock = SteadyClock()
        self._readings = Readings()
        self._tombs = Tombs()
        self._defaults = options.defaults
        self._upgrade: Condition | None = None
        self._supplies = Supplies(api, options.defaults)
        self._access = KafkaAccess(api, folder)
        self._publisher = Publisher(api, name, store)
        self._hands = PodHands(
            api,
            name[0],
            self._manifest,
            created=lambda body: store.put(POD, body),
            buried=self._tombs.bury,
            refused=self._publisher.refused,
        )
        self._pool = PoolStep(self._hands, self._tell_leader, self._clock)
        self._facts = Facts()
        self._stock = StockLives()
        self._worker: Worker | None = None
        self._connectors: Mapping[str, DesiredConnector] = {}
        self._applied: object = None
        self._leader: LeaderService | None = None
        self._front = WorkerFront(api, options, lambda: self._leader, self._publisher.refused)
        self._status: Mapping[str, Any] = {}
        self._status_at = float("-inf")
        self._listed_at = float("-inf")
        self._next_ms: int | None = None
        self._warned = ""
        self._news: tuple[News, ...] = ()
        self._last: dict[str, News] = {}
        """What was told of each pod last."""
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
        """Nothing of this Worker is left."""
        return self._done.is_set()

    @property
    def status(self) -> Mapping[str, Any]:
        """The leader's, as it was asked last; empty while there is none."""
        return self._status

    def stop(self, timeout_s: float = 15) -> None:
        """End. Pods run on, and the leader keeps its place in the group: the next operator goes on."""
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
                # Whatever it was, the next step starts from what is there.
                log.exception("Worker %s/%s", *self.name)
                pause_s = _ERROR_PAUSE_S
            self._wake.wait(pause_s)
            self._wake.clear()
        self._front.close()
        if self._leader is not None:
            self._leader.stop(leave=self.done)

    def _told(self) -> str:
        """What has happened since the last step is said; its ids."""
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
            # Somebody took the finalizer away: its pods go with their owner.
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
            worker = self._allowed(worker)
        self._worker = worker
        connectors = self._read_connectors(seen)
        self._apply(worker, () if removing else connectors)
        self._try(lambda: self._front.keep(None if removing else worker))
        self._refresh_status()
        bodies = [*seen.pods.values(), *seen.gone]
        self._tombs.see(seen.pods.values(), seen.gone)
        self._hands.pods = seen.pods
        pods = tuple(pod(body) for body in (*seen.pods.values(), *self._tombs.standing(seen.pods)))
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

    def _allowed(self, worker: Worker) -> Worker:
        """What is refused for what surrounds it is said; one member at most runs then, which is safe."""
        if not self._supplies.refusal:
            return worker
        self._publisher.refused(self._supplies.refusal)
        spec = worker.spec.model_copy(update={"replicas": min(1, worker.spec.replicas)})
        return worker.model_copy(update={"spec": spec})

    def _pin(self, worker: Worker, body: Body) -> None:
        """Members are made as they were under earlier operators, until the user wants others."""
        ours = self._options.defaults
        pin = pin_of(worker, body, ours)
        self._defaults = self._supplies.defaults = pin.defaults(ours)
        self._upgrade = upgrade_available(worker, pin, ours)
        if (body["metadata"].get("annotations") or {}).get(PINNED) != pin.text():
            self._try(lambda: self._publisher.annotate(WORKERS, body, {PINNED: pin.text()}))

    def _try(self, act: Callable[[], None]) -> None:
        """What the API refuses here keeps nobody from looking after the group: deaths go on."""
        try:
            act()
        except ApiError as error:
            self._warn_of(error)
            self._publisher.refused(str(error))

    def _warn_of(self, error: ApiError) -> None:
        """Once, and not at every step for as long as it lasts."""
        if str(error) != self._warned:
            log.warning("Worker %s/%s: %s", *self.name, error)
            self._warned = str(error)

    def _resync(self) -> None:
        """The pods as they are: before the first step, and again now and then."""
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

    def _read_connectors(self, seen: Seen) -> tuple[Connector, ...]:
        self._readings.keep_only(frozenset(body["metadata"]["name"] for body in seen.connectors))
        read = (
            self._readings.connector(body)
            for body in seen.connectors
            if body["metadata"].get("deletionTimestamp") is None
        )
        return tuple(connector for connector in read if connector is not None)

    def _apply(self, worker: Worker, connectors: tuple[Connector, ...]) -> None:
        security = self._get_in(worker)
        wanted = (worker.spec, tuple((c.metadata.name, c.spec) for c in connectors), security)
        if wanted == self._applied:
            return
        if security is not None:
            self._lead(worker, security)
        if self._leader is None:
            return
        self._leader.set_policy(compile_policy(worker))
        desired = compile_desired(worker, connectors, revision=self._clock())
        for name in changed_connectors(self._connectors, desired.connectors):
            self._pool.pardon(name)
        self._connectors = desired.connectors
        with within(event=ids_of(news for news in self._news if news.kind in (WORKER, CONNECTOR))):
            self._leader.set_desired(desired)
        self._applied = wanted

    def _get_in(self, worker: Worker) -> Mapping[str, Any] | None:
        """How Kafka is reached; None while nobody knows: no leader is started, and one that runs stays."""
        self._access.renew(worker)
        if self._access.refusal:
            self._publisher.refused(self._access.refusal)
        return self._access.settings

    def _lead(self, worker: Worker, security: Mapping[str, Any]) -> None:
        """Have a leader with the Worker's settings."""
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
        # It lives longer than what it is started for.
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
        lives = ((identity, incarnation) for identity, incarnation in self._status.get("lives", ()))
        return proven_ends(lives, bodies, facts.ended) | self._stock.ended(facts.ended)

    def _tell_leader(self, facts: Facts) -> None:
        departed = departures(self._facts, facts)
        self._facts = facts
        # A pod's own news say more of its departure than whatever has happened meanwhile.
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
            lives={name: pod_status(body) for name, body in seen.pods.items()},
            leader=leader,
            reports=self._pool.reports,
            expected=self._facts.expected or frozenset(),
            more=(self._upgrade,) if self._upgrade is not None else (),
        )
        self._publisher.publish(worker, connectors, facts, seen, self._readings.problems, self._leader)

    # --- coming and going ---------------------------------------------------------------------------

    def _keep_finalizer(self, body: Body) -> None:
        metadata = body["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            self._publisher.finalize(WORKERS, body, keep=True)

    def _remove(self, body: Body, seen: Seen, worker: Worker) -> None:
        """Its members have ended, or will not within their time: let the object go."""
        left = sorted(name for name, each in seen.pods.items() if phase(each) is not Phase.ENDED)
        limit_ms = 2 * worker.spec.drain_timeout_seconds * 1000 + _REMOVAL_EXTRA_MS
        if left and self._clock() - milliseconds(body["metadata"]["deletionTimestamp"]) <= limit_ms:
            return
        if left:
            self._publisher.left_behind(body, left)
        if self._publisher.finalize(WORKERS, body, keep=False):
            self._finish()

    def _leave(self, body: Body, seen: Seen) -> None:
        """Its members stay: they are on their own from now on."""
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
