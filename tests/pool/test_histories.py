"""Any history of wishes and faults: what must never be done, and that the pool comes to rest as wished."""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cooperator.pool import (
    Create,
    Decision,
    Delete,
    Drain,
    Kill,
    Node,
    Phase,
    PoolDesired,
    PoolMemory,
    PoolPolicy,
    Remove,
    RollStrategy,
    UnDrain,
    decide,
)
from pool.world import NODES, World

MAX_REPLICAS = 4


class Pools(RuleBasedStateMachine):
    world: World

    @initialize(
        strategy=st.sampled_from(RollStrategy),
        kill_after_ms=st.none() | st.just(90_000),
        replicas=st.integers(0, 4),
    )
    def begin(self, strategy: RollStrategy, kill_after_ms: int | None, replicas: int) -> None:
        policy = PoolPolicy(strategy=strategy, kill_after_ms=kill_after_ms)
        self.world = World(PoolDesired("lake", replicas, "r1", policy))

    # Wishes.

    @rule(replicas=st.integers(0, MAX_REPLICAS))
    def scale(self, replicas: int) -> None:
        self.world.desired = replace(self.world.desired, replicas=replicas)

    @rule(revision=st.sampled_from(["r1", "r2", "r3"]))
    def change_template(self, revision: str) -> None:
        self.world.desired = replace(self.world.desired, revision=revision)

    # The host.

    @rule(act=st.booleans())
    def decide(self, act: bool) -> None:
        seen = self.world.observed()
        decision = self.world.decide()
        self.check(decision)
        # With nothing new to see there is nothing more to ask for.
        assert decide(self.world.desired, seen, decision.memory, self.world.now_ms).actions == ()
        if act:
            self.world.act()

    @rule()
    def act(self) -> None:
        self.world.act()

    @rule()
    def lose_orders(self) -> None:
        self.world.todo = []

    @rule()
    def restart_without_memory(self) -> None:
        self.world.memory, self.world.todo = PoolMemory(), []

    @rule(leading=st.booleans())
    def lead(self, leading: bool) -> None:
        self.world.leading = leading

    # The course of things, one bit at a time.

    @rule(seconds=st.sampled_from([1, 10, 100, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.world.now_ms += seconds * 1000

    @rule()
    def leader_obeys(self) -> None:
        self.world.obey_facts()

    @rule(data=st.data())
    def process_starts(self, data: st.DataObject) -> None:
        self.with_pod(data, self.world.run, Phase.PENDING)

    @rule(data=st.data())
    def process_joins(self, data: st.DataObject) -> None:
        self.with_pod(data, self.world.join, Phase.RUNNING)

    @rule(data=st.data())
    def process_finishes(self, data: st.DataObject) -> None:
        self.with_pod(data, self.world.finish, Phase.TERMINATING)

    @rule()
    def all_goes_well(self) -> None:
        self.settle(1)

    # Faults.

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.with_pod(data, self.world.crash, Phase.RUNNING, Phase.TERMINATING)

    @rule(data=st.data())
    def force_delete(self, data: st.DataObject) -> None:
        self.with_pod(data, self.world.force_delete, *Phase)

    @precondition(lambda self: self.world.members)
    @rule(data=st.data())
    def session_times_out(self, data: st.DataObject) -> None:
        self.world.drop(data.draw(st.sampled_from(sorted(self.world.members))))

    @rule(name=st.sampled_from(NODES), node=st.sampled_from([Node(), Node(ready=False), Node(cordoned=True)]))
    def node_changes(self, name: str, node: Node) -> None:
        self.world.nodes[name] = node

    @rule(name=st.sampled_from(NODES))
    def node_is_declared_dead(self, name: str) -> None:
        """An administrator's word: the machine is off."""
        self.world.nodes[name] = Node(ready=False, out_of_service=True)
        self.world.running = {key: node for key, node in self.world.running.items() if node != name}

    def with_pod(self, data: st.DataObject, happen: object, *phases: Phase) -> None:
        fitting = sorted(i for i, pod in self.world.pods.items() if pod.phase in phases)
        if fitting:
            happen(data.draw(st.sampled_from(fitting)))  # type: ignore[operator]

    # What must never be.

    @invariant()
    def proofs_are_true(self) -> None:
        """Nothing runs of what the pool says has ended."""
        if self.world.decision is not None:
            assert not self.world.running.keys() & self.world.decision.facts.ended

    def check(self, decision: Decision) -> None:
        world, facts = self.world, decision.facts
        assert not facts.leaving & facts.returning
        assert decision.next_ms is None or decision.next_ms > world.now_ms
        assert len({action.identity for action in decision.actions}) == len(decision.actions)
        assert len(facts.expected) <= max(world.desired.replicas, len(world.pods))
        for action in decision.actions:
            pod = world.pods.get(action.identity)
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
                case Drain():
                    assert pod.mark is None
                case UnDrain():
                    assert pod.mark is not None
                    assert action.identity in facts.expected
                case Delete():
                    assert self.may_be_told_to_end(action, decision)

    def may_be_told_to_end(self, delete: Delete, decision: Decision) -> bool:
        """Nobody who has work is told to end before it was drained, but for the stated exceptions."""
        world = self.world
        member = world.members.get(delete.identity)
        pod = world.pods[delete.identity]
        works = member is not None and member.incarnation == delete.incarnation and member.busy
        drained_long_enough = (
            pod.mark is not None and world.now_ms - pod.mark.since_ms >= world.desired.policy.drain_timeout_ms
        )
        return (
            not works
            or world.desired.replicas == 0
            or drained_long_enough
            or delete.identity in decision.facts.returning
            or (delete.identity, delete.incarnation) in decision.facts.ended
        )

    # Once the faults stop, all comes to be as wished.

    def settle(self, rounds: int) -> int:
        for count in range(rounds):
            if self.at_rest():
                return count
            decision = self.world.decide()
            self.check(decision)
            self.world.act()
            self.world.progress()
            later = self.world.now_ms + 1000
            if not decision.actions and decision.next_ms is not None:
                later = max(later, min(decision.next_ms, self.world.now_ms + 60_000))
            self.world.now_ms = later
        return rounds

    def at_rest(self) -> bool:
        world = self.world
        working = [
            pod
            for pod in world.pods.values()
            if pod.phase is Phase.RUNNING
            and pod.mark is None
            and pod.identity in world.members
            and world.members[pod.identity].incarnation == pod.incarnation
            and pod.revision == world.desired.revision
        ]
        # What is on a dead node stays there: nobody force-deletes it.
        cut_off = {pod.identity for pod in world.pods.values() if not world.nodes[pod.node].ready}
        return (
            len([pod for pod in working if pod.identity not in cut_off]) == world.desired.replicas
            and len(world.pods.keys() - cut_off) == world.desired.replicas
            and not world.held
            and not world.moving()
            and not world.decide().actions
        )

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.leading = True
        self.world.nodes["north"] = Node()
        for name, node in self.world.nodes.items():
            if not node.ready:
                for identity, member in list(self.world.members.items()):
                    pod = self.world.pods.get(identity)
                    if pod is not None and pod.node == name and pod.incarnation == member.incarnation:
                        self.world.drop(identity)
        rounds = self.settle(200)
        assert self.at_rest(), rounds


Pools.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestPools = Pools.TestCase
