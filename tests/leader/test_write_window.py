"""When the leader of stock workers writes, and how it counts the rounds that it has cost them."""

from cooperator.leader import events as ev
from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.leader.stock.write_window import MOST_MS, SETTLE_MS, WriteWindow
from cooperator.model import INSTANCE, Assignment, Epoch, Member, TaskId, TaskState, TaskStatus
from cooperator.planner.plan import Plan
from tests.harness.fake_group import FakeGroup, running_group

A0, A1 = TaskId("a", 0), TaskId("a", 1)


def stock(name: str, *owned: TaskId) -> Member:
    return Member(f"{name}-id", name, f"{name}-id", owned, is_agent=False, url=f"http://{name}:8083/")


def said(task: TaskId, worker: str, generation: int) -> dict[TaskId, TaskStatus]:
    return {task: TaskStatus(task, TaskState.RUNNING, f"{worker}:8083", Epoch(0, generation))}


class Group:
    """A leader's view of two stock workers, round by round; ``now_ms`` is 0 at the delivery of each."""

    def __init__(self) -> None:
        self.pending_starts = PendingStarts()
        self.write_window = WriteWindow(self.pending_starts)
        self.generation = 0

    def round(self, *members: Member, offset: int = 10, **assigned: TaskId) -> None:
        """All have read up to ``offset``."""
        self.joins(*members, offset=offset)
        assignments = {
            m.member_id: Assignment((assigned[m.identity],) if m.identity in assigned else ())
            for m in members
        }
        self.pending_starts.give(members, Plan(assignments), self.generation, 0)
        self.write_window.delivered(self.generation, offset, 0)

    def joins(self, *members: Member, offset: int = 10, **offsets: int) -> None:
        """``offsets``: of who has read further than the leader's ``offset``, by name."""
        self.generation += 1
        read = {member.member_id: offsets.get(member.identity, offset) for member in members}
        self.write_window.round(self.generation, members, read, offset)
        self.pending_starts.report(members, ())


def test_nothing_is_written_from_the_joining_until_all_that_is_new_has_said_a_word() -> None:
    group = Group()
    group.round(stock("w"), stock("v"))
    assert group.write_window.is_over(SETTLE_MS)
    group.write_window.joining()
    assert not group.write_window.is_over(MOST_MS), "however long a round takes to come about"
    group.round(stock("w"), stock("v"), w=A0)
    assert not group.write_window.is_over(SETTLE_MS)
    group.pending_starts.hear(said(A0, "w", group.generation - 1))
    assert not group.write_window.is_over(SETTLE_MS), "that belongs to an earlier run of the task"
    group.pending_starts.hear(said(A0, "v", group.generation))
    assert not group.write_window.is_over(SETTLE_MS), "and that was somebody else"
    group.pending_starts.hear(said(A0, "w", group.generation))
    assert not group.write_window.is_over(SETTLE_MS - 1), "who has nothing new compares its offset, too"
    assert group.write_window.is_over(SETTLE_MS)


def test_a_silent_task_is_not_awaited_forever() -> None:
    group = Group()
    group.round(stock("w"), w=A0)
    assert not group.write_window.is_over(MOST_MS - 1)
    assert group.write_window.is_over(MOST_MS)


def test_a_fence_request_means_that_a_task_is_starting() -> None:
    group = Group()
    group.round(stock("w"), stock("v"), w=A0, v=A1)
    group.pending_starts.asked_for_fence("b")
    group.pending_starts.asked_for_fence("a")
    assert not group.write_window.is_over(SETTLE_MS)
    group.pending_starts.asked_for_fence("a")
    assert group.write_window.is_over(SETTLE_MS)


def test_agents_are_not_waited_for() -> None:
    group = Group()
    group.round(Member("m", "lake-0", "incarnation"), **{"lake-0": A0})
    group.write_window.joining()
    assert group.write_window.is_over(0)


