"""The daemon of a state directory: reads manifests, runs a loop per Worker, serves requests.

It may be killed at any time: members run on, and the next daemon takes them over.
"""

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from cooperator.artifacts import ArtifactError
from cooperator.connectors.state_query import StateError, StateQuery, decode
from cooperator.crd import Connector, FieldProblem, Resource, ResourceError, Worker, parse
from cooperator.host.platform import Goal, Wanted
from cooperator.host.status import WorkerFacts
from cooperator.host.worker_loop import WorkerLoop
from cooperator.leader.door import Door
from cooperator.leader.endpoint import Endpoint, answer_health, body_of, error_answer, json_answer
from cooperator.leader.process import SteadyClock
from cooperator.leader.service import LeaderService
from cooperator.local.broker import BrokerError, EmbeddedBroker
from cooperator.local.daemon import host_lock, make_token
from cooperator.local.front import Fronts
from cooperator.local.layout import (
    ClusterError,
    LocalCluster,
    StateDir,
    StorageError,
    read_cluster,
    write_json,
)
from cooperator.local.members import MemberProcesses
from cooperator.local.outputs import shared_directories
from cooperator.local.platform import LocalPlatform
from cooperator.local.store import ManifestStore, Stored
from cooperator.local.template import member_command
from cooperator.local.view import state_view
from cooperator.log_lines import log_to_stderr
from cooperator.logs import LogUnavailable
from cooperator.rest.answers import RequestRefused
from cooperator.rest.of_worker import offsets_of
from cooperator.rest.translate import flat
from cooperator.supervision import supervise_process, supervised, threads, trouble, turn, wait_turning
from cooperator.wire import RestartRecord

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
"""The interval of observations: a death is seen this late at most."""
_BROKER_LOOK_S: Final = 3.0
_BROKER_START_S: Final = 600.0
"""No start of a broker takes longer, a download of its libraries included."""
_STOPPED_S: Final = 15.0
"""The time for the end of all Workers' loops; less than the 20 s after which `down` kills this process."""
_NOT_RUN: Final = "there is no connector {!r} that runs: `cooperator local get connectors`"

Name = tuple[str, str]
"""(namespace, name) of a Worker, or of a Connector."""


class AlreadyRunning(Exception):
    """Another daemon runs on this state directory."""


