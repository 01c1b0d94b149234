"""A member tells its leader how far it is with the tasks that it learns, and asks for others."""

from cooperator.agent.learner_talk import AGAIN_MS, LearnerStanding, LearnerTalk
from cooperator.model import (
    ClusterConfig,
    ConnectorConfig,
    Epoch,
    LearnerProgress,
    StateReplicas,
    TaskId,
    ToLearn,
)
from cooperator.wire import LearnerAnswer, LearnerReport

A0 = TaskId("a", 0)
UNITS = {"task.units": "u0"}


def standing(*owned: TaskId, asks: bool = True, generation: int = 1) -> LearnerStanding:
    connector = ConnectorConfig(StateReplicas().settings() if asks else {}, tasks=(UNITS,))
    config = ClusterConfig(7, {"a": connector})
    return LearnerStanding("m", "http://leader/", Epoch(1, generation), frozenset(owned), config)


def told(*tasks: TaskId) -> LearnerAnswer:
    return LearnerAnswer(tuple(ToLearn(task, "warmup", 10) for task in tasks), again_ms=3_000)


def test_a_member_asks_and_learns_what_it_is_told() -> None:
    talk = LearnerTalk()
    assert talk.question(standing(), {}, 0) == LearnerReport("m", {})
    assert talk.wanted(standing()) == {}
    talk.answered(told(A0), 100)
    assert talk.wanted(standing()) == {A0: UNITS}
    assert talk.question(standing(), {A0: LearnerProgress(900)}, 3_099) is None
    assert talk.question(standing(), {A0: LearnerProgress(900)}, 3_100) == LearnerReport(
        "m", {A0: LearnerProgress(900)}
    )


def test_a_task_that_becomes_ready_or_cannot_be_learned_is_reported_at_once() -> None:
    talk = LearnerTalk()
    talk.question(standing(), {}, 0)
    talk.answered(told(A0), 0)
    assert talk.question(standing(), {A0: LearnerProgress(11)}, 500) is None
    assert talk.question(standing(), {A0: LearnerProgress(10)}, 1_000)
    assert talk.question(standing(), {A0: LearnerProgress(9)}, 1_500) is None, "that is no news"
    assert talk.question(standing(), {A0: LearnerProgress(None, problem="no room")}, 2_000) is None
    assert talk.question(standing(), {A0: LearnerProgress(None)}, 2_500)


def test_a_small_state_has_not_caught_up_before_it_is_read() -> None:
    talk = LearnerTalk()
    talk.question(standing(), {}, 0)
    talk.answered(told(A0), 0)
    assert talk.question(standing(), {A0: LearnerProgress(4, 4)}, 500, {A0}) is None, "it is being read"
    assert talk.question(standing(), {A0: LearnerProgress(4, 4)}, 3_000, {A0}) == LearnerReport(
        "m", {A0: LearnerProgress(None, 4)}
    )
    assert talk.question(standing(), {A0: LearnerProgress(4, 4)}, 3_500) == LearnerReport(
        "m", {A0: LearnerProgress(4, 4)}
    ), "it follows, and is near enough"
    assert talk.question(standing(), {A0: LearnerProgress(11, 99)}, 9_000, {A0}) == LearnerReport(
        "m", {A0: LearnerProgress(11, 99)}
    ), "the rest of a large one is known"


def test_a_new_assignment_is_a_reason_to_ask() -> None:
    talk = LearnerTalk()
    talk.question(standing(), {}, 0)
    talk.answered(told(), 0)
    assert talk.question(standing(), {}, 500) is None
    assert talk.question(standing(generation=2), {}, 500)


def test_a_task_that_is_owned_is_learned_no_longer() -> None:
    talk = LearnerTalk()
    talk.question(standing(), {}, 0)
    talk.answered(told(A0), 0)
    assert talk.wanted(standing(A0)) == {}


def test_a_deleted_task_is_learned_no_longer() -> None:
    talk = LearnerTalk()
    talk.question(standing(), {}, 0)
    talk.answered(told(TaskId("a", 5), TaskId("b", 0)), 0)
    assert talk.wanted(standing()) == {}


def test_without_an_answer_what_was_told_holds_and_the_question_is_repeated() -> None:
    talk = LearnerTalk()
    talk.question(standing(), {}, 0)
    talk.answered(told(A0), 0)
    assert talk.question(standing(), {}, 3_000)
    talk.failed(4_000)
    assert talk.wanted(standing()) == {A0: UNITS}
    assert talk.question(standing(), {}, 4_000 + AGAIN_MS - 1) is None
    assert talk.question(standing(), {}, 4_000 + AGAIN_MS)


def test_members_of_a_worker_without_such_connectors_ask_nothing() -> None:
    talk = LearnerTalk()
    assert talk.question(standing(asks=False), {}, 0) is None
    talk.question(standing(), {}, 0)
    talk.answered(told(A0), 0)
    assert talk.question(standing(asks=False), {}, 9_000) is None
    assert talk.wanted(standing(asks=False)) == {}, "the setting was removed"
