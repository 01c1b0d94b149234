"""Conversations of one or two members with a leader: some reports count, and others change nothing."""

from dataclasses import replace

from cooperator.model import TaskId
from cooperator.reconciliation import (
    Answer,
    MemberState,
    ReconciledGroup,
    Rejection,
    Report,
    changes,
    depart,
    end,
    expire,
    fold,
    handle_report,
    join,
    retarget,
    waiting,
)

T, U = TaskId("c", 0), TaskId("c", 1)
FENCE_MS = 17_000


class Conversation:
    """A leader and what was said; every group is durable before it answers."""

    def __init__(self, *identities: str) -> None:
        self.group = ReconciledGroup(term=1)
        self.log = [changes(ReconciledGroup(), self.group)]
        self.now_ms = 0
        for identity in identities:
            self.become(join(self.group, identity, f"{identity}#1", 0, FENCE_MS))

    def become(self, group: ReconciledGroup) -> None:
        self.log.append(changes(self.group, group))
        self.group = group
        group.validate()

    def targets(self, **layout: set[TaskId]) -> None:
        self.become(retarget(self.group, {identity: frozenset(tasks) for identity, tasks in layout.items()}))

    def report(
        self, identity: str, sequence: int, epoch: int, *owned: TaskId, term: int | None = None
    ) -> Answer | Rejection:
        term = self.group.term if term is None else term
        report = Report(identity, f"{identity}#1", term, sequence, epoch, frozenset(owned))
        group, answer = handle_report(self.group, report, self.now_ms, revocation_timeout_ms=60_000)
        self.become(group)
        return answer

    def new_leader(self) -> None:
        group = fold(self.log)
        self.log.append(changes(group, replace(group, term=group.term + 1)))
        self.group = fold(self.log)


def given(answer: Answer | Rejection) -> set[TaskId]:
    assert isinstance(answer, Answer), answer
    return set(answer.assigned)


def test_a_task_moves_after_its_owner_has_acknowledged() -> None:
    talk = Conversation("a", "b")
    talk.targets(a={T})
    first = talk.report("a", 1, 0)
    assert given(first) == {T}
    talk.targets(b={T})

    assert given(talk.report("b", 1, 0)) == set()
    assert talk.group.members["b"].current.state is MemberState.UNRELEASED_TASKS
    asked = talk.report("a", 2, first.member_epoch, T)
    assert (given(asked), asked.state) == (set(), MemberState.UNREVOKED_TASKS)
    assert waiting(talk.group) == ()
    talk.report("a", 3, asked.member_epoch)
    assert waiting(talk.group) == ("b",)
    assert given(talk.report("b", 2, 0)) == {T}


def test_any_number_of_answers_may_be_lost() -> None:
    """Kafka fences a member that has missed two; here nothing stops."""
    talk = Conversation("a")
    talk.targets(a={T})
    first = talk.report("a", 1, 0)
    for sequence, tasks in enumerate(({T, U}, {T}, {T, U}), start=2):
        talk.targets(a=tasks)
        talk.report("a", sequence, first.member_epoch, T)

    assert given(talk.report("a", 9, first.member_epoch, T)) == {T, U}


def test_reports_that_are_late_or_repeated_count_no_more() -> None:
    talk = Conversation("a", "b")
    talk.targets(a={T})
    answer = talk.report("a", 2, 0)
    talk.targets(b={T})

    assert talk.report("a", 1, 0) is Rejection.DUPLICATE_SEQUENCE_NUMBER
    assert talk.report("a", 2, 0) is Rejection.DUPLICATE_SEQUENCE_NUMBER
    assert T in talk.group.occupants
    assert given(talk.report("a", 3, answer.member_epoch, T)) == set()
    assert T in talk.group.occupants


def test_a_new_leader_considers_no_report_for_its_predecessor() -> None:
    """It cannot know whether the member was given a task in the answer to it."""
    talk = Conversation("a", "b")
    talk.targets(a={T})
    answer = talk.report("a", 1, 0)
    # The lease of a has ended; it reports that it runs nothing, and starts again with the answer.
    talk.report("a", 2, answer.member_epoch)
    talk.new_leader()
    talk.targets(b={T})

    assert talk.report("a", 2, answer.member_epoch, term=1) is Rejection.FENCED_LEADER_EPOCH
    assert talk.group.occupants[T] == ("a", "a#1")
    assert talk.report("a", 3, 0, term=3) is Rejection.UNKNOWN_LEADER_EPOCH


def test_a_member_with_tasks_that_it_was_not_given_is_fenced_and_starts_over() -> None:
    talk = Conversation("a")
    talk.targets(a={T})
    epoch = talk.report("a", 1, 0).member_epoch

    assert talk.report("a", 2, epoch, T, U) is Rejection.FENCED_MEMBER_EPOCH
    assert talk.report("a", 3, epoch + 1, T) is Rejection.FENCED_MEMBER_EPOCH
    assert given(talk.report("a", 4, 0)) == {T}


def test_only_the_incarnation_in_the_group_is_heard() -> None:
    talk = Conversation("a")
    talk.targets(a={T})
    epoch = talk.report("a", 1, 0).member_epoch
    talk.become(join(talk.group, "a", "a#2", 1_000, FENCE_MS))

    assert talk.report("a", 2, epoch, T) is Rejection.UNKNOWN_MEMBER_ID
    assert talk.report("a", 3, 0) is Rejection.UNKNOWN_MEMBER_ID
    assert talk.group.occupants[T] == ("a", "a#1")


def test_an_incarnation_that_comes_back_continues_with_what_it_has() -> None:
    talk = Conversation("a", "b")
    talk.targets(a={T})
    epoch = talk.report("a", 1, 0).member_epoch
    talk.become(depart(talk.group, "a", 1_000, FENCE_MS))
    assert talk.report("a", 2, epoch, T) is Rejection.UNKNOWN_MEMBER_ID

    talk.become(join(talk.group, "a", "a#1", 2_000, FENCE_MS))
    assert given(talk.report("a", 3, epoch, T)) == {T}
    assert not talk.group.fences


def test_tasks_of_a_departed_incarnation_wait_for_its_end_or_its_lease() -> None:
    for certain in (
        lambda group: end(group, "a", "a#1"),
        lambda group: expire(group, 1_000 + FENCE_MS),
    ):
        talk = Conversation("a", "b")
        talk.targets(a={T})
        talk.report("a", 1, 0)
        talk.become(depart(talk.group, "a", 1_000, FENCE_MS))
        talk.targets(b={T})
        talk.become(expire(talk.group, FENCE_MS))
        assert given(talk.report("b", 1, 0)) == set()

        talk.become(certain(talk.group))
        assert given(talk.report("b", 2, 0)) == {T}


def test_the_log_has_all_that_a_new_leader_needs() -> None:
    talk = Conversation("a", "b")
    talk.targets(a={T, U})
    epoch = talk.report("a", 1, 0).member_epoch
    talk.targets(a={T}, b={U})
    talk.report("a", 2, epoch, T, U)
    talk.become(join(talk.group, "a", "a#2", 3_000, FENCE_MS))

    assert fold(talk.log) == talk.group


def test_a_report_that_changes_nothing_writes_nothing() -> None:
    talk = Conversation("a")
    talk.targets(a={T})
    epoch = talk.report("a", 1, 0).member_epoch
    written = len([records for records in talk.log if records])
    talk.report("a", 2, epoch, T)

    assert len([records for records in talk.log if records]) == written
