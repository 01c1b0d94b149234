"""kopf's wiring: what is watched, and one loop for each Worker. No decision is made here."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import kopf
from aiohttp import web
from kopf._cogs.clients import api as kopf_api

import cooperator
from cooperator.controller.api.bounded_json import loads
from cooperator.controller.api.client import CONNECTORS, NAMESPACES, WORKERS, Api, ApiError
from cooperator.controller.api.operator_lease import OperatorLeaseKeeper, OperatorLeaseTerms
from cooperator.controller.names import GROUP, VERSION, WORKER_LABEL
from cooperator.controller.options import OperatorOptions
from cooperator.controller.outputs import Outputs
from cooperator.controller.platform import KubernetesPlatform
from cooperator.controller.store import CONNECTOR, NODE, POD, WORKER, Name, Store
from cooperator.controller.strays import Strays
from cooperator.crd import shallow
from cooperator.host.metrics import WorkerMetrics
from cooperator.host.worker_loop import WorkerLoop
from cooperator.leader.endpoint import Endpoint, health_answer
from cooperator.supervision import supervised, threads, trouble, turn, wait_turning
from cooperator.telemetry import start_sending
from cooperator.telemetry.settings import resource_attributes

log = logging.getLogger(__name__)

_INACTIVITY_S: Final = 65.0
"""API servers send a bookmark every minute: a watch that is silent for longer is dead."""
_LOOK_S: Final = 1.0
"""Interval of a Worker's steps without an event."""
_STOP_S: Final = 15.0
_STOPPED_S: Final = 2 * _STOP_S
_LAST_METRICS_S: Final = 2.0
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_RESYNC_S: Final = 60.0


