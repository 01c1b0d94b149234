"""An operator: the project's leader service and pool decisions, and the little that a controller adds.

It works while it holds the Lease: it looks at pods and nodes, gives the leader the facts, and carries out the
pool's actions on the API. Losing the Lease, or being fenced, ends the process, and its Deployment starts
another one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cooperator.controller import observe
from cooperator.controller.incarnations import in_pool_names, proven_ends
from cooperator.host.group import candidates, group_seen, planner_facts
from cooperator.leader.history import History
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.observability.projection import project
from cooperator.leader.process import SteadyClock
from cooperator.leader.service import LeaderService, ServiceSettings
from cooperator.logs import LogUnavailable, TopicMisconfigured
from cooperator.model import TaskId, TaskStatus
from cooperator.planner.view import Facts
from cooperator.pool import (
    Action,
    Create,
    Delete,
    Drain,
    GroupSeen,
    Kill,
    Node,
    PoolDesired,
    PoolMemory,
    PoolObserved,
    Remove,
    UnDrain,
    decide,
)
from cooperator.wire import Owner
from tests.simulation.kubelet import body_of
from tests.simulation.network import API
from tests.simulation.process import Process
from tests.simulation.watch import Informer

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

TICK_MS = 500
LEASE_MS = 3_000
RENEW_DEADLINE_MS = 2_200
RETRY_OPEN_MS = 1_000
CHANGE_MS = 40
NOTICE_MS = 10_000
"""The shortest notice of a machine that will go."""


class OperatorProcess(Process):
    """``place`` is where it runs; the Deployment starts the next one there."""

    def __init__(self, simulation: "Simulation", number: int, place: str) -> None:
        super().__init__(simulation, f"operator-{place}-{number}", place)
        self._held_until_ms: int | None = None
        self._service: LeaderService | None = None
        self._pool = PoolMemory()
        self._facts: Facts | None = None
        self._told_spec = -1
        self._stirred = False
        self._bodies: dict[str, observe.Body] = {}
        """By uid: every pod as it was seen last."""
        self.informer: Informer
        self.enter(self._begin)

    @property
    def lead(self) -> LeaderThread | None:
        return self._service._lead if self._service is not None else None

    @property
    def holds_lease(self) -> bool:
        return self._service is not None

    @property
    def suspects(self) -> Mapping[TaskId, int]:
        """Tasks that may have ended members, with their deaths."""
        return self._pool.suspects

    def _begin(self) -> None:
        self._clock = SteadyClock()
        self.informer = Informer(self, self._stir)
        self._tick()

    def kill(self) -> None:
        if not self.alive:
            return
        super().kill()
        self.informer.close()
        self.simulation.operator_ended(self)

    def give_up(self, why: str) -> None:
        """End in order: give the Lease up, but keep the place in the group."""
        self.simulation.tell(f"{self.name} ends: {why}")
        if self._service is not None:
            self._service.stop(leave=False, timeout_s=1)
            lock = self.simulation.lock
            if lock.holder == self.name and self.simulation.network.reaches(self.place, API):
                lock.holder = ""
        self.after(100, self.kill)

    # --- the Lease -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.after(TICK_MS, self._tick)
        now_ms = self.simulation.now_ms
        reached = self.simulation.network.reaches(self.place, API) and not self.simulation.network.loses()
        if reached and self.simulation.lock.acquire(self.name, now_ms):
            self._held_until_ms = now_ms + RENEW_DEADLINE_MS
        if self._held_until_ms is None:
            return
        if now_ms > self._held_until_ms:
            self.give_up("it could not renew its Lease")
            self._held_until_ms = None
            return
        if self._service is None:
            self._lead()
        elif self._is_fenced():
            self.give_up("another operator leads under the same name")
            self._held_until_ms = None
            return
        self._step()

    def _is_fenced(self) -> bool:
        assert self._service is not None
        leading = self._service.conditions.get("Leading")
        return leading is not None and leading.reason == "Fenced"

    def _lead(self) -> None:
        times = self.simulation.times
        self.simulation.tell(f"{self.name} holds the Lease")
        self._service = LeaderService(
            ServiceSettings(
                bootstrap_servers="simulated:9092",
                group_id=self.simulation.group_id,
                owner=Owner("simulated", "default", "lake"),
                group_policy=self.simulation.group_policy,
                policy=self.simulation.policy,
                host=self.name,
                session_timeout_ms=times.leader_session_ms,
                heartbeat_interval_ms=times.heartbeat_ms,
                rebalance_timeout_ms=times.rebalance_ms,
                stock_pool="lake",
            )
        )
        self._service._endpoint.start()
        self._open(self._service)

    def _open(self, service: LeaderService) -> None:
        """Does the work of the service's own thread."""
        if service._stopping.is_set():
            return
        try:
            if service._try_open():
                return
        except (LogUnavailable, TopicMisconfigured):
            pass
        self.after(RETRY_OPEN_MS, lambda: self._open(service))

    # --- the pool ------------------------------------------------------------------------------------

    def _stir(self) -> None:
        """Something was seen: look at everything soon."""
        if not self._stirred:
            self._stirred = True
            self.after(CHANGE_MS, self._look)

    def _look(self) -> None:
        self._stirred = False
        if self._held_until_ms is not None and self._service is not None:
            self._step()

    def _step(self) -> None:
        service, simulation = self._service, self.simulation
        if service is None or not self.informer.synced:
            return
        if service.is_silent and not simulation.network.loses():
            # As the controller does while its leader has no broker.
            self.informer.list()
        spec = simulation.spec
        if spec.revision != self._told_spec and simulation.network.reaches(self.place, API):
            self._told_spec = spec.revision
            service.set_policy(simulation.policy)
            service.set_desired(spec.desired())
        desired = PoolDesired("lake", spec.replicas, spec.template, simulation.pool_policy)
        in_place = simulation.cluster.restarts_in_place
        living = {name: body_of(pod, in_place) for name, pod in self.informer.visible()}
        self._bodies |= {body["metadata"]["uid"]: body for body in living.values()}
        leader = self._projected()
        nodes = {
            node.name: Node(node.ready, node.cordoned, node.leaving, node.out_of_service, notice_ms=NOTICE_MS)
            for node in self.informer.nodes.values()
        }
        pods = tuple(observe.pod(body) for body in living.values())
        observed = PoolObserved(pods, _group(leader, living), nodes)
        decision = decide(desired, observed, self._pool, self._clock())
        self._pool = decision.memory
        incarnations = [(identity, name) for identity, name in (leader or {}).get("incarnations", ())]
        ended = proven_ends(incarnations, self._bodies.values(), decision.facts.ended)
        facts = planner_facts(decision.facts, ended)
        if simulation.shape.fleet.shares_client_id:
            facts = Facts()
        if facts != self._facts:
            self._facts = facts
            service.set_facts(facts)
        service.set_candidates(candidates(pods, facts, self.informer.asked_at_ms))
        for action in decision.actions:
            self._carry_out(action)

    def statuses(self) -> Mapping[TaskId, TaskStatus]:
        """What its own leader has read of the tasks."""
        service = self._service
        return {} if service is None or service._logs is None else service._logs.status.snapshot()

    def _projected(self) -> dict[str, Any] | None:
        """Return the projection of its own leader; None without one."""
        service = self._service
        lead = self.lead
        if service is None or lead is None or service._logs is None:
            return None
        # The history is for people, and long.
        state = replace(lead.machine.state, history=History())
        return self._in_names_of_pods(project(state, self.statuses()))

    def _in_names_of_pods(self, projected: dict[str, Any]) -> dict[str, Any]:
        """Translate as a person would: workers that share a client id are known by their addresses."""
        if not self.simulation.shape.fleet.shares_client_id or "members" not in projected:
            return projected
        pods = {process.member_id: process.identity for process in self.simulation.members}
        names = {
            member["identity"]: pods.get(member["member_id"], member["identity"])
            for member in projected["members"]
        }
        members = [{**each, "identity": names[each["identity"]]} for each in projected["members"]]
        tasks = [{**task, "member": names.get(task["member"])} for task in projected["tasks"]]
        return {**projected, "members": members, "tasks": tasks}

    def _carry_out(self, action: Action) -> None:
        cluster = self.simulation.cluster
        self.simulation.tell(f"{self.name}: {action}")

        def arrive() -> None:
            match action:
                case Create(identity, revision):
                    cluster.create(identity, revision)
                case Drain(identity, incarnation, reason):
                    cluster.mark(identity, incarnation, reason)
                case UnDrain(identity, incarnation):
                    cluster.mark(identity, incarnation, None)
                case Delete(identity, incarnation) | Remove(identity, incarnation):
                    cluster.delete(identity, incarnation)
                case Kill():
                    # The platform takes care of it: ``kill_after_ms`` is None.
                    raise AssertionError(f"nobody asked for {action}")

        self.simulation.network.send(self, API, arrive)


def _group(leader: dict[str, Any] | None, pods: Mapping[str, observe.Body]) -> GroupSeen | None:
    return None if leader is None else group_seen(in_pool_names(leader, pods))
