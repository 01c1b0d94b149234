"""The runner of one Worker in the daemon: its leader, its pool, and a thread for both."""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cooperator.crd import Connector, Worker, compile_desired, compile_policy, dump
from cooperator.crd.choices import DeletionPolicy
from cooperator.host.desired import pool_desired
from cooperator.host.leader import changed_connectors, leader_settings, port_of, same_leader, started_leader
from cooperator.host.status import WorkerFacts
from cooperator.leader.process import SteadyClock
from cooperator.leader.service import LeaderService
from cooperator.local.layout import WorkerDir, read_json, write_atomically, write_json
from cooperator.local.members import MemberProcesses
from cooperator.local.pool_loop import PoolLoop
from cooperator.local.template import MemberCommand
from cooperator.model import DesiredConnector
from cooperator.planner.view import Facts
from cooperator.pool import PoolDesired
from cooperator.wire import RestartRecord

log = logging.getLogger(__name__)

LOOK_S: Final = 0.2
"""The interval of observations: a death is seen this late at most."""
_STATUS_S: Final = 1.0
_STATUS_PATIENCE_S: Final = 0.5
_ERROR_PAUSE_S: Final = 2.0
_GRACE_MS: Final = 30_000
"""A member that was asked to end is killed this long after its drain time-out."""


class Goal(StrEnum):
    """``RUN``: as the manifest says. ``HALT``: down temporarily. ``REMOVE``: the manifest is gone."""

    RUN = "run"
    HALT = "halt"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Wanted:
    """``withheld`` holds names of Connectors that must not start, since another one has their directory."""

    worker: Worker
    connectors: tuple[Connector, ...]
    goal: Goal = Goal.RUN
    withheld: frozenset[str] = frozenset()


class WorkerHost:
    """Reconciles the last ``want``, on its own thread, until ``stop``.

    ``stop`` leaves the members running and keeps the leader's place in the group for the next daemon.
    """

    def __init__(
        self,
        directory: WorkerDir,
        cluster_id: str,
        bootstrap_servers: str,
        member_command: MemberCommand,
        wanted: Wanted,
    ) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._bootstrap_servers = bootstrap_servers
        self._member_command = member_command
        self._wanted = wanted
        self._applied: Wanted | None = None
        self._leader: LeaderService | None = None
        self._status: Mapping[str, Any] = {}
        self._status_at = float("-inf")
        self._facts = Facts()
        self._connectors: Mapping[str, DesiredConnector] = {}
        # The pool does not use the wall clock: setting that back would delay its time-outs.
        clock = SteadyClock()
        self._pool = PoolLoop(MemberProcesses(directory.members, clock), self._tell_leader, clock)
        self._wake = threading.Event()
        self._stopping = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"worker-{wanted.worker.metadata.name}")

    def start(self) -> None:
        self._thread.start()

    def want(self, wanted: Wanted) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._wake.set()

    @property
    def done(self) -> bool:
        """Whether nothing runs any more, as wanted (goals HALT and REMOVE)."""
        return self._done.is_set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()

    @property
    def leader(self) -> LeaderService | None:
        """The current leader; None while there is none."""
        return self._leader

    def restart(self, record: RestartRecord) -> int:
        """See ``LeaderService.restart``."""
        return self._leader.restart(record) if self._leader is not None else 409

    def facts(self) -> WorkerFacts:
        expected = self._facts.expected or frozenset()
        return WorkerFacts(dict(self._pool.incarnations), self._pool.leader, self._pool.reports, expected)

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping and not self.done:
            pause_s = LOOK_S
            try:
                self._step()
            except Exception:
                # The next step starts from the current state, whatever the error was.
                log.exception("Worker %s", self._wanted.worker.metadata.name)
                pause_s = _ERROR_PAUSE_S
            self._wake.wait(pause_s)
            self._wake.clear()
        if self._leader is not None:
            self._leader.stop(leave=self.done)

    def _step(self) -> None:
        wanted = self._wanted
        if wanted.goal is Goal.REMOVE and wanted.worker.spec.deletion_policy is DeletionPolicy.ORPHAN:
            # Its members run on; the Worker finds them when it is applied again.
            if self._leader is not None:
                self._leader.hand_back()
                self._leader = None
            self._directory.manifest.unlink(missing_ok=True)
            self._done.set()
            return
        if wanted != self._applied:
            self._apply(wanted)
        self._refresh_status()
        worker = wanted.worker
        if wanted.goal is Goal.HALT:
            if self._pool.halt():
                self._done.set()
            return
        self._pool.step(
            self._pool_desired(wanted),
            lambda identity, incarnation: self._member_command(
                worker, self._servers(worker), identity, incarnation
            ),
            self._status,
            is_stock=worker.spec.is_stock,
        )
        if wanted.goal is Goal.REMOVE and all(process.ended for process in self._pool.incarnations.values()):
            self._directory.manifest.unlink(missing_ok=True)
            self._done.set()

    def _apply(self, wanted: Wanted) -> None:
        write_atomically(self._directory.manifest, dump([wanted.worker]))
        self._lead(wanted.worker)
        assert self._leader is not None
        self._leader.set_policy(compile_policy(wanted.worker))
        # A removed Worker has no connectors, so that its members end without reassigning tasks.
        connectors = () if wanted.goal is Goal.REMOVE else wanted.connectors
        desired = compile_desired(wanted.worker, connectors, now_ms(), withheld=wanted.withheld)
        for name in changed_connectors(self._connectors, desired.connectors):
            self._pool.pardon(name)
        self._connectors = desired.connectors
        self._leader.set_desired(desired)
        self._applied = wanted

    def _restart(self, record: RestartRecord) -> None:
        self._pool.pardon(record.connector, record.include_tasks or record.task is not None)
        self._wake.set()

    def _lead(self, worker: Worker) -> None:
        """Starts or keeps a leader with the Worker's settings."""
        known_port = (read_json(self._directory.leader) or {}).get("port", 0)
        settings = leader_settings(worker, self._servers(worker), self._cluster_id, port=known_port)
        if self._leader is not None:
            if same_leader(self._leader.settings, settings):
                return
            self._leader.stop(leave=False)
        self._leader = started_leader(settings, self._restart)
        port = port_of(self._leader)
        if port != known_port:
            # Running members know their leader by its address.
            write_json(self._directory.leader, {"port": port})
        self._leader.set_facts(self._facts)

    def _refresh_status(self) -> None:
        now = time.monotonic()
        if self._leader is not None and now - self._status_at >= _STATUS_S:
            self._status = self._leader.status(timeout_s=_STATUS_PATIENCE_S)
            self._status_at = now

    def _tell_leader(self, facts: Facts) -> None:
        self._facts = facts
        if self._leader is not None:
            self._leader.set_facts(facts)

    def _servers(self, worker: Worker) -> str:
        return worker.spec.bootstrap_servers or self._bootstrap_servers

    def _pool_desired(self, wanted: Wanted) -> PoolDesired:
        removing = wanted.goal is Goal.REMOVE
        return pool_desired(wanted.worker, self._revision(wanted.worker), removing, kill_after_ms=_GRACE_MS)

    def _revision(self, worker: Worker) -> str:
        """Returns the revision of the members' template: a change makes the pool roll."""
        template = [*self._member_command(worker, self._servers(worker), "", "")]
        if worker.spec.restart_nonce:
            template.append(worker.spec.restart_nonce)
        return hashlib.sha256(json.dumps(template).encode()).hexdigest()[:10]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
