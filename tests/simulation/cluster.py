"""A Kubernetes of pods and nodes: the reality, the API's view of it, and the kubelets' work.

Theory of operation. The API server holds objects (``PodObject``, ``NodeObject``) and notifies watchers of
every change. A kubelet that reaches the API starts what is bound to its node, restarts ended containers, ends
what is deleted, and reports. A kubelet that does not reach it still restarts containers, unseen. An object
can be deleted by force: then the API forgets it at once, and its containers run until their kubelet learns of
it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cooperator.model import PodIncarnation
from cooperator.pool import MarkReason
from tests.simulation.network import API

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation
    from tests.simulation.worker import WorkerProcess

KUBELET_MS = 60
"""The upper limit of a kubelet's reaction time, and of the interval between looks of one that is cut off."""
BACKOFF_MS = 400
BACKOFF_MAX_MS = 6_000
FORCED_KILL_MS = 2_000
MONITOR_MS = 500
RELIST_MS = 2_000
"""Interval at which a kubelet checks all of its pods without an event."""
UNREACHABLE_MS = 3_000
EVICT_MS = 18_000


@dataclass(frozen=True, slots=True)
class PodObject:
    """A pod as the API has it. ``starts`` are the containers started so far, as reported; 0 for none.
    ``terminated`` means that the last of them has ended; the first ``ended`` have, the last of these at
    ``finished_ms``. Times are the API server's (ms), those of containers their node's."""

    identity: str
    uid: str
    revision: str
    node: str
    created_ms: int
    mark: MarkReason | None = None
    deleted_ms: int | None = None
    starts: int = 0
    started_ms: int = 0
    terminated: bool = False
    ended: int = 0
    finished_ms: int = 0

    @property
    def incarnation(self) -> str:
        return f"{self.uid}.{max(self.starts, 1)}"


def named(uid: str, start: int) -> str:
    """A member's name of a start of its container in the pod ``uid``."""
    return str(PodIncarnation(uid, f"{start:016x}"))


@dataclass(frozen=True, slots=True)
class NodeObject:
    name: str
    ready: bool = True
    cordoned: bool = False
    leaving: bool = False
    out_of_service: bool = False


def told(identity: str, incarnation: str) -> str:
    """A short name of a member's process, for people."""
    known = PodIncarnation.parse(incarnation)
    return (
        f"{identity}-{incarnation}" if known is None else f"{identity}-{known.pod_uid}.{int(known.start, 16)}"
    )


Watched = PodObject | NodeObject | None
Watcher = Callable[[str, Watched], None]
"""(key, the object, or None when it is gone)"""


@dataclass(slots=True)
class Container:
    """The containers of a pod that actually run on a node. ``ordered`` means that the kubelet was told to end
    it.
    """

    pod: PodObject
    starts: int = 0
    process: "WorkerProcess | None" = None
    ordered: bool = False
    crashes: int = 0
    started_ms: int = 0
    ended: int = 0
    finished_ms: int = 0


@dataclass(slots=True)
class Machine:
    """A node's reality: whether it is ``powered``, and its containers by pod uid."""

    name: str
    powered: bool = True
    containers: dict[str, Container] = field(default_factory=dict)


