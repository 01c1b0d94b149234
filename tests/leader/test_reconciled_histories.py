"""Random histories of a group that leaves rounds and returns to them: the promises are those of rounds."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from cooperator.leader.offer import ROUNDS_MS
from cooperator.model import Epoch, Policy, TaskId
from cooperator.reconciliation import fold
from tests.harness.examples import examples
from tests.harness.fake_group import FakeGroup
from tests.harness.reconciling_group import ReconcilingGroup
from tests.leader.test_machine_histories import IDENTITIES, Histories


class ReconciledHistories(Histories):
    def __init__(self) -> None:
        self.epochs: dict[TaskId, Epoch] = {}
        super().__init__()

    def new_group(self) -> FakeGroup:
        return ReconcilingGroup(Policy(scheduled_rebalance_max_delay_ms=60_000))

    @property
    def reconciling(self) -> ReconcilingGroup:
        assert isinstance(self.group, ReconcilingGroup)
        return self.group

    @precondition(lambda self: not self.group.save_fails)
    @rule()
    def it_comes_to_rest(self) -> None:
        self.group.settle()

    @rule(identity=st.sampled_from(IDENTITIES), is_older=st.sampled_from([False, False, False, True]))
    def a_member_of_an_earlier_release_joins(self, identity: str, is_older: bool) -> None:
        if identity not in self.present() and is_older:
            self.reconciling.older.add(identity)
            self.group.join(identity)
            self.group.round()

    @rule(identity=st.sampled_from(IDENTITIES))
    def the_next_one_is_newer(self, identity: str) -> None:
        if identity not in self.present():
            self.reconciling.older.discard(identity)

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def a_member_reports(self, data: st.DataObject) -> None:
        """It may have stopped what was revoked meanwhile."""
        member = self.group.of(data.draw(st.sampled_from(self.present())))
        if data.draw(st.booleans()):
            self.group.stop(member)
        if member.member_id in self.reconciling.reporters:
            self.reconciling.report(member)

    @rule(asks=st.sampled_from([True, True, True, False]))
    def the_policy_changes(self, asks: bool) -> None:
        self.group.policy(replace(self.group.machine.state.policy, reconciles=asks))

    @rule(fails=st.sampled_from([False, False, True]))
    def the_log_is_away(self, fails: bool) -> None:
        self.group.save_fails = fails

    @invariant()
    def the_log_has_everything_that_runs(self) -> None:
        group = self.reconciling
        if not group.is_reconciled or group.machine.state.in_round:
            return
        known = fold([group.log])
        for member in group.members.values():
            reporter = group.reporters.get(member.member_id)
            if reporter is None or reporter.side.term != known.term:
                continue
            said = known.members.get(member.identity)
            if said is not None and said.incarnation == f"incarnation-{member.incarnation}":
                assert member.running <= said.current.occupied, member.member_id

    @invariant()
    def epochs_of_attempts_only_grow(self) -> None:
        for member in self.group.members.values():
            for task in member.running:
                epoch = member.epochs[task]
                last = self.epochs.get(task, epoch)
                assert last <= epoch, f"{task} at {member.member_id}: {epoch} after {last}"
                self.epochs[task] = epoch

    def rest(self) -> None:
        # A group with a member that did not reach the leader stays in rounds for a while.
        self.group.advance(ROUNDS_MS)
        self.group.settle()

    def teardown(self) -> None:
        self.group.save_fails = False
        self.group.advance(5_000)
        self.the_policy_changes(True)
        super().teardown()


TestReconciledHistories = ReconciledHistories.TestCase
TestReconciledHistories.settings = settings(
    max_examples=examples(20, long=60), stateful_step_count=30, deadline=None
)