class Operator:
    """Holds a loop for every Worker seen, until ``stop``. ``folder`` belongs to this process."""

    def __init__(self, options: OperatorOptions, api: Api, folder: Path) -> None:
        self.options = options
        self.api = api
        self._folder = folder
        self.store = Store(self._wake)
        self._outputs = Outputs(self.store)
        self.ending = threading.Event()
        self._lock = threading.Lock()
        self._loops: dict[Name, WorkerLoop[KubernetesPlatform]] = {}
        # Resync at once: the order of watch events must not decide which Connector of a directory is first.
        self._listed_at = float("-inf")

    def _wake(self, name: Name) -> None:
        with self._lock:
            loop = self._loops.get(name)
        if loop is not None:
            loop.wake()

    def run(self) -> None:
        """Keep the loops until ``ending``."""
        while True:
            self.keep()
            if wait_turning(self.ending, _LOOK_S):
                return

    def keep(self) -> None:
        """Ensure a loop for each Worker, and drop those of Workers that are gone."""
        now_s = time.monotonic()
        if now_s - self._listed_at > _RESYNC_S:
            self._listed_at = now_s
            self._resync()
        for name in self.store.workers():
            if name in self._loops:
                continue
            log.info("Worker %s/%s", *name)
            platform = KubernetesPlatform(
                name, self.store, self.api, self.options, self._folder, self._outputs
            )
            loop = WorkerLoop(name, platform, _LOOK_S)
            with self._lock:
                self._loops[name] = loop
            loop.start()
        for name, loop in list(self._loops.items()):
            if loop.done and name not in self.store.workers():
                log.info("Worker %s/%s is gone", *name)
                _stop(loop)
                with self._lock:
                    del self._loops[name]

    def _resync(self) -> None:
        """Remove objects whose deletion a watch may have missed."""
        for namespace in self.options.namespaces or (None,):
            for kind, stored in ((WORKERS, WORKER), (CONNECTORS, CONNECTOR)):
                # A list that fails does not hide other namespaces and kinds.
                try:
                    bodies, version = self.api.list(kind, namespace)
                    self.store.replace(stored, map(shallow, bodies), version, _in_namespace(namespace))
                except ApiError as error:
                    log.warning("%s", error)

    def trouble(self) -> str:
        """The parts that have stopped and should run; empty while this process only waits for the Lease."""
        if found := trouble():
            return found
        if unheard := self.store.unheard():
            return unheard
        with self._lock:
            dead = [name for name, each in self._loops.items() if not (each.is_alive or each.done)]
        return f"the loop of Worker {dead[0][0]}/{dead[0][1]} has ended" if dead else ""

    def statuses(self) -> Mapping[Name, Mapping[str, Any]]:
        """The statuses of all Workers' leaders."""
        with self._lock:
            return {name: loop.status for name, loop in self._loops.items()}

    async def answer_health(self, request: web.Request) -> web.StreamResponse:
        return health_answer(self.trouble())

    def stop(self) -> None:
        """Stop all loops concurrently, and leave those that do not stop; members run on."""
        deadline = time.monotonic() + _STOPPED_S
        threads = [threading.Thread(target=_stop, args=(each,)) for each in self._loops.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _stop(loop: WorkerLoop[KubernetesPlatform]) -> None:
    loop.stop(_STOP_S)
    loop.platform.close()


def registry_of(operator: Operator) -> kopf.OperatorRegistry:
    """Every handler only records what was seen; kopf keeps no state of its own in the objects."""
    # kopf would log every event that it handled.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    registry = kopf.OperatorRegistry()
    store = operator.store

    @kopf.on.login(registry=registry, id="login")
    def login(**said: Any) -> Any:
        return in_cluster() or kopf.login_with_kubeconfig(**said)

    def noting(kind: str) -> Any:
        async def note(event: Any, **_: Any) -> None:
            store.put(kind, shallow(event["object"]), deleted=event["type"] == "DELETED", watched=True)

        return note

    kopf.on.event(GROUP, VERSION, "workers", registry=registry, id="workers")(noting(WORKER))
    kopf.on.event(GROUP, VERSION, "connectors", registry=registry, id="connectors")(noting(CONNECTOR))
    kopf.on.event("v1", "pods", labels={WORKER_LABEL: kopf.PRESENT}, registry=registry, id="pods")(
        noting(POD)
    )
    if operator.options.nodes:
        kopf.on.event("v1", "nodes", registry=registry, id="nodes")(noting(NODE))
    return registry


def in_cluster() -> kopf.ConnectionInfo | None:
    """The pod's account at the address that the kubelet names, since kopf needs DNS. None outside a pod."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT"))
    token = ACCOUNT / "token"
    if not (host and port and token.exists()):
        return None
    where = f"[{host}]" if ":" in host else host
    # Tokens are renewed in their file, and kopf calls this again when one is refused.
    return kopf.ConnectionInfo(
        server=f"https://{where}:{port}", ca_path=str(ACCOUNT / "ca.crt"), token=token.read_text().strip()
    )


def teach_kopf() -> None:
    """Have kopf read answers and events of any depth, for which it has no setting: one would end it."""
    module: Any = kopf_api
    module.json = SimpleNamespace(loads=loads)
    read: Any = aiohttp.ClientResponse.json
    read.__kwdefaults__["loads"] = loads


def settings_of() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.watching.label_selectors["v1", "pods"] = WORKER_LABEL
    settings.watching.inactivity_timeout = _INACTIVITY_S
    settings.watching.server_timeout = 300
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    # kopf removes its own finalizer wherever no handler of its needs it, so it must not be ours.
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.posting.enabled = False
    return settings


async def _serve(operator: Operator, stopped: asyncio.Event) -> None:
    """Watch until ``ending``."""
    options = operator.options

    async def await_end() -> None:
        while not operator.ending.is_set():
            turn()
            await asyncio.sleep(_LOOK_S)
        stopped.set()

    identity: Any = options.identity  # kopf's type for it is not public
    strays = Strays(operator.store, operator.api)
    ending = asyncio.create_task(await_end())
    parts = (supervised(operator.run, "workers"), supervised(strays.run, "strays", operator.ending))
    for part in parts:
        part.start()
    try:
        await kopf.operator(
            registry=registry_of(operator),
            settings=settings_of(),
            # Without it kopf asks for the user's name, which a user id that the cluster chose does not have.
            identity=identity,
            standalone=True,
            clusterwide=not options.namespaces,
            namespaces=list(options.namespaces),
            stop_flag=stopped,
        )
    finally:
        operator.ending.set()
        await ending
        for part in parts:
            await asyncio.to_thread(part.join, _STOPPED_S)


def run_operator(options: OperatorOptions, ending: threading.Event) -> int:
    """Run the operator until ``ending``. Blocks until it holds the Lease. Returns 1 if the Lease was lost."""
    with TemporaryDirectory(prefix="cooperator-", ignore_cleanup_errors=True) as folder:
        api = Api()
        operator = Operator(options, api, Path(folder))
        operator.ending = ending
        metrics = WorkerMetrics(operator.statuses)
        sending = start_sending(metrics.families, partial(_resource, options), options.defaults.otlp_endpoint)
        try:
            return _run(operator, metrics)
        finally:
            sending.stop(_LAST_METRICS_S)


def _resource(options: OperatorOptions) -> Mapping[str, str]:
    return resource_attributes("cooperator-operator", options.identity, cooperator.__version__, os.environ)


def _run(operator: Operator, metrics: WorkerMetrics) -> int:
    options, api, ending = operator.options, operator.api, operator.ending
    teach_kopf()
    if options.health_port:
        pages = {
            "GET /healthz": operator.answer_health,
            "GET /metrics": metrics.answer,
        }
        Endpoint("0.0.0.0", options.health_port, pages).start()
    lost = threading.Event()

    def on_lost() -> None:
        lost.set()
        ending.set()

    terms = OperatorLeaseTerms(
        options.lease_namespace, options.lease_name, options.identity, options.lease_duration_ms
    )
    keeper = OperatorLeaseKeeper(api, terms, on_lost)
    log.info("waiting for the Lease %s/%s", terms.namespace, terms.name)
    if not keeper.acquire(ending):
        return 0
    api.may_write = lambda: keeper.holds
    log.info("operator %s serves %s", options.identity, ", ".join(options.namespaces) or "all namespaces")

    async def serve() -> None:
        await _serve(operator, asyncio.Event())

    threads.of_process.on_exhausted = ending.set
    with threads.of_process.beating("kopf"):
        asyncio.run(serve())
    if lost.is_set():
        # The new holder acts already, so this process does nothing more, not even leave the groups.
        return 1
    operator.stop()
    keeper.release()
    return int(bool(trouble()))


def cluster_name(api: Api) -> str:
    """Names this Kubernetes cluster by the uid of its kube-system namespace. Raises ApiError."""
    return str(api.get(NAMESPACES, None, "kube-system")["metadata"]["uid"])


def _in_namespace(namespace: str | None) -> Callable[[Mapping[str, Any]], bool]:
    return lambda body: namespace is None or body["metadata"].get("namespace") == namespace
