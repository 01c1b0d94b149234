"""Members that learn the state of tasks: what they are told, and when there is a round."""

from cooperator.leader import events as ev
from cooperator.model import (
    LEARNERS_VALID_MS,
    Desired,
    DesiredConnector,
    LearnerProgress,
    StateReplicas,
    TaskId,
    ToLearn,
)
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup, FakeMember, running_group

REPLICAS = StateReplicas(acceptable_lag_bytes=10)
A0, A1 = TaskId("a", 0), TaskId("a", 1)


def with_state(standbys: int = 0, tasks: int = 2) -> FakeGroup:
    """lake-0 runs all tasks of ``a``, which have state; it can learn."""
    group = running_group(members=1)
    group.of("lake-0").learns = True
    replicas = StateReplicas(standbys=standbys, acceptable_lag_bytes=10)
    config = {"connector.class": "noop", "tasks.max": str(tasks), **replicas.settings()}
    group.want(Desired(1, {"a": DesiredConnector(config)}))
    group.post("a", *(f"unit-{number}" for number in range(tasks)))
    group.settle()
    assert {task for task in group.runs("lake-0") if not task.is_instance} == {
        TaskId("a", number) for number in range(tasks)
    }
    return group


def a_newcomer(group: FakeGroup, learns: bool = True) -> FakeMember:
    newcomer = group.join("lake-1", learns=learns)
    group.round()
    return newcomer


def learning(group: FakeGroup) -> TaskId:
    """The one task that lake-1 is told to learn."""
    (told,) = group.learned(group.of("lake-1"))
    assert told == ToLearn(told.task, "warmup", 10)
    return told.task


def test_a_newcomer_is_told_to_learn_a_task_that_its_owner_runs_on() -> None:
    group = with_state()
    newcomer = a_newcomer(group)
    task = learning(group)
    assert not newcomer.running - {TaskId("a", -1)}
    assert not group.of("lake-0").stopping - {TaskId("a", -1)}
    assert group.learned(group.of("lake-0")) == ()
    assert task in group.runs("lake-0")


def test_a_round_is_asked_for_when_the_learner_is_ready_and_not_before() -> None:
    group = with_state()
    newcomer = a_newcomer(group)
    group.settle()
    task = learning(group)
    for behind in (None, 500, 11):
        group.learned(newcomer, **{f"a_{task.task}": behind})
        assert not group.asks_for_round()
    group.learned(newcomer, **{f"a_{task.task}": 10})
    assert group.asks_for_round()
    assert group.rejoins == ["Balance"]
    group.settle()
    assert task in group.runs("lake-1")
    assert group.learned(newcomer) == ()


def test_a_task_that_cannot_be_learned_there_moves_at_once() -> None:
    group = with_state()
    newcomer = a_newcomer(group)
    group.settle()
    task = learning(group)
    problem = {task: LearnerProgress(None, problem="the state has format 1")}
    group.tell(ev.LearnerReported(newcomer.member_id, problem))
    assert group.asks_for_round()
    group.settle()
    assert task in group.runs("lake-1")


def test_a_report_that_says_the_same_costs_no_plan() -> None:
    group = with_state()
    newcomer = a_newcomer(group)
    group.settle()
    task = learning(group)
    before = group.machine.story()[-1]
    group.learned(newcomer, **{f"a_{task.task}": 900})
    assert group.machine.story()[-1] == before


def test_the_next_leader_goes_on_with_the_same_learners() -> None:
    group = with_state()
    newcomer = a_newcomer(group)
    group.settle()
    task = learning(group)
    group.lose_lead()
    group.take_lead(*(member.report() for member in group.members.values()))
    group.round()
    group.settle()
    assert learning(group) == task
    assert task in group.runs("lake-0")
    group.learned(newcomer, **{f"a_{task.task}": 0})
    group.settle()
    assert task in group.runs("lake-1")


def test_a_report_is_forgotten_after_a_while() -> None:
    group = with_state(standbys=1)
    newcomer = a_newcomer(group)
    group.settle()
    group.learned(newcomer, a_0=0, a_1=0)
    group.advance(LEARNERS_VALID_MS)
    group.die("lake-0")
    group.round()
    assert not {task for task in group.runs("lake-1") if not task.is_instance}, "who knows what it has?"


def test_a_standby_runs_the_tasks_of_a_dead_member_in_the_next_round() -> None:
    group = with_state(standbys=1)
    newcomer = a_newcomer(group)
    # The balance first: one task each, and each learns the other's.
    group.learned(newcomer, a_0=0, a_1=0)
    group.settle()
    group.learned(newcomer, a_0=0, a_1=0)
    group.die("lake-0")
    assert group.asks_for_round()
    group.round()
    assert {A0, A1} <= group.runs("lake-1")


def test_strangers_are_told_nothing() -> None:
    group = with_state()
    stranger = FakeMember("lake-9", 99)
    assert group.machine.to_learn(stranger.member_id, group.now_ms) is None
    group.learned(stranger, a_0=0)
    assert not group.machine.state.learners.reports


def test_members_that_cannot_learn_get_tasks_as_before() -> None:
    group = with_state()
    newcomer = a_newcomer(group, learns=False)
    group.settle()
    assert len([task for task in newcomer.running if not task.is_instance]) == 1
    assert group.learned(newcomer) == ()


def test_a_warm_up_that_takes_too_long_is_given_up_in_a_round_of_its_own() -> None:
    group = with_state()
    newcomer = a_newcomer(group)
    group.settle()
    task = learning(group)
    group.advance(REPLICAS.warmup_timeout_ms)
    assert group.asks_for_round()
    group.settle()
    assert task in newcomer.running


def test_a_departing_member_hands_over_at_its_deadline() -> None:
    group = with_state()
    a_newcomer(group)
    group.settle()
    both = {TaskId("a", number) for number in range(2)}
    group.facts(Facts(expected=frozenset({"lake-1"}), leaving=frozenset({"lake-0"})))
    assert group.asks_for_round(), "the other task is to be learned, too"
    group.round()
    assert {told.task for told in group.learned(group.of("lake-1"))} == both
    assert both <= group.runs("lake-0")
    group.advance(group.machine.state.policy.depart_warm_ms)
    assert group.asks_for_round()
    group.settle()
    assert both <= group.runs("lake-1")
