"""Any history of changes and faults: invariants, and convergence once the faults stop."""

from dataclasses import fields, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cooperator.pool import (
    Create,
    Decision,
    Delete,
    Drain,
    GroupSeen,
    Kill,
    MarkReason,
    MemberSeen,
    Node,
    Phase,
    Pod,
    PoolDesired,
    PoolMemory,
    PoolObserved,
    PoolPolicy,
    Remove,
    RollStrategy,
    UnDrain,
    decide,
)
from tests.harness.examples import examples
from tests.pool.unreliable_pods import NODES, UnreliablePods

MAX_REPLICAS = 4
HOUR_MS = 3_600_000


def works(pod: Pod, seen: PoolObserved) -> bool:
    """Whether this incarnation is a member and was not asked to end."""
    member = seen.group.members.get(pod.identity) if seen.group is not None else None
    running = pod.phase in (Phase.PENDING, Phase.RUNNING)
    return running and member is not None and member.incarnation == pod.incarnation


class Pools(RuleBasedStateMachine):
    pods: UnreliablePods
    earlier: PoolObserved
    surplus_since_ms: int | None = None
    expected: frozenset[str] = frozenset()

    @initialize(
        strategy=st.sampled_from(RollStrategy),
        kill_after_ms=st.none() | st.just(90_000),
        replicas=st.integers(0, MAX_REPLICAS),
        self_restarting=st.booleans(),
    )
    def begin(
        self, strategy: RollStrategy, kill_after_ms: int | None, replicas: int, self_restarting: bool
    ) -> None:
        policy = PoolPolicy(strategy=strategy, kill_after_ms=kill_after_ms)
        self.pods = UnreliablePods(
            PoolDesired("lake", replicas, "r1", policy), self_restarting=self_restarting
        )
        self.earlier = self.pods.observed()

    # Changes.

    @rule(replicas=st.integers(0, MAX_REPLICAS))
    def scale(self, replicas: int) -> None:
        self.pods.desired = replace(self.pods.desired, replicas=replicas)

    @rule(revision=st.sampled_from(["r1", "r2", "r3"]))
    def change_template(self, revision: str) -> None:
        self.pods.desired = replace(self.pods.desired, revision=revision)

    # The host.

    @rule(act=st.booleans())
    def decide(self, act: bool) -> None:
        seen = self.pods.observed()
        decision = self.pods.decide()
        self.check(decision, seen)
        # A decision on the same observation asks for nothing more.
        assert decide(self.pods.desired, seen, decision.memory, self.pods.host_ms).actions == ()
        if act:
            self.pods.act()

    @rule()
    def look_away(self) -> None:
        self.earlier = self.pods.observed()

    @rule()
    def decide_by_a_late_picture(self) -> None:
        pods = self.pods
        pods.decision = decide(pods.desired, self.earlier, pods.memory, pods.host_ms)
        pods.memory = pods.decision.memory
        pods.todo += pods.decision.actions
        self.check(pods.decision, self.earlier)

    @rule()
    def act(self) -> None:
        self.pods.act()

    @rule()
    def lose_orders(self) -> None:
        self.pods.todo = []

    @rule(clock_ms=st.sampled_from([0, -3 * HOUR_MS, 3 * HOUR_MS]))
    def restart_without_memory(self, clock_ms: int) -> None:
        """On a machine whose clock may be wrong."""
        self.pods.memory, self.pods.todo, self.pods.clock_ms = PoolMemory(), [], clock_ms
        self.expected = frozenset()

    @rule(leading=st.booleans())
    def lead(self, leading: bool) -> None:
        self.pods.leading = leading

    # Progress, one step at a time.

    @rule(seconds=st.sampled_from([1, 10, 100, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.pods.now_ms += seconds * 1000

    @rule()
    def leader_obeys(self) -> None:
        self.pods.obey_facts()

    @rule(data=st.data())
    def process_starts(self, data: st.DataObject) -> None:
        self.with_pod(data, self.pods.run, Phase.PENDING)

    @rule(data=st.data())
    def process_joins(self, data: st.DataObject) -> None:
        self.with_pod(data, self.pods.join, Phase.RUNNING)

    @rule(data=st.data())
    def process_finishes(self, data: st.DataObject) -> None:
        self.with_pod(data, self.pods.finish, Phase.TERMINATING)

    @rule(rounds=st.sampled_from([1, 3, 30]))
    def all_goes_well(self, rounds: int) -> None:
        self.settle(rounds)

    @rule(data=st.data())
    def container_restarts(self, data: st.DataObject) -> None:
        self.with_pod(data, self.pods.restart, Phase.RUNNING, Phase.ENDED)

    # Faults.

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.with_pod(data, self.pods.crash, Phase.RUNNING, Phase.TERMINATING)

    @rule(data=st.data())
    def force_delete(self, data: st.DataObject) -> None:
        self.with_pod(data, self.pods.force_delete, *Phase)

    @precondition(lambda self: self.pods.members)
    @rule(data=st.data())
    def session_times_out(self, data: st.DataObject) -> None:
        self.pods.drop(data.draw(st.sampled_from(sorted(self.pods.members))))

    @rule(name=st.sampled_from(NODES), node=st.sampled_from([Node(), Node(ready=False), Node(cordoned=True)]))
    def node_changes(self, name: str, node: Node) -> None:
        self.pods.nodes[name] = node

    @rule(name=st.sampled_from(NODES))
    def node_is_declared_dead(self, name: str) -> None:
        """An administrator declares the machine out of service."""
        self.pods.nodes[name] = Node(ready=False, out_of_service=True)
        self.pods.running = {key: node for key, node in self.pods.running.items() if node != name}

    def with_pod(self, data: st.DataObject, happen: object, *phases: Phase) -> None:
        fitting = sorted(i for i, pod in self.pods.pods.items() if pod.phase in phases)
        if fitting:
            happen(data.draw(st.sampled_from(fitting)))  # type: ignore[operator]

    # Invariants.

    @invariant()
    def proofs_are_true(self) -> None:
        """No process runs that the pool reports as ended."""
        if self.pods.decision is not None:
            assert not self.pods.running.keys() & self.pods.decision.facts.ended

    def check(self, decision: Decision, seen: PoolObserved) -> None:
        """Every action is justified by the observation."""
        desired, facts, now_ms = self.pods.desired, decision.facts, self.pods.now_ms
        pods = {pod.identity: pod for pod in seen.pods}
        assert not facts.leaving & facts.returning
        assert decision.next_ms is None or decision.next_ms > self.pods.host_ms
        assert len({action.identity for action in decision.actions}) == len(decision.actions)
        assert len(facts.expected) <= max(desired.replicas, len(pods))
        for action in decision.actions:
            pod = pods.get(action.identity)
            if isinstance(action, Create):
                assert pod is None
                assert action.identity in facts.expected
                continue
            assert pod is not None
            assert pod.incarnation == action.incarnation
            match action:
                case Remove():
                    assert pod.phase is Phase.ENDED
                case Kill():
                    assert pod.phase is Phase.TERMINATING
                    lasted_ms = now_ms - self.pods.terminating_ms[pod.incarnation]
                    assert lasted_ms >= (desired.policy.kill_after_ms or 0)
                case Drain(reason=MarkReason.SCALE_DOWN):
                    assert pod.mark is None
                    assert action.identity not in facts.expected
                    self.check_scale_down(pod, seen)
                case Drain():
                    assert pod.mark is None
                case UnDrain():
                    assert pod.mark is not None
                    assert action.identity in facts.expected
                case Delete():
                    assert self.may_be_told_to_end(pod, decision, seen)
        self.check_roll(decision, seen)
        surplus = len(facts.expected) > desired.replicas
        self.surplus_since_ms = (self.surplus_since_ms or now_ms) if surplus else None
        self.expected = facts.expected

    def may_be_told_to_end(self, pod: Pod, decision: Decision, seen: PoolObserved) -> bool:
        """A busy member ends only after its drain, with the documented exceptions."""
        desired, facts = self.pods.desired, decision.facts
        drain_ms = self.pods.now_ms - self.pods.marked_ms[pod.uid] if pod.mark is not None else -1
        return (
            not (works(pod, seen) and seen.group is not None and seen.group.members[pod.identity].busy)
            or desired.replicas == 0
            or drain_ms >= desired.policy.drain_timeout_ms
            or pod.identity in facts.returning
            or (pod.identity, pod.incarnation) in facts.ended
        )

    def check_scale_down(self, pod: Pod, seen: PoolObserved) -> None:
        """A working member is scaled down only while the group is settled, and after the delay."""
        policy = self.pods.desired.policy
        waited_ms = self.pods.now_ms - (self.surplus_since_ms or self.pods.now_ms)
        if works(pod, seen) and pod.identity in self.expected:
            assert seen.group is not None
            assert waited_ms >= policy.scale_down_delay_ms
            assert seen.group.calm or waited_ms >= policy.scale_down_wait_max_ms

    def check_roll(self, decision: Decision, seen: PoolObserved) -> None:
        """A roll replaces a working member only while all others work and the group is settled."""
        taken = {
            action.identity
            for action in decision.actions
            if (isinstance(action, Delete) and action.identity in decision.facts.returning)
            or (isinstance(action, Drain) and action.reason is MarkReason.ROLL)
        }
        working = {
            pod.identity
            for pod in seen.pods
            if works(pod, seen)
            and pod.mark is None
            and (pod.identity, pod.incarnation) not in decision.facts.ended
        }
        if taken & working:
            assert seen.group is not None
            assert seen.group.calm
            assert (
                len(decision.facts.expected - (working - taken)) <= self.pods.desired.policy.max_unavailable
            )

    # Once the faults stop, the pool converges.

    def settle(self, rounds: int) -> None:
        for _ in range(rounds):
            if self.pods.at_rest():
                return
            seen = self.pods.observed()
            self.check(self.pods.decide(), seen)
            self.pods.act()
            self.pods.progress()
            self.pods.wait()

    def teardown(self) -> None:
        if not hasattr(self, "pods"):
            return
        self.pods.leading = True
        self.pods.nodes["north"] = Node()
        for name, node in self.pods.nodes.items():
            if not node.ready:
                for identity, member in list(self.pods.members.items()):
                    pod = self.pods.pods.get(identity)
                    if pod is not None and pod.node == name and pod.incarnation == member.incarnation:
                        self.pods.drop(identity)
        self.settle(200)
        assert self.pods.at_rest()


Pools.TestCase.settings = settings(
    max_examples=examples(50, long=150),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestPools = Pools.TestCase


def test_no_observed_value_is_a_time() -> None:
    """It would be one of another clock: of a node, of the API server, of a host before."""
    times = {
        f"{kind.__name__}.{each.name}"
        for kind in (Pod, Node, MemberSeen, GroupSeen, PoolObserved)
        for each in fields(kind)
        if each.name.endswith("_ms")
    }
    assert times == {"Node.notice_ms"}, "that one is a duration"
