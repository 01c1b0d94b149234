"""Every step and every new target equals what Kafka's own builders make of the same group."""

from random import Random

import pytest

from cooperator.model import TaskId
from cooperator.reconciliation import (
    CurrentAssignment,
    MemberState,
    ReconciledGroup,
    changes,
    join,
    next_assignment,
    reports,
    retarget,
)
from cooperator.reconciliation.group import TargetAssignment
from cooperator.reconciliation.records import RecordKey, RecordKind
from tests.reconciliation.kafka import NewTargets, Step, ask_kafka, shown, shown_targets
from tests.reconciliation.test_histories import play

pytestmark = pytest.mark.real

STEPS = 2_000
TARGETS = 500
HISTORIES = 12

TASKS = tuple(TaskId(f"c{connector}", number) for connector in range(3) for number in range(-1, 4))
MEMBERS = ("a", "b", "c", "d")


def test_steps_and_targets_are_kafkas(monkeypatch: pytest.MonkeyPatch) -> None:
    """One JVM answers for random states, for the steps of random histories, and for random targets."""
    dice = Random(848)
    steps = [random_step(dice) for _ in range(STEPS)]
    lived = steps_of_histories(monkeypatch)
    targets = [random_targets(dice) for _ in range(TARGETS)]
    questions = [*steps, *lived]

    asked = [*(step.line() for step in questions), *(new.line() for new in targets)]
    answers = ask_kafka(asked)

    assert len(answers) == len(questions) + len(targets)
    for step, answer in zip(questions, answers, strict=False):
        assert shown(ours(step)) == answer, step
    for new, answer in zip(targets, answers[len(questions) :], strict=True):
        assert our_records(new) == answer, new
    seen = {(step.current.state, ours(step).state) for step in questions}
    assert len(seen) == len(MemberState) ** 2, "a transition was never played"
    assert len(lived) > 1_000


def ours(step: Step) -> CurrentAssignment:
    return next_assignment(
        step.current, step.target, step.target_epoch, step.owned, step.occupied.__contains__
    )


def random_tasks(dice: Random, likelihood: float) -> frozenset[TaskId]:
    return frozenset(task for task in TASKS if dice.random() < likelihood)


def random_step(dice: Random) -> Step:
    """A state of a member with any target, report and others, be it possible or not."""
    epoch = dice.randint(0, 5)
    assigned = {task: dice.randint(0, epoch) for task in random_tasks(dice, 0.3)}
    pending = {task: dice.randint(0, epoch) for task in random_tasks(dice, 0.2) - assigned.keys()}
    state = dice.choice([*MemberState])
    if state is not MemberState.UNREVOKED_TASKS:
        pending = {}
    current = CurrentAssignment(epoch, max(epoch - 1, 0), state, assigned, pending)
    owned = dice.choice([None, frozenset(), frozenset(assigned), random_tasks(dice, 0.2)])
    occupied = current.occupied | random_tasks(dice, dice.choice([0, 0.3]))
    return Step(current, random_tasks(dice, 0.4), dice.randint(epoch, 6), owned, occupied)


def steps_of_histories(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    found: dict[str, Step] = {}

    def noted(current, target, target_epoch, owned, is_occupied):
        occupied = frozenset(is_occupied.__self__)
        step = Step(current, target, target_epoch, owned, occupied)
        found[step.line()] = step
        return next_assignment(current, target, target_epoch, owned, is_occupied)

    with monkeypatch.context() as patch:
        patch.setattr(reports, "next_assignment", noted)
        for seed in range(HISTORIES):
            play(seed)
    return list(found.values())


def random_targets(dice: Random) -> NewTargets:
    members = tuple(member for member in MEMBERS if dice.random() < 0.8)
    before = random_layout(dice, tuple(member for member in members if dice.random() < 0.8))
    after = {**before, **random_layout(dice, members)} if dice.random() < 0.5 else dict(before)
    layout = {member: tasks for member, tasks in after.items() if dice.random() < 0.9}
    owner: dict[TaskId, str] = {task: member for member, tasks in layout.items() for task in tasks}
    layout = {m: frozenset(task for task in tasks if owner[task] == m) for m, tasks in layout.items()}
    return NewTargets(dice.randint(10, 20), members, before, layout)


def random_layout(dice: Random, members: tuple[str, ...]) -> dict[str, frozenset[TaskId]]:
    layout: dict[str, set[TaskId]] = {member: set() for member in members}
    for task in TASKS if members else ():
        if dice.random() < 0.7:
            layout[dice.choice(members)].add(task)
    return {member: frozenset(tasks) for member, tasks in layout.items()}


def our_records(new: NewTargets) -> str:
    """Our records of the same change, in the form of Kafka's answer."""
    group = ReconciledGroup()
    for member in new.members:
        group = join(group, member, f"{member}#1", now_ms=0, fence_ms=0)
    targets = {member: TargetAssignment(3, tasks) for member, tasks in new.before.items()}
    group = ReconciledGroup(epoch=new.epoch, assignment_epoch=9, targets=targets, members=group.members)
    records = changes(group, retarget(group, new.layout))
    written = {
        key.identity: value.tasks
        for key, value in records.items()
        if key.kind is RecordKind.TARGET and isinstance(value, TargetAssignment)
    }
    _, _, epoch = records[RecordKey(RecordKind.GROUP)]
    return f"{epoch}|{shown_targets(written)}"
