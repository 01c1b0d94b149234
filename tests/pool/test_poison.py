"""Tasks whose start kills or freezes their member."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from cooperator.model import TaskId
from cooperator.model.thread_names import task_digest
from cooperator.pool import ReportReason, pardon
from cooperator.pool.poison import WATCH_MS
from tests.pool.unreliable_pods import UnreliablePods

Start = Callable[..., UnreliablePods]

BAD, GOOD, OTHER = TaskId("bad", 0), TaskId("good", 0), TaskId("other", 0)


def starts(pods: UnreliablePods, identity: str, *tasks: TaskId) -> None:
    member = pods.members[identity]
    pods.members[identity] = replace(member, starting=frozenset(tasks), owned=member.owned | {*tasks})
    pods.decide()


def die_while_starting(pods: UnreliablePods, identity: str, *tasks: TaskId, by_signal: bool = True) -> None:
    starts(pods, identity, *tasks)
    pods.crash(identity, by_signal)
    pods.settle()


def survives(pods: UnreliablePods, identity: str, *tasks: TaskId) -> None:
    starts(pods, identity, *tasks)
    starts(pods, identity)
    pods.now_ms += WATCH_MS
    pods.decide()


def poisoned(pods: UnreliablePods) -> frozenset[TaskId]:
    facts = pods.decide().facts
    return facts.poisoned - facts.suspected


def test_the_second_death_on_any_members_quarantines_a_task(pool: Start) -> None:
    pods = pool(3)
    die_while_starting(pods, "lake-0", BAD)
    assert poisoned(pods) == frozenset()

    die_while_starting(pods, "lake-1", BAD)

    assert poisoned(pods) == {BAD}
    assert ReportReason.POISON_TASK in {report.reason for report in pods.decide().reports}


def test_a_death_that_the_group_noticed_first_counts_too(pool: Start) -> None:
    pods = pool(2)
    for _ in range(2):
        starts(pods, "lake-1", BAD)
        pods.drop("lake-1")
        pods.decide()
        pods.now_ms += 3 * WATCH_MS  # A frozen member is ended when its lease ends.
        pods.decide()
        pods.crash("lake-1")
        pods.settle()

    assert poisoned(pods) == {BAD}


@pytest.mark.parametrize(("after_ms", "quarantined"), [(WATCH_MS - 1, True), (WATCH_MS, False)])
def test_a_task_that_kills_soon_after_its_start_counts(pool: Start, after_ms: int, quarantined: bool) -> None:
    pods = pool(2)
    for _ in range(2):
        starts(pods, "lake-1", BAD)
        starts(pods, "lake-1")
        pods.now_ms += after_ms
        pods.decide()
        pods.crash("lake-1")
        pods.settle()

    assert (poisoned(pods) == {BAD}) is quarantined


def test_a_task_that_is_never_seen_starting_counts_and_those_that_ran_long_do_not(pool: Start) -> None:
    pods = pool(2)
    for identity in ("lake-0", "lake-1"):
        survives(pods, identity, GOOD)
        member = pods.members[identity]
        pods.members[identity] = replace(member, owned=member.owned | {BAD})
        pods.decide()
        pods.now_ms += 3 * WATCH_MS  # The frozen member reports nothing new.
        pods.drop(identity)
        pods.decide()
        pods.crash(identity)
        pods.settle()
    assert poisoned(pods) == {BAD}
    assert GOOD not in pods.memory.suspects


def test_a_start_survived_clears_the_count(pool: Start) -> None:
    pods = pool(2)
    die_while_starting(pods, "lake-1", BAD, GOOD)
    survives(pods, "lake-0", GOOD)
    die_while_starting(pods, "lake-1", BAD, GOOD)
    assert poisoned(pods) == frozenset(), "either of them may have done it"
    die_while_starting(pods, "lake-0", BAD)

    assert poisoned(pods) == {BAD}


def test_several_suspects_start_one_at_a_time_and_the_innocent_are_cleared(pool: Start) -> None:
    pods = pool(3)
    for identity in ("lake-0", "lake-1"):
        die_while_starting(pods, identity, BAD, GOOD, OTHER)
    assert len(pods.decide().facts.suspected) == 2
    while pods.decide() and pods.memory.trial is not None:
        tasks = pods.memory.trial.tasks
        (die_while_starting if BAD in tasks else survives)(pods, "lake-2", *sorted(tasks))

    assert pods.decide().facts.poisoned == {BAD} == poisoned(pods)
    assert set(pods.memory.suspects) == {BAD}


def test_each_trial_that_nobody_dies_of_lets_twice_as_many_start(pool: Start) -> None:
    pods = pool(3)
    tasks = [TaskId("many", number) for number in range(100)]
    for identity in ("lake-0", "lake-1"):
        die_while_starting(pods, identity, *tasks)
    sizes = []
    while pods.decide().facts.poisoned:
        assert pods.memory.trial is not None
        sizes.append(len(pods.memory.trial.tasks))
        survives(pods, "lake-2", *sorted(pods.memory.trial.tasks))
    assert sizes == [1, 2, 4, 8, 16, 32]


def test_a_death_in_a_trial_of_many_makes_the_next_one_of_one(pool: Start) -> None:
    pods = pool(3)
    tasks = [TaskId("many", number) for number in range(8)]
    bad = tasks[-1]
    for identity in ("lake-0", "lake-1"):
        die_while_starting(pods, identity, *tasks)
    deaths = 0
    while poisoned(pods) != {bad}:
        assert pods.memory.trial is not None
        on_trial = sorted(pods.memory.trial.tasks)
        deaths += bad in on_trial
        (die_while_starting if bad in on_trial else survives)(pods, "lake-2", *on_trial)
    assert poisoned(pods) == {bad}
    assert deaths <= 3


def test_a_suspect_that_does_not_start_does_not_keep_the_others_waiting_for_ever(pool: Start) -> None:
    pods = pool(2)
    for _ in range(2):
        die_while_starting(pods, "lake-0", BAD, GOOD)
    before = pods.decide().facts.suspected
    assert len(before) == 1

    pods.now_ms += WATCH_MS

    assert pods.decide().facts.suspected == {BAD, GOOD} - before


def test_quarantine_lasts_until_a_pardon(pool: Start) -> None:
    pods = pool(2)
    for _ in range(2):
        die_while_starting(pods, "lake-1", BAD)
    survives(pods, "lake-1", BAD)
    assert poisoned(pods) == {BAD}

    pods.memory = pardon(pods.memory, [BAD])
    assert pods.decide().facts.poisoned == frozenset()


def freezes(pods: UnreliablePods, identity: str, task: TaskId) -> None:
    pods.crash(identity, frozen_by=task_digest(task))
    pods.settle()


def test_a_task_whose_thread_froze_its_member_counts_however_long_it_had_run(pool: Start) -> None:
    pods = pool(2)
    for identity in ("lake-0", "lake-1"):
        for _ in range(5):
            survives(pods, identity, BAD, GOOD)
        starts(pods, identity, OTHER)
        freezes(pods, identity, BAD)
    assert poisoned(pods) == {BAD}
    assert not pods.decide().facts.suspected, "neither its old neighbour nor the new one"


@pytest.mark.parametrize(("hours", "quarantined"), [(23, True), (25, False)])
def test_a_thread_that_was_seen_to_freeze_a_member_is_remembered_for_a_day(
    pool: Start, hours: int, quarantined: bool
) -> None:
    pods = pool(2)
    survives(pods, "lake-0", BAD)
    freezes(pods, "lake-0", BAD)
    survives(pods, "lake-1", BAD)
    pods.now_ms += hours * 3_600_000 - WATCH_MS
    pods.decide()
    freezes(pods, "lake-1", BAD)
    assert (BAD in poisoned(pods)) == quarantined


def test_a_digest_of_no_task_of_the_member_leaves_the_new_tasks_accused(pool: Start) -> None:
    pods = pool(2)
    for identity in ("lake-0", "lake-1"):
        starts(pods, identity, BAD)
        freezes(pods, identity, OTHER)
    assert poisoned(pods) == {BAD}


def test_requested_ends_do_not_count(pool: Start) -> None:
    pods = pool(2)
    for revision in ("r2", "r3", "r4"):
        for identity in list(pods.members):
            starts(pods, identity, GOOD)
        pods.desired = replace(pods.desired, revision=revision)
        pods.settle()

    assert pods.decide().facts.poisoned == frozenset()


def test_requested_ends_suspect_nobody_and_delay_nothing(pool: Start) -> None:
    pods = pool(1)
    for _ in range(20):
        starts(pods, "lake-0", BAD, GOOD)
        pods.end_on_request("lake-0")
        pods.settle()
        assert pods.memory.suspects == {}
        assert pods.memory.crashes == {}
        assert pods.decide().reports == ()
    for _ in range(2):
        die_while_starting(pods, "lake-0", BAD)
    assert poisoned(pods) == {BAD}, "other deaths count as before"


def test_an_exit_of_its_own_does_not_count(pool: Start) -> None:
    pods = pool(2)
    for _ in range(4):
        die_while_starting(pods, "lake-1", GOOD, by_signal=False)

    assert pods.decide().facts.poisoned == frozenset()


def test_the_end_of_a_member_whose_stop_hangs_accuses_none_of_its_young_tasks(pool: Start) -> None:
    pods = pool(3)
    for round_ in range(6):
        identity = f"lake-{round_ % 3}"
        starts(pods, identity, GOOD)
        pods.now_ms += WATCH_MS // 4
        pods.members[identity] = replace(pods.members[identity], hangs=True)
        pods.decide()
        if round_ % 2:
            pods.drop(identity)
            pods.decide()
        pods.crash(identity)
        pods.settle()
    assert pods.memory.suspects == {}
    for identity in ("lake-0", "lake-1"):
        die_while_starting(pods, identity, BAD)
    assert poisoned(pods) == {BAD}, "other deaths count as before"


def test_twenty_losses_of_nodes_quarantine_nobody(pool: Start) -> None:
    pods = pool(3)
    for loss in range(20):
        identity = f"lake-{loss % 3}"
        starts(pods, identity, GOOD)
        name = pods.pods[identity].node
        before = pods.nodes[name]
        pods.nodes[name] = replace(before, ready=False)
        pods.decide()
        pods.crash(identity)  # The kubelet reports the signal, sometimes only when it is back.
        if loss % 2:
            pods.decide()
        pods.nodes[name] = before
        pods.settle()

    assert pods.decide().facts.poisoned == frozenset()
    assert not pods.memory.suspects


@pytest.mark.parametrize("seed", range(50))
def test_in_any_interleaving_the_culprits_and_only_they_are_quarantined(pool: Start, seed: int) -> None:
    chance = random.Random(seed)
    pods = pool(3)
    tasks = [TaskId(f"c{number}", 0) for number in range(5)]
    bad = set(chance.sample(tasks, chance.randint(0, 2)))

    def start(some: list[TaskId]) -> None:
        identity = f"lake-{chance.randrange(3)}"
        (die_while_starting if bad & set(some) else survives)(pods, identity, *some)

    for _ in range(30):
        may = sorted(set(tasks) - pods.decide().facts.poisoned)
        start(chance.sample(may, min(len(may), chance.randint(1, 3))))
        assert poisoned(pods) <= bad
    for _ in range(6 * len(tasks)):
        may = sorted(set(tasks) - pods.decide().facts.poisoned)
        start([chance.choice(may)])

    assert pods.decide().facts.poisoned == bad == poisoned(pods)