class Host:
    """One daemon. ``run`` returns after ``end``, or when everything has been brought down."""

    def __init__(self, state: StateDir, cluster: LocalCluster) -> None:
        self._state = state
        self._cluster = cluster
        self._store = ManifestStore(state, now_ms)
        self._stored: Stored | None = None
        self._problems: tuple[FieldProblem, ...] = ()
        self._seen: object = None
        self._withheld: Mapping[Name, str] = {}
        self._workers: dict[Name, WorkerLoop[LocalPlatform]] = {}
        self._fronts = Fronts(self._store)
        self._broker = None if cluster.bootstrap_servers else EmbeddedBroker(state.broker, detached=True)
        routes = {
            "GET /healthz": answer_health,
            "GET /state": self._get,
            "POST /restart": self._post_restart,
            "POST /state": self._post_state,
        }
        door = Door(token=make_token(state), is_local=True)
        self._endpoint = Endpoint("127.0.0.1", 0, routes, door=door)
        self._ending = threading.Event()
        self._logged = ""
        self._broker_trouble = ""
        self.is_exhausted = False

    @property
    def bootstrap_servers(self) -> str:
        if self._broker is not None:
            return self._broker.bootstrap_servers
        return self._cluster.bootstrap_servers or ""

    def end(self) -> None:
        """Makes ``run`` return; members run on."""
        self._ending.set()

    def exhaust(self) -> None:
        """Makes ``run`` return because too little of this process works."""
        self.is_exhausted = True
        self._ending.set()

    def run(self) -> None:
        self._endpoint.start()
        self._announce()
        keeper = supervised(self._keep_broker, "broker-keeper", limit_s=_BROKER_START_S)
        keeper.start()
        try:
            with threads.of_process.beating("daemon"):
                while not self._ending.is_set() and not self._step():
                    self._ending.wait(_LOOK_S)
        finally:
            self._ending.set()
            self._fronts.stop()
            deadline = time.monotonic() + _STOPPED_S
            for worker in self._workers.values():
                worker.stop(0)
            for worker in self._workers.values():
                worker.stop(max(0.0, deadline - time.monotonic()))
            self._endpoint.stop()
            self._state.host.unlink(missing_ok=True)

    def _announce(self) -> None:
        """Writes the address of this process, as soon as there is space for it."""
        while not self._ending.is_set():
            try:
                write_json(self._state.host, {"pid": os.getpid(), "port": self._endpoint.port})
                return
            except StorageError as error:
                self._log_once(str(error))
                self._ending.wait(_BROKER_LOOK_S)

    def _log_once(self, problem: str) -> None:
        """Logs a problem that lasts once, and not at every step."""
        if problem != self._logged:
            log.error("%s", problem)
        self._logged = problem

    def _step(self) -> bool:
        """Does one step; returns True when everything was brought down."""
        turn()
        halting = self._is_halting()
        seen = (self._store.stamp(), halting)
        if seen != self._seen:
            self._seen = seen
            self._read(halting)
            for name, wanted in self._wanted(halting).items():
                self._want(name, wanted)
        served = {} if halting or self._stored is None else {_name(w): w for w in self._stored.workers}
        self._fronts.keep(served, self._leader)
        if halting:
            return all(worker.done for worker in self._workers.values())
        for name in [name for name, worker in self._workers.items() if worker.done]:
            log.info("Worker %s/%s: all members have ended", *name)
            self._workers.pop(name).stop()
            self._seen = None  # the Worker may have been applied again meanwhile
        return False

    def _leader(self, name: Name) -> LeaderService | None:
        worker = self._workers.get(name)
        return None if worker is None else worker.leader

    def _read(self, halting: bool) -> None:
        """Reads the manifests.

        As long as one of them cannot be read, the previous ones stay in force: a half-written file stops
        nothing.
        """
        try:
            stored = self._store.read() if halting else self._store.read_and_bind()
        except ClusterError as error:
            self._log_once(str(error))
            self._seen = None
            return
        self._log_once("")
        for problem in stored.problems:
            if problem not in self._problems:
                log.error("%s", problem)
        self._problems = stored.problems
        if not stored.problems:
            self._stored = stored
            self._withheld = shared_directories(stored.workers, stored.connectors)
            for (_, name), why in self._withheld.items():
                log.error("Connector %s is not started: %s", name, why)

    def _want(self, name: Name, wanted: Wanted) -> None:
        worker = self._workers.get(name)
        if worker is not None:
            if worker.platform.want(wanted):
                worker.wake()
            return
        log.info("Worker %s/%s", *name)
        directory, clock = self._state.worker(*name), SteadyClock()
        platform = LocalPlatform(
            directory,
            self._cluster.id,
            self.bootstrap_servers,
            member_command(directory),
            MemberProcesses(directory.members, clock),
            wanted,
        )
        self._workers[name] = WorkerLoop(name, platform, _LOOK_S, clock)
        self._workers[name].start()

    def _wanted(self, halting: bool) -> dict[Name, Wanted]:
        wanted: dict[Name, Wanted] = {}
        if self._stored is not None:
            goal = Goal.HALT if halting else Goal.RUN
            for worker in self._stored.workers:
                namespace, _ = name = _name(worker)
                withheld = frozenset(other for where, other in self._withheld if where == namespace)
                wanted[name] = Wanted(worker, _of(worker, self._stored.connectors), goal, withheld)
        if self._stored is not None or halting:
            goal = Goal.HALT if halting else Goal.REMOVE
            for worker in self._left_behind():
                wanted.setdefault(_name(worker), Wanted(worker, (), goal))
        return wanted

    def _left_behind(self) -> list[Worker]:
        """Returns the Workers that were run from here and are not entirely removed yet."""
        found: list[Worker] = []
        for path in self._state.workers.glob("*/worker.yaml"):
            try:
                found += [r for r in parse(path.read_text(), str(path)) if isinstance(r, Worker)]
            except (OSError, ResourceError) as error:
                log.debug("%s", error)
        return found

    def _is_halting(self) -> bool:
        cluster = read_cluster(self._state)
        return cluster is not None and cluster.down

    def _keep_broker(self) -> None:
        """Restarts an embedded broker that has died; its data is in its directory."""
        if self._broker is None:
            return
        while not wait_turning(self._ending, _BROKER_LOOK_S):
            if self._broker.pid is not None or self._is_halting():
                self._broker_trouble = ""
                continue
            log.warning("the broker has died and is started again")
            try:
                self._broker.start()
            except (BrokerError, ArtifactError, ClusterError, OSError) as error:
                log.error("%s", error)
                self._broker_trouble = f"the broker does not run: {error}"
            else:
                self._broker_trouble = ""

    def _trouble(self) -> str:
        loops = (loop.trouble for loop in self._workers.copy().values())
        return "; ".join(dict.fromkeys(filter(None, [trouble(), self._logged, self._broker_trouble, *loops])))

    async def _get(self, request: web.Request) -> web.StreamResponse:
        def view() -> dict[str, object]:
            facts: dict[Name, WorkerFacts] = {
                name: worker.platform.facts for name, worker in self._workers.copy().items()
            }
            return {
                "pid": os.getpid(),
                "bootstrap_servers": self.bootstrap_servers,
                "trouble": self._trouble(),
                **state_view(
                    replace(self._stored or Stored(()), problems=self._problems),
                    facts,
                    now_ms(),
                    self._withheld,
                ),
            }

        return json_answer(200, await asyncio.get_running_loop().run_in_executor(None, view))

    async def _post_restart(self, request: web.Request) -> web.StreamResponse:
        """Handles a restart, with the fields of ``RestartRecord``.

        The body is ``{"namespace", "connector", "include_tasks", "only_failed", "task"}``.
        """
        if request.content_type != "application/json":
            return error_answer(415, "send application/json")
        body = await body_of(request)
        try:
            asked = json.loads(body)
            namespace = str(asked["namespace"])
            task = None if asked.get("task") is None else int(asked["task"])
            record = RestartRecord(
                str(asked["connector"]), bool(asked["include_tasks"]), bool(asked["only_failed"]), task
            )
        except (ValueError, KeyError, TypeError) as error:
            return error_answer(
                400, f"invalid restart request; send namespace, connector and the part to restart: {error!r}"
            )
        code, message = await asyncio.get_running_loop().run_in_executor(
            None, self._restart, namespace, record
        )
        return json_answer(code, {}) if code < 300 else error_answer(code, message)

    async def _post_state(self, request: web.Request) -> web.StreamResponse:
        """Handles a question ``{"namespace", "connector", "query"}`` about the state of a connector."""
        if request.content_type != "application/json":
            return error_answer(415, "send application/json")
        body = await body_of(request)
        try:
            asked = json.loads(body)
            query = decode(asked["query"])
            name = (str(asked["namespace"]), str(asked["connector"]))
        except StateError as error:
            return error_answer(400, str(error))
        except (ValueError, KeyError, TypeError) as error:
            return error_answer(400, f"invalid question; send namespace, connector and query: {error!r}")
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(None, self._state_of, name, query)
        except RequestRefused as refused:
            return error_answer(refused.code, str(refused))
        return json_answer(200, found)

    def _state_of(self, name: Name, query: StateQuery) -> dict[str, Any]:
        found = self._running(name)
        if found is None:
            raise RequestRefused(404, _NOT_RUN.format(name[1]))
        connector, worker, loop = found
        offsets = offsets_of(worker, lambda: loop.leader)
        return offsets.state(connector.connector_name, flat(connector), query)

    def _running(self, name: Name) -> tuple[Connector, Worker, WorkerLoop[LocalPlatform]] | None:
        """Returns the Connector of that name, its Worker, and the Worker's loop."""
        stored = self._stored or Stored(())
        for connector in (each for each in stored.connectors if _name(each) == name):
            place = (name[0], connector.spec.worker_ref.name)
            worker = next((each for each in stored.workers if _name(each) == place), None)
            if worker is not None and place in self._workers:
                return connector, worker, self._workers[place]
        return None

    def _restart(self, namespace: str, record: RestartRecord) -> tuple[int, str]:
        name = record.connector
        found = self._running((namespace, name))
        if found is None:
            return 404, _NOT_RUN.format(name)
        connector, _, loop = found
        try:
            code = loop.restart(replace(record, connector=connector.connector_name))
        except (TimeoutError, LogUnavailable) as error:
            return 503, f"the leader could not write it, ask again: {error or 'it does not answer'}"
        messages = {
            404: f"{name} is not configured yet, or has no such task: `cooperator local get tasks {name}`",
            409: "the group has no leader at the moment: ask again when `cooperator local get workers` "
            "says Ready",
        }
        return code, messages.get(code, "")


def run_host(state: StateDir) -> bool:
    """Runs the daemon until SIGTERM; returns whether it must be started again. Raises ``AlreadyRunning``."""
    log_to_stderr()
    supervise_process()
    cluster = read_cluster(state)
    if cluster is None:
        raise AlreadyRunning(f"{state.root} is no state directory: `cooperator local up` makes one")
    with host_lock(state) as ours:
        if not ours:
            raise AlreadyRunning(f"another daemon runs on {state.root}")
        host = Host(state, cluster)
        threads.of_process.on_exhausted = host.exhaust
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: host.end())
        log.info("daemon %d of %s", os.getpid(), state.root)
        host.run()
        log.info("daemon ends")
        return host.is_exhausted


def _name(resource: Resource) -> Name:
    return resource.metadata.namespace, resource.metadata.name


def _of(worker: Worker, connectors: tuple[Connector, ...]) -> tuple[Connector, ...]:
    return tuple(c for c in connectors if (c.metadata.namespace, c.spec.worker_ref.name) == _name(worker))


def now_ms() -> int:
    return time.time_ns() // 1_000_000
