"""One Worker's processes on this machine as a platform of ``host.worker_loop``."""

import hashlib
import json
import logging
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from cooperator.artifacts import FILE_NAMES, ArtifactError
from cooperator.crd import Worker, dump
from cooperator.crd.choices import DeletionPolicy
from cooperator.host.known import Leader
from cooperator.host.leader import leader_settings, port_of
from cooperator.host.platform import Goal, Observation, PlatformError, Wanted
from cooperator.host.pool_step import pool_desired
from cooperator.host.status import WorkerFacts
from cooperator.leader.service import LeaderService
from cooperator.local.layout import StorageError, WorkerDir, read_json, write_atomically, write_json
from cooperator.local.members import MemberProcesses, ProcessIncarnation
from cooperator.local.template import MemberCommand
from cooperator.pool import (
    Action,
    Create,
    Delete,
    Drain,
    End,
    EndCause,
    Kill,
    MarkReason,
    Phase,
    Pod,
    Remove,
    UnDrain,
)

log = logging.getLogger(__name__)

_GRACE_MS: Final = 30_000
"""A member that was asked to end is killed this long after its drain time-out."""


P = ParamSpec("P")
R = TypeVar("R")


def _storing(method: Callable[P, R]) -> Callable[P, R]:
    """Reports a full disk as a problem of the platform, which is logged once and tried again."""

    @wraps(method)
    def tried(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return method(*arguments, **named)
        except StorageError as error:
            raise PlatformError(str(error)) from error

    return tried


class LocalPlatform:
    """Any thread may call ``want`` and read ``facts``, the last observation's."""

    def __init__(
        self,
        directory: WorkerDir,
        cluster_id: str,
        bootstrap_servers: str,
        member_command: MemberCommand,
        processes: MemberProcesses,
        wanted: Wanted,
    ) -> None:
        self._directory = directory
        self._cluster_id = cluster_id
        self._bootstrap_servers = bootstrap_servers
        self._member_command = member_command
        self._processes = processes
        self._wanted = wanted
        self.want(wanted)
        self._seen: Wanted | None = None
        self._stored: Worker | None = None
        self._incarnations: Mapping[str, ProcessIncarnation] = {}
        self._leader_port: int = (read_json(directory.leader) or {}).get("port", 0)
        self.facts = WorkerFacts()

    def want(self, wanted: Wanted) -> bool:
        """Sets what the next observation shows; returns whether that is something new."""
        if wanted.goal is Goal.REMOVE and wanted.worker.spec.deletion_policy is DeletionPolicy.ORPHAN:
            # Its members run on with what they have; the Worker finds them when it is applied again.
            wanted = replace(self._wanted, goal=Goal.ORPHAN)
        is_new = wanted != self._wanted
        self._wanted = wanted
        return is_new

    # --- as ``host.platform.Platform`` --------------------------------------------------------------

    @_storing
    def observe(self, leader: Leader) -> Observation | None:
        wanted, before = self._wanted, self._seen
        self._seen = wanted
        worker = wanted.worker
        if wanted.goal is Goal.ORPHAN and before is None:
            return None  # It is not led from here, so nothing has to be handed back.
        if worker != self._stored:
            write_atomically(self._directory.manifest, dump([worker]))
            self._stored = worker
        asked_at_ms = int(time.monotonic() * 1000)
        incarnations = self._look()
        past = past_ends(incarnations.values())
        removing = wanted.goal is Goal.REMOVE
        return Observation(
            wanted,
            leader_settings(worker, self._servers(worker), self._cluster_id, port=self._leader_port),
            pool_desired(worker, self._revision(worker), removing, kill_after_ms=_GRACE_MS),
            tuple(pod(process) for process in incarnations.values() if not process.removed),
            leader,
            lambda ended: ended | past,
            asked_at_ms,
            incarnations,
        )

    @_storing
    def act(self, action: Action) -> None:
        processes = self._processes
        match action:
            case Create(identity, revision):
                self._create(identity, revision)
            case Drain(identity, incarnation, reason):
                processes.mark(identity, incarnation, reason.value)
            case UnDrain(identity, incarnation):
                processes.mark(identity, incarnation, "")
            case Delete(identity, incarnation):
                processes.terminate(identity, incarnation)
            case Kill(identity, incarnation):
                processes.kill(identity, incarnation)
            case Remove(identity, incarnation):
                processes.remove(identity, incarnation)

    @_storing
    def publish(self, facts: WorkerFacts, leader: LeaderService | None) -> None:
        self.facts = facts
        port = self._leader_port if leader is None else port_of(leader)
        if port != self._leader_port:
            # Running members know their leader by its address.
            write_json(self._directory.leader, {"port": port})
            self._leader_port = port

    def removed(self) -> bool:
        assert self._seen is not None
        goal = self._seen.goal
        runs = any(not process.ended for process in self._incarnations.values())
        if goal is Goal.RUN or (runs and goal is not Goal.ORPHAN):
            return False
        if goal is not Goal.HALT:
            self._directory.manifest.unlink(missing_ok=True)
        return True

    # --- processes ----------------------------------------------------------------------------------

    def _look(self) -> Mapping[str, ProcessIncarnation]:
        incarnations = self._processes.observe()
        for identity, process in incarnations.items():
            before = self._incarnations.get(identity)
            if process.ended and before is not None and not before.ended:
                log.info("%s (%s) has ended with code %s", identity, process.incarnation, process.exit_code)
        self._incarnations = incarnations
        return incarnations

    def _create(self, identity: str, revision: str) -> None:
        assert self._seen is not None
        worker = self._seen.worker
        try:
            self._processes.create(
                identity,
                revision,
                lambda incarnation: self._member_command(
                    worker, self._servers(worker), identity, incarnation
                ),
                FILE_NAMES,
            )
        except (OSError, ValueError, ArtifactError) as error:
            log.error("%s could not be started: %s", identity, error)

    def _servers(self, worker: Worker) -> str:
        return worker.spec.bootstrap_servers or self._bootstrap_servers

    def _revision(self, worker: Worker) -> str:
        """Returns the revision of the members' template: a change makes the pool roll."""
        template = [*self._member_command(worker, self._servers(worker), "", "")]
        if worker.spec.restart_nonce:
            template.append(worker.spec.restart_nonce)
        return hashlib.sha256(json.dumps(template).encode()).hexdigest()[:10]


def pod(process: ProcessIncarnation) -> Pod:
    """Returns an incarnation as a pod. A local pod has only one incarnation, so both have the same name."""
    return Pod(
        identity=process.identity,
        uid=process.incarnation,
        incarnation=process.incarnation,
        phase=_phase(process),
        revision=process.revision,
        mark=MarkReason(process.marked_for) if process.marked_for else None,
        end=End(process.incarnation, _end_cause(process)) if process.ended else None,
        frozen_by=process.frozen_by,
    )


def _end_cause(process: ProcessIncarnation) -> EndCause:
    """137 is the exit code of the watchdog. SIGTERM and SIGINT ask for an end, whoever has sent them."""
    if process.terminating_ms is not None or process.end_requested:
        return EndCause.REQUESTED
    code = process.exit_code or 0
    by_signal = code < 0 and -code not in (signal.SIGTERM, signal.SIGINT)
    return EndCause.KILLED if by_signal or code == 128 + signal.SIGKILL else EndCause.EXITED


def _phase(process: ProcessIncarnation) -> Phase:
    if process.ended:
        return Phase.ENDED
    if process.terminating_ms is not None:
        return Phase.TERMINATING
    return Phase.PENDING if process.pid is None else Phase.RUNNING


def past_ends(incarnations: Iterable[ProcessIncarnation]) -> frozenset[tuple[str, str]]:
    """Returns (identity, incarnation) of ended incarnations, even from before the pool's first look."""
    ended = {(process.identity, incarnation) for process in incarnations for incarnation in process.past}
    return frozenset(
        ended | {(process.identity, process.incarnation) for process in incarnations if process.ended}
    )
