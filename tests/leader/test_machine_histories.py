"""Random histories of a group around the leader machine: the promises hold after every step, and at the end
everything runs once, balanced, and nobody asks for anything."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cooperator.leader import events as ev
from cooperator.model import INSTANCE, Policy, TaskId
from cooperator.planner.view import Facts
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup, FakeMember

IDENTITIES = [f"lake-{number}" for number in range(4)]
CONNECTORS = ["a", "b"]


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = self.new_group()
        self.tasks: dict[str, tuple[str, ...]] = {}
        self.wanted: dict[str, int] = {}
        self.absent_unproven: list[tuple[int, FakeMember]] = []
        self.group.facts(Facts(expected=frozenset(IDENTITIES)))
        self.group.round()

    def new_group(self) -> FakeGroup:
        return FakeGroup(Policy(scheduled_rebalance_max_delay_ms=60_000))

    def present(self) -> list[str]:
        return sorted({member.identity for member in self.group.members.values()})

    @rule(identity=st.sampled_from(IDENTITIES))
    def join(self, identity: str) -> None:
        if identity not in self.present():
            self.group.join(identity)
            self.group.round()

    @precondition(lambda self: self.group.members)
    @rule(data=st.data(), proven=st.booleans())
    def die(self, data: st.DataObject, proven: bool) -> None:
        identity = data.draw(st.sampled_from(self.present()))
        member = self.group.die(identity, proven=proven)
        if not proven:
            # It may run on until its lease ends, 40 s after its last contact.
            self.absent_unproven.append((self.group.now_ms + 40_000, member))
        self.group.round()

    @rule(count=st.integers(0, 4), connector=st.sampled_from(CONNECTORS))
    def desire(self, count: int, connector: str) -> None:
        self.wanted[connector] = count
        self.group.desire(**self.wanted)

    @rule(connector=st.sampled_from(CONNECTORS))
    def delete(self, connector: str) -> None:
        self.wanted.pop(connector, None)
        self.tasks.pop(connector, None)
        self.group.desire(**self.wanted)

    @rule(connector=st.sampled_from(CONNECTORS), units=st.lists(st.sampled_from("uvw"), max_size=4))
    def post(self, connector: str, units: list[str]) -> None:
        configs = tuple(f"{unit}{number}" for number, unit in enumerate(units))
        if self.group.post(connector, *configs) in (202, 204):
            self.tasks[connector] = configs

    @rule()
    def stops_finish_somewhere(self) -> None:
        for member in self.group.members.values():
            if member.stopping:
                self.group.stop(member)
                self.group.round()
                return

    @precondition(lambda self: self.group.members)
    @rule(data=st.data(), proven=st.booleans())
    def an_assignment_is_lost_and_its_member_dies(self, data: st.DataObject, proven: bool) -> None:
        identity = data.draw(st.sampled_from(self.present()))
        self.group.round(lost_to=[identity])
        member = self.group.die(identity, proven=proven)
        if not proven:
            self.absent_unproven.append((self.group.now_ms + 40_000, member))
        self.group.round()

    @rule(late=st.booleans(), away=st.booleans())
    def statuses_are_slow(self, late: bool, away: bool) -> None:
        self.group.stops_are_said_late, self.group.status_log_away = late, away

    @rule(deliver=st.booleans())
    def incidental_round(self, deliver: bool) -> None:
        self.group.round(deliver=deliver)

    @rule(ms=st.integers(1, 50_000))
    def time_passes(self, ms: int) -> None:
        self.group.advance(ms)

    @rule()
    def the_leader_is_replaced(self) -> None:
        group = self.group
        # No leader begins without the log.
        group.save_fails = False
        group.machine.handle(ev.LeadLost("replaced"), group.now_ms)
        group.take_lead()
        group.round()

    @invariant()
    def nothing_runs_twice(self) -> None:
        self.group.check()
        running = set(self.group.all_running())
        self.absent_unproven = [(end, m) for end, m in self.absent_unproven if end > self.group.now_ms]
        for _, ghost in self.absent_unproven:
            doubled = (ghost.running | ghost.stopping) & running
            assert not doubled, f"{doubled} may still run at the vanished {ghost.member_id}"

    def rest(self) -> None:
        """Pass the pauses of a group that has nothing to do."""

    def teardown(self) -> None:
        group = self.group
        group.status_log_away = False
        for identity in IDENTITIES:
            if identity not in self.present():
                group.join(identity)
                group.round()
        for _ in range(6):
            group.settle()
            for connector in self.wanted:
                if connector in group.fold.snapshot().connectors:
                    group.post(connector, *self.tasks.get(connector, ()))
            group.advance(60_000)
        group.settle()
        self.rest()
        wanted = {TaskId(c, INSTANCE) for c in self.wanted}
        wanted |= {TaskId(c, n) for c in self.wanted for n in range(len(self.tasks.get(c, ())))}
        assert set(group.all_running()) == wanted
        loads = [len([t for t in m.running if t.task >= 0]) for m in group.members.values()]
        assert max(loads) - min(loads) <= 1
        reads = len(group.reads)
        group.advance(600_000)
        assert group.rejoins == [], group.rejoins
        assert group.statuses.keys() == wanted, "statuses of what runs, and of nothing else"
        assert len(group.reads) - reads < 3, "at rest the status log is not read"


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(40, long=80), stateful_step_count=30, deadline=None)


def test_a_last_word_that_comes_after_another_leader_has_looked_is_forgotten() -> None:
    history = Histories()
    history.join(identity="lake-0")
    history.desire(connector="b", count=0)
    history.the_leader_is_replaced()
    history.delete(connector="b")
    history.the_leader_is_replaced()
    history.statuses_are_slow(away=False, late=True)
    history.stops_finish_somewhere()
    history.the_leader_is_replaced()
    history.teardown()
