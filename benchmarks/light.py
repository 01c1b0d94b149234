"""Many pods and members on one machine: the pods are mere objects on a real API server, and the members speak
the real protocols (group, logs, the leader's endpoint) but run nothing.

So the operator's measurements are realistic, and a member's cost is not. All members share the process and
its readers of the logs.
"""

import itertools
import json
import logging
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from cooperator.controller.names import SETTLED, WORKER_LABEL
from cooperator.group import DescribedMember, GroupConfig, Joined, Membership, Round
from cooperator.logs import Logs, LogsConfig, open_logs
from cooperator.model import INSTANCE, Epoch, TaskId, TaskState, TaskStatus
from cooperator.reconciliation import Answer, ReportingMember, apply_answer, next_report, told_term
from cooperator.reconciliation.messages import decode_answer, encode_report
from cooperator.wire import (
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    encode_metadata,
    sign,
)
from tests.kubernetes.api import Api, ApiError

log = logging.getLogger(__name__)

_PROTOCOLS: Final = (Protocol.SESSIONED, Protocol.COMPATIBLE)
_POST_AGAIN_S: Final = 1.0
_READ_AGAIN_S: Final = 0.02
_LOOK_S: Final = 0.2
_NODE_S: Final = 3.0
"""A node that is not heard of for a while counts as lost."""


