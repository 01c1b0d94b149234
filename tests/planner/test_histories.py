"""Random histories: the promises hold after every step, and at rest everything is complete and balanced."""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cooperator.model import INSTANCE, Policy, StateReplicas, TaskId, Warmth
from cooperator.planner import Facts
from cooperator.planner.assignors import BUILT_IN
from tests.harness.examples import examples
from tests.planner.unreliable_group import Process, UnreliableGroup

IDENTITIES = ("w0", "w1", "w2", "w3", "w4")
CONNECTORS = ("a", "b", "c", "d")


class Histories(RuleBasedStateMachine):
    """Anything may happen to the group; the leader sees only what its view tells."""

    @initialize(
        counts=st.dictionaries(st.sampled_from(CONNECTORS), st.integers(0, 6), min_size=1),
        delay_ms=st.sampled_from([0, 20_000, 300_000]),
        workers=st.integers(1, 4),
        max_returns=st.integers(0, 3),
        assignor=st.sampled_from(("Sticky", "Sticky", *sorted(BUILT_IN))),
        strict=st.booleans(),
        stateful=st.dictionaries(
            st.sampled_from(CONNECTORS[2:]), st.builds(StateReplicas, standbys=st.integers(0, 2)), max_size=2
        ),
        learns=st.booleans(),
    )
    def start(
        self,
        counts: dict[str, int],
        delay_ms: int,
        workers: int,
        max_returns: int,
        assignor: str,
        strict: bool,
        stateful: dict[str, StateReplicas],
        learns: bool,
    ) -> None:
        policy = Policy(
            assignor=assignor,
            scheduled_rebalance_max_delay_ms=delay_ms,
            max_returns=max_returns,
            strict_spread=strict,
        )
        self.group = UnreliableGroup(policy, **counts)
        self.group.stateful = {
            name: replace(replicas, acceptable_lag_bytes=10) for name, replicas in stateful.items()
        }
        self.learns = learns
        for identity in IDENTITIES[:workers]:
            self.group.join(identity, learns=learns)
        self.group.round()

    def pick(self, data: st.DataObject, processes: list[Process]) -> Process:
        return data.draw(st.sampled_from(sorted(processes, key=lambda p: p.incarnation)))

    @rule()
    def round(self) -> None:
        self.group.round()

    @rule(identity=st.sampled_from(IDENTITIES), warmth=st.sampled_from(Warmth))
    def a_process_starts(self, identity: str, warmth: Warmth) -> None:
        # A second incarnation of an identity may start while the first still runs: a pod that was
        # force-deleted.
        if len(self.group.processes) < 8:
            self.group.join(identity, warmth, learns=self.learns)

    @precondition(lambda self: self.group.processes)
    @rule(data=st.data(), by_bytes=st.sampled_from([0, 50, 100]))
    def a_learner_catches_up(self, data: st.DataObject, by_bytes: int) -> None:
        self.group.learn(self.pick(data, self.group.processes), by_bytes)

    @precondition(lambda self: self.group.processes)
    @rule(data=st.data())
    def a_learner_loses_what_it_has(self, data: st.DataObject) -> None:
        self.pick(data, self.group.processes).behind_bytes.clear()

    @precondition(lambda self: self.group.processes)
    @rule(data=st.data(), warmth=st.sampled_from(Warmth))
    def a_runtime_comes_up_or_fails(self, data: st.DataObject, warmth: Warmth) -> None:
        self.pick(data, self.group.processes).warmth = warmth

    @precondition(lambda self: self.group.processes)
    @rule(data=st.data(), proven=st.booleans())
    def a_process_dies(self, data: st.DataObject, proven: bool) -> None:
        self.group.kill(self.pick(data, self.group.processes), proven)

    @precondition(lambda self: self.group.dead - self.group.proven)
    @rule(data=st.data())
    def an_end_is_proven(self, data: st.DataObject) -> None:
        self.group.proven.add(data.draw(st.sampled_from(sorted(self.group.dead - self.group.proven))))

    @precondition(lambda self: self.group.members())
    @rule(data=st.data())
    def the_broker_drops_a_member(self, data: st.DataObject) -> None:
        self.group.drop(self.pick(data, self.group.members()))

    @precondition(lambda self: len(self.group.members()) < len(self.group.processes))
    @rule(data=st.data())
    def a_dropped_member_rejoins(self, data: st.DataObject) -> None:
        self.group.rejoin(self.pick(data, [p for p in self.group.processes if p.out_since_ms is not None]))

    @rule()
    def the_lead_is_taken_over(self) -> None:
        self.group.take_over()

    @precondition(lambda self: self.group.members())
    @rule(data=st.data())
    def an_assignment_will_get_lost(self, data: st.DataObject) -> None:
        self.pick(data, self.group.members()).fails_next = True

    @precondition(lambda self: self.group.members())
    @rule(data=st.data())
    def stops_are_done(self, data: st.DataObject) -> None:
        self.group.stopped(self.pick(data, self.group.members()))

    @precondition(lambda self: self.group.members())
    @rule(data=st.data())
    def a_member_drains(self, data: st.DataObject) -> None:
        self.pick(data, self.group.members()).draining = True

    @rule(connector=st.sampled_from(CONNECTORS), count=st.integers(0, 6))
    def a_connector_is_set(self, connector: str, count: int) -> None:
        self.group.task_counts[connector] = count

    @rule(connector=st.sampled_from(CONNECTORS))
    def a_connector_is_deleted(self, connector: str) -> None:
        self.group.task_counts.pop(connector, None)

    @rule(connector=st.sampled_from(CONNECTORS), count=st.integers(0, 4))
    def tasks_are_suspended(self, connector: str, count: int) -> None:
        self.group.suspended = {TaskId(connector, task) for task in range(count)}

    @rule(by_ms=st.sampled_from([1_000, 10_000, 45_000, 300_000]))
    def time_passes(self, by_ms: int) -> None:
        self.group.advance(by_ms)

    identities = st.frozensets(st.sampled_from(IDENTITIES), max_size=2)

    @rule(
        leaving=identities,
        gone=identities,
        cordoned=identities,
        returning=identities,
        poisoned=st.frozensets(
            st.builds(TaskId, st.sampled_from(CONNECTORS), st.integers(INSTANCE, 2)), max_size=2
        ),
        knows=st.booleans(),
    )
    def facts_change(
        self,
        leaving: frozenset[str],
        gone: frozenset[str],
        cordoned: frozenset[str],
        returning: frozenset[str],
        poisoned: frozenset[TaskId],
        knows: bool,
    ) -> None:
        self.group.facts = Facts(
            expected=frozenset(IDENTITIES[:3]) if knows else None,
            leaving=leaving,
            gone=gone,
            cordoned=cordoned,
            returning=returning,
            poisoned=poisoned,
        )

    def teardown(self) -> None:
        """Faults end; a member that is there to be given work appears if there is none."""
        if not hasattr(self, "group"):
            return
        group = self.group
        group.suspended.clear()
        group.facts = Facts(expected=group.facts.expected, cordoned=group.facts.cordoned)
        for process in list(group.processes):
            if process.out_since_ms is not None:
                group.rejoin(process)
        if not [p for p in group.members() if not p.draining]:
            group.join(IDENTITIES[0])
        group.settle()
        identities = {process.identity for process in group.members()}
        for identity in identities:
            # Of several incarnations only the newest has work; the others go.
            incarnations = [p for p in group.members() if p.identity == identity]
            assert sum(bool(p.running) for p in incarnations) <= 1
            for process in [p for p in incarnations if not p.running][: len(incarnations) - 1]:
                group.kill(process, proven=True)
        group.settle()
        group.check_complete_and_balanced()
        group.check_at_rest()
        assert group.configured() == {task for p in group.members() for task in p.running}
        assert not group.memory.holds
        assert not group.memory.moving
        assert all(task.task >= INSTANCE for task in group.configured())


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(50, long=150),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
