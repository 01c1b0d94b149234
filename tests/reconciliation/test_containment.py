"""A slow or frozen member delays only the tasks that it is to give, and changes need no barrier."""

import pytest

from cooperator.model import TaskId
from cooperator.reconciliation import MemberState, join, retarget
from cooperator.reconciliation.group import ReconciledGroup
from cooperator.reconciliation.patience import PATIENCE_MS
from tests.reconciliation.group_simulation import REVOCATION_TIMEOUT_MS, GroupSimulation

NEW = TaskId("new", 0)
WITHIN_MS = 200


@pytest.fixture
def simulation() -> GroupSimulation:
    """Four members, each with three tasks."""
    simulation = GroupSimulation(seed=1, tasks=12)
    for identity in "abcd":
        simulation.start(identity)
    simulation.run(2_000)
    tasks = sorted(simulation.tasks)
    simulation.set_layout({identity: set(tasks[at::4]) for at, identity in enumerate("abcd")})
    assert simulation.run(2_000, until=simulation.is_settled)
    return simulation


def moved(simulation: GroupSimulation, *moves: tuple[TaskId, str, str]) -> dict[str, set[TaskId]]:
    layout = {identity: set(tasks) for identity, tasks in simulation.layout.items()}
    for task, before, after in moves:
        layout[before].remove(task)
        layout[after].add(task)
    return layout


def state(simulation: GroupSimulation, identity: str) -> MemberState:
    return simulation.leader.group.members[identity].current.state


def test_new_tasks_run_at_once_while_a_member_is_frozen(simulation: GroupSimulation) -> None:
    simulation.processes["a"].frozen = True
    layout = moved(simulation)
    layout["b"].add(NEW)
    simulation.set_layout(layout)

    assert simulation.run(WITHIN_MS, until=lambda: NEW in simulation.running("b"))


def test_new_tasks_of_a_frozen_member_run_at_others_soon(simulation: GroupSimulation) -> None:
    simulation.processes["a"].frozen = True
    # Its last report has arrived: the answer to that could give it the task.
    simulation.run(100)
    layout = moved(simulation)
    layout["a"].add(NEW)
    simulation.set_layout(layout)

    assert simulation.run(
        PATIENCE_MS + WITHIN_MS, until=lambda: any(NEW in simulation.running(identity) for identity in "bcd")
    )
    simulation.processes["a"].frozen = False
    simulation.run(5_000)
    assert NEW not in simulation.running("a")


def test_new_tasks_of_a_member_that_releases_slowly_run_at_others_soon(simulation: GroupSimulation) -> None:
    from_a = min(simulation.running("a"))
    simulation.processes["a"].stop_ms = 8_000
    layout = moved(simulation, (from_a, "a", "b"))
    layout["a"].add(NEW)
    simulation.set_layout(layout)

    # The task that a is to give is late for b, too, but that is no new one: it has an occupant.
    assert simulation.run(
        PATIENCE_MS + WITHIN_MS, until=lambda: any(NEW in simulation.running(identity) for identity in "bcd")
    )
    assert state(simulation, "a") is MemberState.UNREVOKED_TASKS
    assert simulation.run(9_000, until=simulation.is_settled)


def test_a_slow_member_delays_only_what_it_is_to_give(simulation: GroupSimulation) -> None:
    from_a, from_b, from_c = (min(simulation.running(identity)) for identity in "abc")
    simulation.processes["a"].stop_ms = 8_000
    simulation.set_layout(moved(simulation, (from_a, "a", "b"), (from_b, "b", "c"), (from_c, "c", "d")))

    assert simulation.run(
        WITHIN_MS,
        until=lambda: from_b in simulation.running("c") and from_c in simulation.running("d"),
    )
    assert (state(simulation, "a"), state(simulation, "b")) == (
        MemberState.UNREVOKED_TASKS,
        MemberState.UNRELEASED_TASKS,
    )
    assert from_a not in simulation.running("b")
    assert simulation.run(9_000, until=simulation.is_settled)


def test_targets_change_again_while_a_member_is_revoking(simulation: GroupSimulation) -> None:
    from_a, from_b = min(simulation.running("a")), min(simulation.running("b"))
    simulation.processes["a"].stop_ms = 8_000
    simulation.set_layout(moved(simulation, (from_a, "a", "b")))
    simulation.run(1_000)
    simulation.set_layout(moved(simulation, (from_b, "b", "d")))

    assert simulation.run(WITHIN_MS, until=lambda: from_b in simulation.running("d"))
    assert from_a not in simulation.running("b")


def test_a_member_that_never_releases_is_overdue(simulation: GroupSimulation) -> None:
    from_a = min(simulation.running("a"))
    simulation.processes["a"].stop_ms = 10 * REVOCATION_TIMEOUT_MS
    simulation.set_layout(moved(simulation, (from_a, "a", "b")))

    simulation.run(REVOCATION_TIMEOUT_MS - 1_000)
    assert (simulation.counts["overdue"], from_a in simulation.running("b")) == (0, False)
    assert simulation.run(5_000, until=lambda: from_a in simulation.running("b"))
    assert simulation.counts["overdue"] == 1


def test_joins_and_departures_change_nobody_s_tasks(simulation: GroupSimulation) -> None:
    before = {identity: simulation.running(identity) for identity in "abcd"}
    records = len(simulation.log)
    simulation.start("e")
    simulation.run(2_000)
    simulation.kill("e", proven=True)
    simulation.run(15_000)

    assert {identity: simulation.running(identity) for identity in "abcd"} == before
    changed = {key.identity for records in simulation.log[records:] for key in records}
    assert changed <= {"e", ""}


def test_a_change_is_recorded_for_the_members_that_it_concerns() -> None:
    """One of a thousand members gets a task: the records do not grow with what exists."""
    group = ReconciledGroup()
    identities = [f"m{number}" for number in range(1_000)]
    for identity in identities:
        group = join(group, identity, f"{identity}#1", now_ms=0, fence_ms=0)
    layout = {identity: frozenset({TaskId(identity, 0)}) for identity in identities}
    group = retarget(group, layout)

    after = retarget(group, {**layout, "m7": layout["m7"] | {NEW}})

    differing = [identity for identity in identities if after.targets[identity] != group.targets[identity]]
    assert differing == ["m7"]
    assert after.assignment_epoch == group.assignment_epoch + 1


def test_a_task_has_one_place() -> None:
    with pytest.raises(ValueError, match="gives a task to two identities"):
        retarget(ReconciledGroup(), {"a": frozenset({NEW}), "b": frozenset({NEW})})