class LightMember:
    """A member that takes up its assignments, reports them as running, and releases what is revoked.

    ``reconciles``: it offers reconciliation without rounds, too.
    """

    def __init__(self, config: GroupConfig, identity: str, logs: Logs, reconciles: bool = False) -> None:
        self.config = config
        self.identity = identity
        self.incarnation = config.client_id
        self.owned: dict[TaskId, Epoch] = {}
        self.since: dict[TaskId, float] = {}
        """When (s since the epoch) each task began to run here last."""
        self._logs = logs
        self._assignment: ExtendedAssignment | None = None
        self._applied: Epoch | None = None
        self._nonce = 0
        self._posts = ThreadPoolExecutor(1, f"post-{identity}")
        self._reconciles = reconciles
        self._side = ReportingMember(identity, self.incarnation)
        self._is_reconciled = threading.Event()
        self._lock = threading.Lock()
        self._rounds = 0
        self._is_over = False
        self._membership = Membership(config, self)

    def start(self) -> None:
        self._membership.start()
        if self._reconciles:
            threading.Thread(target=self._report_always, daemon=True).start()

    def stop(self) -> None:
        self._is_over = True
        self._membership.stop(leave=False)
        self._posts.shutdown(wait=False, cancel_futures=True)

    # --- what the membership tells ---

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        assignment = self._assignment
        allocation = None
        if assignment is not None:
            allocation = ExtendedAssignment(
                0, assignment.leader, assignment.leader_url, assignment.config_offset, tuple(self.owned)
            )
        offset = self._logs.config.snapshot().offset
        report = AgentReport(
            Role.WORKER,
            self.identity,
            self.incarnation,
            applied=self._applied,
            nonce=self._nonce,
            reconciles=self._reconciles,
        )
        metadata = Metadata("http://nowhere/", offset, allocation, report)
        offered = (Protocol.RECONCILED, *_PROTOCOLS) if self._reconciles else _PROTOCOLS
        with self._lock:
            # No answer is applied until the next assignment.
            self._rounds += 1
            self._is_reconciled.clear()
        return [(protocol.value, encode_metadata(metadata, protocol)) for protocol in offered]

    def ready_to_join(self) -> None: ...

    def joined(self, joined: Joined) -> None:
        assignment = decode_assignment(joined.assignment)
        if assignment.agent is None:
            return
        self._assignment, self._applied = assignment, assignment.agent.epoch
        if joined.protocol == Protocol.RECONCILED.value:
            with self._lock:
                side = told_term(self._side, assignment.agent.epoch.term)
                self._side = replace(side, sent_ms=None, member_epoch=0)
                self._is_reconciled.set()
            return
        for task in assignment.revoked:
            if self.owned.pop(task, None) is not None:
                self._say(task, TaskState.UNASSIGNED, assignment.agent.epoch)
        for task in assignment.assigned:
            self.owned[task] = assignment.agent.epoch
            self.since[task] = time.time()
            self._say(task, TaskState.RUNNING, assignment.agent.epoch)
            if task.is_instance:
                self._posts.submit(self._post, task.connector, assignment.leader_url)
        if assignment.revoked:
            self._nonce += 1
            self._membership.rejoin("let go")

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        refused: Future[Mapping[str, bytes]] = Future()
        refused.set_exception(RuntimeError("this member cannot lead"))
        return refused

    def _say(self, task: TaskId, state: TaskState, epoch: Epoch) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._logs.status.put(TaskStatus(task, state, self.identity, epoch=epoch, at_ms=now_ms))

    def _post(self, connector: str, leader_url: str) -> None:
        """Post the connector's tasks to the leader, like a real one's instance, until they are accepted."""
        while TaskId(connector, INSTANCE) in self.owned:
            config = self._logs.config.snapshot()
            found = config.connectors.get(connector)
            if found is None:
                # The record of the connector is on its way here.
                time.sleep(_READ_AGAIN_S)
                continue
            if config.session_key is not None:
                body = json.dumps(self.task_configs(found.config)).encode()
                headers = {"Content-Type": "application/json", **sign(config.session_key, body)}
                url = f"{leader_url.rstrip('/')}/connectors/{connector}/tasks"
                try:
                    request = urllib.request.Request(url, body, headers, method="POST")
                    with urllib.request.urlopen(request, timeout=20) as answer:
                        if answer.status == 204:
                            return
                except OSError:
                    pass
            time.sleep(_POST_AGAIN_S)

    def task_configs(self, config: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """The configurations of the tasks of a connector."""
        return [{"number": str(number)} for number in range(int(config.get("tasks.max", "1")))]

    # --- reports between rounds ---

    def _report_always(self) -> None:
        while not self._is_over:
            if self._is_reconciled.wait(1) and self._assignment is not None:
                try:
                    self._report(self._assignment)
                except (OSError, ValueError):
                    time.sleep(_POST_AGAIN_S)

    def _report(self, assignment: ExtendedAssignment) -> None:
        assert assignment.agent is not None
        key, now_ms = self._logs.config.snapshot().session_key, time.monotonic_ns() // 1_000_000
        with self._lock:
            rounds = self._rounds
            side, report = next_report(self._side, tuple(self.owned), now_ms, 0)
            if report is None or key is None:
                time.sleep(_LOOK_S)
                return
            self._side = side
        body = encode_report(report)
        headers = {"Content-Type": "application/json", **sign(key, body)}
        url = f"{assignment.leader_url.rstrip('/')}/report"
        request = urllib.request.Request(url, body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as heard:
            answer = decode_answer(heard.read())
        with self._lock:
            if self._rounds != rounds:
                return
            lease_ms = assignment.agent.lease_ms
            now_ms = time.monotonic_ns() // 1_000_000
            self._side, may_run = apply_answer(self._side, answer, report.sequence, now_ms, lease_ms)
            if may_run is not None and isinstance(answer, Answer):
                self._run_only(may_run, Epoch(report.term, answer.group_epoch), assignment.leader_url)

    def _run_only(self, tasks: frozenset[TaskId], epoch: Epoch, leader_url: str) -> None:
        for task in self.owned.keys() - tasks:
            del self.owned[task]
            self._say(task, TaskState.UNASSIGNED, epoch)
        for task in sorted(tasks - self.owned.keys()):
            self.owned[task] = epoch
            self.since[task] = time.time()
            self._say(task, TaskState.RUNNING, epoch)
            if task.is_instance:
                self._posts.submit(self._post, task.connector, leader_url)

    def round_void(self, generation: int) -> None: ...
    def dropped(self, reason: str) -> None: ...
    def fenced(self) -> None: ...
    def contact(self, sent_at: float) -> None: ...
    def coordinator_lost(self) -> None: ...
    def trouble(self, message: str) -> None: ...
    def refused(self, reason: str) -> None: ...
    def lead_taken(self, evicted: Sequence[str]) -> None: ...
    def lead_lost(self) -> None: ...

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        return False


@dataclass
class LightNode:
    """Binds the pods of ``namespaces``, reports them as running, and has a light member for each one whose
    Kafka is there. A deleted pod is gone at once, and so is its member."""

    api: Api
    name: str
    namespaces: Sequence[str]
    servers: str
    without_kafka: frozenset[str] = frozenset()
    members: dict[str, LightMember | None] = field(default_factory=dict)
    restarts: Counter[str] = field(default_factory=Counter)
    """The number of restarts of each member, by its identity."""
    _logs: dict[str, Logs] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.api.post("/api/v1/nodes", {"metadata": {"name": self.name}})
        self._report_node()
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda member: member.stop() if member else None, self.members.values()))
            list(pool.map(lambda logs: logs.close(), self._logs.values()))

    def running(self) -> int:
        """The number of tasks and instances that members report as running."""
        return sum(len(member.owned) for member in list(self.members.values()) if member)

    def named(self, identity: str) -> LightMember:
        """The member of the pod with this name."""
        return next(m for m in list(self.members.values()) if m is not None and m.identity == identity)

    def crash(self, namespace: str, identity: str) -> tuple[float, float]:
        """End a member without a leave, and report its end as that of a program that failed.

        Returns when it had ended and when the API server was told (s since the epoch).
        """
        member = self.named(identity)
        member.stop()
        member.owned.clear()
        ended = time.time()
        last = {
            "exitCode": 1,
            "reason": "Error",
            "startedAt": _now(),
            "finishedAt": _now(),
            "message": member.incarnation,
        }
        told = time.time()
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        self._report(namespace, identity, self.restarts[identity], waiting, last)
        return ended, told

    def restart(self, namespace: str, identity: str) -> None:
        """Start the next incarnation of a member that has crashed, in the same pod."""
        member = self.named(identity)
        self.restarts[identity] += 1
        self._report(namespace, identity, self.restarts[identity], _running())
        uid = member.incarnation.partition(".")[0]
        incarnation = f"{uid}.{time.time_ns() // 1_000_000}"
        config = replace(member.config, client_id=incarnation)
        following = LightMember(config, identity, self._logs[config.group_id])
        following.start()
        self.members[uid] = following

    def _report_node(self) -> None:
        self._reported_at = time.monotonic()
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        self.api.patch(f"/api/v1/nodes/{self.name}/status", {"status": {"conditions": [ready]}})

    def _run(self) -> None:
        while not self._ending.wait(_LOOK_S):
            try:
                if time.monotonic() - self._reported_at > _NODE_S:
                    self._report_node()
                for namespace in self.namespaces:
                    self._look(namespace)
            except (ApiError, OSError) as error:
                log.warning("node: %s", error)

    def _look(self, namespace: str) -> None:
        for pod in self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                self._remove(namespace, metadata)
            elif not pod["spec"].get("nodeName"):
                target = {
                    "metadata": {"name": metadata["name"]},
                    "target": {"kind": "Node", "name": self.name},
                }
                self.api.post(f"/api/v1/namespaces/{namespace}/pods/{metadata['name']}/binding", target)
                self._report(namespace, metadata["name"], 0, _running())
            if metadata["uid"] not in self.members:
                self.members[metadata["uid"]] = self._member(pod)

    def _member(self, pod: Mapping[str, Any]) -> LightMember | None:
        metadata, words = pod["metadata"], pod["spec"]["containers"][0]["args"]
        if metadata["labels"][WORKER_LABEL] in self.without_kafka:
            return None
        said = dict(itertools.pairwise(words))
        config = GroupConfig(
            self.servers,
            said["--group-id"],
            f"{metadata['uid']}.{time.time_ns() // 1_000_000}",
            Role.WORKER,
            session_timeout_ms=int(said["--session-timeout-ms"]),
            heartbeat_interval_ms=int(said["--heartbeat-interval-ms"]),
        )
        if config.group_id not in self._logs:
            self._logs[config.group_id] = open_logs(LogsConfig(self.servers, config.group_id))
        member = LightMember(config, metadata["name"], self._logs[config.group_id])
        member.start()
        return member

    def _remove(self, namespace: str, metadata: Mapping[str, Any]) -> None:
        member = self.members.get(metadata["uid"])
        if member is not None:
            member.stop()
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{metadata['name']}", options)

    def _report(
        self,
        namespace: str,
        name: str,
        restarts: int,
        state: Mapping[str, Any],
        last: Mapping[str, Any] | None = None,
    ) -> None:
        running = "running" in state
        pod = self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        container = {
            "name": "worker",
            "image": "none",
            "imageID": "none",
            "ready": running,
            "started": running,
            "restartCount": restarts,
            "state": state,
            "lastState": {"terminated": last} if last else {},
        }
        gates = [c for c in pod.get("status", {}).get("conditions") or () if c["type"] == SETTLED]
        status = {"phase": "Running", "containerStatuses": [container], "conditions": gates}
        self.api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})


def _running() -> Mapping[str, Any]:
    return {"running": {"startedAt": _now()}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
