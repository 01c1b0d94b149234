"""A model of pods, nodes and a group, as simple as possible, that can still lie, lag and lose messages.

It knows which processes really run, which the pool under test can only infer.
"""

from dataclasses import dataclass, field, replace

from cooperator.pool import (
    Action,
    Create,
    Decision,
    Delete,
    Drain,
    End,
    EndCause,
    GroupSeen,
    Kill,
    MemberSeen,
    Node,
    Phase,
    Pod,
    PoolDesired,
    PoolMemory,
    PoolObserved,
    Remove,
    UnDrain,
    decide,
)

HOLD_MS = 300_000
LEASE_MS = 45_000
NODES = ("north", "south", "west")


@dataclass
class UnreliablePods:
    """Objects (``pods``), processes (``running``: identity and incarnation, by node) and the group's
    members.

    ``clock_ms``: the error of the host's clock. ``marked_ms``: when a pod, by uid, was really marked; the
    mark stays when its container restarts. ``terminating_ms``: when an incarnation was asked to end.
    """

    desired: PoolDesired
    now_ms: int = 1_000_000_000
    clock_ms: int = 0
    marked_ms: dict[str, int] = field(default_factory=dict)
    terminating_ms: dict[str, int] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    running: dict[tuple[str, str], str] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=lambda: dict.fromkeys(NODES, Node()))
    members: dict[str, MemberSeen] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    leading: bool = True
    self_restarting: bool = False
    memory: PoolMemory = field(default_factory=PoolMemory)
    decision: Decision | None = None
    todo: list[Action] = field(default_factory=list)
    births: int = 0
    log: list[Action] = field(default_factory=list)

    def observed(self) -> PoolObserved:
        group = GroupSeen(dict(self.members), frozenset(self.held), self.moving()) if self.leading else None
        return PoolObserved(tuple(self.pods.values()), group, dict(self.nodes))

    def moving(self) -> bool:
        return any(self.members[i].busy for i in self._leaving()) and bool(self._receivers())

    # The host.

    @property
    def host_ms(self) -> int:
        return self.now_ms + self.clock_ms

    def decide(self) -> Decision:
        self.decision = decide(self.desired, self.observed(), self.memory, self.host_ms)
        self.memory = self.decision.memory
        self.todo += self.decision.actions
        self.log += self.decision.actions
        return self.decision

    def act(self) -> None:
        """Carries out all actions. Outdated ones fail, as they do in reality."""
        for action in self.todo:
            self._carry_out(action)
        self.todo = []

    def _carry_out(self, action: Action) -> None:
        pod = self.pods.get(action.identity)
        if isinstance(action, Create):
            if pod is None:
                self._create(action)
            return
        if pod is None or pod.incarnation != action.incarnation:
            return
        match action:
            case Drain(reason=reason):
                self.marked_ms[pod.uid] = self.now_ms
                self._put(pod, mark=reason)
            case UnDrain():
                self._put(pod, mark=None)
            case Delete() if pod.phase is Phase.ENDED:
                self._put(pod, self_restarting=False)
            case Delete():
                self.terminating_ms.setdefault(pod.incarnation, self.now_ms)
                self._put(pod, phase=Phase.TERMINATING)
            case Kill():
                self._end(pod)
            case Remove() if pod.phase is Phase.ENDED:
                del self.pods[pod.identity]

    def _create(self, action: Create) -> None:
        self.births += 1
        incarnation = f"incarnation-{self.births}"
        ready = [name for name, node in self.nodes.items() if node.ready and not node.cordoned] or list(NODES)
        node = ready[self.births % len(ready)]
        self.pods[action.identity] = Pod(
            action.identity,
            uid=incarnation,
            incarnation=incarnation,
            phase=Phase.PENDING,
            revision=action.revision,
            node=node,
            self_restarting=self.self_restarting,
        )

    # Pods and their processes.

    def run(self, identity: str) -> None:
        pod = self.pods[identity]
        if self.nodes[pod.node].out_of_service:
            return
        self.running[identity, pod.incarnation] = pod.node
        self._put(pod, phase=Phase.RUNNING)

    def join(self, identity: str) -> None:
        """The process joins the group and gets its assignment: tasks held for it, or tasks that others
        release."""
        pod = self.pods[identity]
        self.held.pop(identity, None)
        self.members[identity] = MemberSeen(pod.incarnation, busy=True)

    def crash(self, identity: str, by_signal: bool = True, frozen_by: str = "") -> None:
        pod = self.pods[identity]
        self.running.pop((identity, pod.incarnation), None)
        end = End(pod.incarnation, EndCause.KILLED if by_signal else EndCause.EXITED)
        self._put(pod, phase=Phase.ENDED, end=end, frozen_by=frozen_by)

    def end_on_request(self, identity: str) -> None:
        """A person ends it at once, and the host sees that only when it is over."""
        pod = self.pods[identity]
        self.running.pop((identity, pod.incarnation), None)
        self._put(pod, phase=Phase.ENDED, end=End(pod.incarnation, EndCause.REQUESTED))

    def _end(self, pod: Pod) -> None:
        self.running.pop((pod.identity, pod.incarnation), None)
        self._put(pod, phase=Phase.ENDED, self_restarting=False)

    def restart(self, identity: str) -> None:
        """The container restarts inside its pod."""
        pod = self.pods[identity]
        if not pod.self_restarting or self.nodes[pod.node].out_of_service:
            return
        self.births += 1
        self.running.pop((identity, pod.incarnation), None)
        incarnation = f"incarnation-{self.births}"
        self.running[identity, incarnation] = pod.node
        self._put(pod, incarnation=incarnation, phase=Phase.RUNNING, restarts=pod.restarts + 1)

    def finish(self, identity: str) -> None:
        """A process that was asked to end leaves the group and ends."""
        pod = self.pods[identity]
        member = self.members.get(identity)
        if member is not None and member.incarnation == pod.incarnation:
            self._leave(identity)
        self._end(pod)

    def force_delete(self, identity: str) -> None:
        """The object is deleted; the process may live on."""
        del self.pods[identity]

    # The group.

    def obey_facts(self) -> None:
        """The leader acts on the facts that it has."""
        if not self.leading or self.decision is None:
            return
        facts = self.decision.facts
        for identity, member in list(self.members.items()):
            if (identity, member.incarnation) in facts.ended:
                self._leave(identity)
        for identity in list(self.held):
            since_ms = self.held[identity]
            proven = identity in facts.gone and self.now_ms - since_ms >= LEASE_MS
            if proven or self.now_ms - since_ms >= HOLD_MS:
                del self.held[identity]
        if self._receivers():
            for identity in self._leaving():
                self.members[identity] = replace(self.members[identity], busy=False)

    def drop(self, identity: str) -> None:
        """The member's session has timed out."""
        self._leave(identity)

    def _leave(self, identity: str) -> None:
        member = self.members.pop(identity)
        if member.busy:
            self.held.setdefault(identity, self.now_ms)

    def _leaving(self) -> list[str]:
        if self.decision is None:
            return []
        facts = self.decision.facts
        return sorted(self.members.keys() & (facts.leaving | facts.gone))

    def _receivers(self) -> list[str]:
        return sorted(self.members.keys() - set(self._leaving()))

    def _put(self, pod: Pod, **changes: object) -> None:
        self.pods[pod.identity] = replace(pod, **changes)  # type: ignore[arg-type]

    # Time.

    def progress(self) -> None:
        """Everything due happens, without faults."""
        self.obey_facts()
        for identity, pod in list(self.pods.items()):
            reachable = pod.node in self.nodes and self.nodes[pod.node].ready
            if pod.phase is Phase.PENDING and reachable:
                self.run(identity)
            elif pod.phase is Phase.RUNNING and reachable and identity not in self.members:
                self.join(identity)
            elif pod.phase is Phase.TERMINATING and reachable:
                self.finish(identity)
            elif pod.phase is Phase.ENDED and reachable:
                self.restart(identity)
        for key in [key for key, node in self.running.items() if node not in self.nodes]:
            del self.running[key]
        alive = {(pod.identity, pod.incarnation) for pod in self.pods.values()}
        for identity, member in list(self.members.items()):
            if (identity, member.incarnation) not in alive:
                self.drop(identity)

    def wait(self) -> None:
        """Time passes until the pool wants to decide again, but not much of it."""
        later_ms = self.now_ms + 1000
        decision = self.decision
        if decision is not None and not decision.actions and decision.next_ms is not None:
            later_ms = max(later_ms, min(decision.next_ms - self.clock_ms, self.now_ms + 60_000))
        self.now_ms = later_ms

    def settle(self, rounds: int = 100) -> list[Action]:
        """Runs until the pool is at rest; returns the actions on the way. Fails if it never rests."""
        before = len(self.log)
        for _ in range(rounds):
            if self.at_rest():
                return self.log[before:]
            self.step()
            self.wait()
        raise AssertionError(f"not at rest after {rounds} rounds: {self.log[before:]}")

    def step(self) -> tuple[Action, ...]:
        """Carries out one decision and everything due; returns the actions."""
        decision = self.decide()
        self.act()
        self.progress()
        return decision.actions

    def at_rest(self) -> bool:
        """As many pods as desired, all working with the newest template, and nothing to do."""
        # Pods on a dead node stay: nobody force-deletes them.
        pods = [pod for pod in self.pods.values() if self.nodes[pod.node].ready]
        return (
            len(pods) == self.desired.replicas
            and all(self.works(pod) and pod.revision == self.desired.revision for pod in pods)
            and not self.held
            and not self.moving()
            and not decide(self.desired, self.observed(), self.memory, self.host_ms).actions
        )

    def works(self, pod: Pod) -> bool:
        member = self.members.get(pod.identity)
        joined = member is not None and member.incarnation == pod.incarnation
        return joined and pod.phase is Phase.RUNNING and pod.mark is None