class Cluster:
    """``grace_ms`` is how long a pod may take to end before its kubelet kills it."""

    def __init__(self, simulation: "Simulation", nodes: list[str], grace_ms: int) -> None:
        self._simulation = simulation
        self._grace_ms = grace_ms
        self._uids = 0
        self.pods: dict[str, PodObject] = {}
        self.nodes = {name: NodeObject(name) for name in nodes}
        self.machines = {name: Machine(name) for name in nodes}
        self._watchers: list[Watcher] = []
        self._silent_since_ms: dict[str, int] = {}
        self.restarts_in_place = True

    # --- the API -------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def create(self, identity: str, revision: str) -> None:
        if identity in self.pods:
            return
        self._uids += 1
        node = self._schedule()
        pod = PodObject(identity, f"u{self._uids}", revision, node, self._simulation.now_ms)
        self._simulation.tell(f"pod {identity} ({pod.uid}) is created on {node or 'no node'}")
        self._put(pod)
        if not node:
            self._simulation.scheduler.after(1_000, lambda: self._bind(pod.uid))

    def mark(self, identity: str, incarnation: str, mark: MarkReason | None) -> None:
        pod = self._named(identity, incarnation)
        if pod is not None and pod.mark != mark:
            self._put(replace(pod, mark=mark))

    def delete(self, identity: str, incarnation: str) -> None:
        """Delete with grace: its kubelet ends it, and then it is gone."""
        pod = self._named(identity, incarnation)
        if pod is None or pod.deleted_ms is not None:
            return
        self._simulation.tell(f"pod {identity} ({pod.uid}) is deleted")
        if not pod.node:
            self._forget(pod)
            return
        self._put(replace(pod, deleted_ms=self._simulation.now_ms))

    def delete_by_force(self, identity: str) -> None:
        """Remove the object at once, whatever runs."""
        pod = self.pods.get(identity)
        if pod is not None:
            self._simulation.tell(f"pod {identity} ({pod.uid}) is deleted by force")
            self._forget(pod)

    def change_node(self, name: str, **changes: bool) -> None:
        node = self.nodes.get(name)
        if node is None:
            return
        changed = replace(node, **changes)
        if changed != node:
            self.nodes[name] = changed
            self._tell(f"node/{name}", changed)

    def delete_node(self, name: str) -> None:
        """Delete only the object; its pods' objects go with it."""
        if self.nodes.pop(name, None) is not None:
            self._tell(f"node/{name}", None)
            for pod in [pod for pod in self.pods.values() if pod.node == name]:
                self._forget(pod)

    def register(self, name: str) -> None:
        """A kubelet creates the object of its node."""
        if name not in self.nodes:
            self.nodes[name] = NodeObject(name, ready=self.connected(name))
            self._tell(f"node/{name}", self.nodes[name])
            self._call_kubelet(name)

    def collect(self, node: str) -> None:
        """Forget the pods of a node that is out of service."""
        for pod in [pod for pod in self.pods.values() if pod.node == node]:
            self._forget(pod)

    def _named(self, identity: str, incarnation: str) -> PodObject | None:
        pod = self.pods.get(identity)
        return pod if pod is not None and incarnation.startswith(f"{pod.uid}.") else None

    def _schedule(self) -> str:
        free = [n.name for n in self.nodes.values() if n.ready and not n.cordoned and not n.leaving]
        if not free:
            return ""
        fewest = min(sum(p.node == name for p in self.pods.values()) for name in free)
        return self._simulation.random.choice(
            [name for name in free if sum(p.node == name for p in self.pods.values()) == fewest]
        )

    def _bind(self, uid: str) -> None:
        pod = self._by_uid(uid)
        if pod is None or pod.node:
            return
        node = self._schedule()
        if node:
            self._put(replace(pod, node=node))
        else:
            self._simulation.scheduler.after(1_000, lambda: self._bind(uid))

    def _put(self, pod: PodObject) -> None:
        self.pods[pod.identity] = pod
        self._tell(f"pod/{pod.identity}", pod)
        self._call_kubelet(pod.node)

    def _forget(self, pod: PodObject) -> None:
        del self.pods[pod.identity]
        self._tell(f"pod/{pod.identity}", None)
        self._call_kubelet(pod.node)

    def _tell(self, key: str, value: Watched) -> None:
        for watcher in list(self._watchers):
            watcher(key, value)

    def _by_uid(self, uid: str) -> PodObject | None:
        return next((pod for pod in self.pods.values() if pod.uid == uid), None)

    # --- kubelets ------------------------------------------------------------------------------------

    def connected(self, node: str) -> bool:
        machine = self.machines.get(node)
        return machine is not None and machine.powered and self._simulation.network.reaches(node, API)

    def _call_kubelet(self, node: str) -> None:
        if node:
            self._simulation.scheduler.after(
                self._simulation.random.randint(1, KUBELET_MS), lambda: self.sync(node)
            )

    def sync(self, node: str) -> None:
        """A kubelet's work on news from the API: bring its machine to the desired state, and report."""
        if not self.connected(node) or node not in self.nodes:
            return
        machine = self.machines[node]
        wanted = {pod.uid: pod for pod in self.pods.values() if pod.node == node}
        for uid, container in list(machine.containers.items()):
            if uid not in wanted:
                self._end(machine, container, FORCED_KILL_MS)
        for uid, pod in wanted.items():
            container = machine.containers.get(uid)
            if pod.deleted_ms is not None:
                if container is None:
                    self._forget(pod)
                else:
                    container.pod = pod
                    self._end(machine, container, self._grace_ms)
            elif container is None:
                machine.containers[uid] = Container(pod)
                self._start(machine, machine.containers[uid], self._simulation.draw_pod_start_ms())
        for uid in list(wanted):
            if uid in machine.containers:
                self._report(machine, machine.containers[uid])

    def _start(self, machine: Machine, container: Container, delay_ms: int) -> None:
        self._simulation.scheduler.after(delay_ms, lambda: self._started(machine, container))

    def _started(self, machine: Machine, container: Container) -> None:
        uid = container.pod.uid
        alive = machine.powered and machine.containers.get(uid) is container
        if not alive or container.ordered or container.process is not None:
            return
        container.starts += 1
        container.started_ms = self._simulation.now_ms + self._simulation.clocks[machine.name]
        container.process = self._simulation.start_member(
            container.pod.identity,
            named(uid, container.starts),
            machine.name,
            lambda code: self._exited(machine, container, code),
        )
        self._report(machine, container)

    def _exited(self, machine: Machine, container: Container, code: int) -> None:
        container.process = None
        container.ended = container.starts
        container.finished_ms = self._simulation.now_ms + self._simulation.clocks[machine.name]
        if not machine.powered or machine.containers.get(container.pod.uid) is not container:
            return
        self._simulation.scheduler.after(
            self._simulation.draw_notice_ms(), lambda: self._noticed(machine, container, container.starts)
        )
        if container.ordered or not self.restarts_in_place:
            return
        container.crashes += 1
        delay_ms = (
            0 if container.crashes < 2 else min(BACKOFF_MS << min(container.crashes, 8), BACKOFF_MAX_MS)
        )
        self._start(machine, container, delay_ms + self._simulation.random.randint(1, KUBELET_MS))

    def _noticed(self, machine: Machine, container: Container, starts: int) -> None:
        if container.ordered and container.process is None:
            machine.containers.pop(container.pod.uid, None)
        if self.connected(machine.name):
            self._report(machine, container, ended=starts)
            self.sync(machine.name)

    def _end(self, machine: Machine, container: Container, grace_ms: int) -> None:
        if container.ordered:
            return
        container.ordered = True
        process = container.process
        if process is None:
            machine.containers.pop(container.pod.uid, None)
            self._call_kubelet(machine.name)
            return
        process.told_to_end()
        self._simulation.scheduler.after(grace_ms, process.kill)

    def _report(self, machine: Machine, container: Container, ended: int | None = None) -> None:
        pod = self._by_uid(container.pod.uid)
        if (
            pod is None
            or not self.connected(machine.name)
            or pod.node != machine.name
            or not container.starts
        ):
            return
        terminated = container.process is None and (ended is not None or container.starts == pod.starts)
        reported = replace(
            pod,
            starts=container.starts,
            started_ms=container.started_ms,
            terminated=terminated,
            ended=container.ended,
            finished_ms=container.finished_ms,
        )
        if reported != pod:
            self._put(reported)

    # --- machines ------------------------------------------------------------------------------------

    def lose_power(self, node: str) -> None:
        machine = self.machines[node]
        machine.powered = False
        for container in list(machine.containers.values()):
            if container.process is not None:
                container.process.kill()

    def regain_power(self, node: str) -> None:
        """A boot: nothing of the earlier processes runs; the kubelet starts from the API's objects.

        A machine that runs goes on: of two faults that took its power, the first to heal has booted it.
        """
        machine = self.machines[node]
        if machine.powered:
            return
        machine.powered = True
        for container in machine.containers.values():
            container.process = None
            container.ordered = False
        before = {uid: c.starts for uid, c in machine.containers.items()}
        booted_ms = self._simulation.now_ms + self._simulation.clocks[machine.name]
        machine.containers.clear()
        for pod in [pod for pod in self.pods.values() if pod.node == node and pod.deleted_ms is None]:
            starts = before.get(pod.uid, pod.starts)
            container = Container(pod, starts=starts, ended=starts, finished_ms=booted_ms)
            machine.containers[pod.uid] = container
            self._start(machine, container, self._simulation.draw_pod_start_ms())
        self._call_kubelet(node)

    # --- the node controller -------------------------------------------------------------------------

    def monitor(self) -> None:
        """Silent nodes become unreachable, and finally their pods are deleted."""
        now_ms = self._simulation.now_ms
        for name in list(self.nodes):
            if self.connected(name):
                self._silent_since_ms.pop(name, None)
                self.change_node(name, ready=True)
                if now_ms % RELIST_MS < MONITOR_MS:
                    self._call_kubelet(name)
                continue
            silent_ms = now_ms - self._silent_since_ms.setdefault(name, now_ms)
            if silent_ms >= UNREACHABLE_MS:
                self.change_node(name, ready=False)
            if silent_ms >= EVICT_MS:
                for pod in [p for p in self.pods.values() if p.node == name and p.deleted_ms is None]:
                    self._put(replace(pod, deleted_ms=now_ms))
        self._simulation.scheduler.after(MONITOR_MS, self.monitor)