class TestForcedRounds:
    def test_an_own_record_before_a_worker_had_taken_its_assignment_up(self) -> None:
        group = Group()
        group.round(stock("w"), w=A0)
        group.write_window.wrote(2, 12)
        group.joins(stock("w", A0), offset=12)
        assert group.write_window.forced == 1

    def test_a_record_of_somebody_else_is_none_of_ours(self) -> None:
        group = Group()
        group.round(stock("w"), w=A0)
        group.joins(stock("w", A0), offset=11)
        assert group.write_window.forced == 0

    def test_a_round_that_follows_what_was_taken_up_is_none(self) -> None:
        group = Group()
        group.round(stock("w"), w=A0)
        group.pending_starts.hear(said(A0, "w", group.generation))
        group.write_window.wrote(1, 11)
        group.joins(stock("w", A0), offset=11)
        assert group.write_window.forced == 0

    def test_a_leader_that_is_behind_its_own_records(self) -> None:
        group = Group()
        group.round(stock("w"))
        group.write_window.wrote(1, 11)
        group.joins(stock("w"), w=11)
        assert group.write_window.forced == 1


def test_a_leader_of_stock_workers_keeps_its_records_until_the_round_is_over() -> None:
    group = running_group(is_agent=False)
    written = len(group.written)
    group.machine.handle(ev.Joining(), group.now_ms)
    group.desire(a=6, b=1)
    group.advance(MOST_MS)
    assert group.written[written:] == []
    group.round()
    assert group.written[written:] == ["connector-b"]
    group.settle()
    assert TaskId("b", INSTANCE) in group.all_running()


def test_a_reader_of_aborted_records_is_not_ahead_forever() -> None:
    """Stock workers count such records; a leader that does not has to write one after them."""
    group = running_group(is_agent=False)
    ahead = group.offset + 3
    members = tuple(member.report() for member in group.members.values())
    group.generation += 1
    config = group.fold.snapshot()
    offsets = {member.member_id: ahead for member in members}
    group._do(
        ev.RoundReady(
            group.generation, "sessioned", "leader-1", members, ("leader-1",), ahead, config, 0, offsets
        )
    )
    written = len(group.written)
    group._do(ev.Joining())
    group.offset = ahead
    group._do(ev.Delivered(group.generation))
    assert group.written[written:] == ["target-state-a"]
    group.round()
    group.settle()
    assert len(group.all_running()) == 7


def test_a_leader_of_agents_does_not() -> None:
    group = running_group()
    group.machine.handle(ev.Joining(), group.now_ms)
    group.desire(a=6, b=1)
    assert group.written[-1] == "connector-b"


class TestWhoHangs:
    def hung(self, group: FakeGroup) -> list[tuple[str, bool]]:
        return [(each.identity, each.to_replace) for each in group.machine.state.hung]

    def silent(self, hung_after_ms: int = 0) -> FakeGroup:
        """lake-0 is given a connector, and says nothing."""
        group = running_group(is_agent=False)
        policy = group.machine.state.policy
        group.policy(type(policy)(hung_after_ms=hung_after_ms))
        group.status_log_away = True
        group.desire(a=6, b=1)
        group.advance(1_000)
        group.round()
        return group

    def test_is_named_after_a_rebalance_time_out(self) -> None:
        group = self.silent()
        patience_ms = group.machine.settings.awaited_ms
        group.advance(patience_ms - SETTLE_MS - 1)
        assert self.hung(group) == []
        group.advance(1)
        assert [replace for _, replace in self.hung(group)] == [False]
        group.status_log_away = False
        group.advance(MOST_MS)
        assert self.hung(group) == [], "it was only late"

    def test_is_named_to_be_replaced_where_the_policy_says_so(self) -> None:
        group = self.silent(hung_after_ms=120_000)
        group.advance(120_000 - SETTLE_MS - 1)
        assert [replace for _, replace in self.hung(group)] == [False]
        group.advance(1)
        ((identity, replaced),) = self.hung(group)
        assert replaced
        group.die(identity)
        group.settle()
        assert self.hung(group) == []


def test_nothing_is_written_by_a_state_of_a_connector_that_is_older_than_its_own_records() -> None:
    """Its reader hangs. A connector written without the tasks that have just been committed would come after
    their commit in the compacted log, and whoever reads that log from its start drops such a commit.
    """
    group = FakeGroup()
    group.join("lake-0")
    group.desire(a=2)
    group.round()
    group.config_log_unread = True
    assert group.post("a", "u0", "u1") == 204
    written = [*group.written]

    group.desire(a=2, b=1)
    group.advance(10_000)
    assert group.written == [*written, "connector-b"], "of b nothing is unread"
    group.desire(a=3, b=1)
    group.advance(10_000)
    assert group.written == [*written, "connector-b"]

    group.config_log_unread = False
    group.write(())
    group.settle()
    assert group.written[len(written) + 1 :] == ["connector-a", "task-a-0", "task-a-1", "commit-a"]
