"""A slow or frozen member delays only the tasks that it is to give, and changes need no barrier."""

import pytest

from cooperator.model import TaskId
from cooperator.reconciliation import MemberState, join, retarget
from cooperator.reconciliation.group import ReconciledGroup
from tests.reconciliation.world import REVOCATION_TIMEOUT_MS, World

NEW = TaskId("new", 0)
WITHIN_MS = 200


@pytest.fixture
def world() -> World:
    """Four members, each with three tasks."""
    world = World(seed=1, tasks=12)
    for identity in "abcd":
        world.start(identity)
    world.run(2_000)
    tasks = sorted(world.tasks)
    world.set_layout({identity: set(tasks[at::4]) for at, identity in enumerate("abcd")})
    assert world.run(2_000, until=world.is_settled)
    return world


def moved(world: World, *moves: tuple[TaskId, str, str]) -> dict[str, set[TaskId]]:
    layout = {identity: set(tasks) for identity, tasks in world.layout.items()}
    for task, before, after in moves:
        layout[before].remove(task)
        layout[after].add(task)
    return layout


def state(world: World, identity: str) -> MemberState:
    return world.leader.group.members[identity].current.state


def test_new_tasks_run_at_once_while_a_member_is_frozen(world: World) -> None:
    world.processes["a"].frozen = True
    layout = moved(world)
    layout["b"].add(NEW)
    world.set_layout(layout)

    assert world.run(WITHIN_MS, until=lambda: NEW in world.running("b"))


def test_a_slow_member_delays_only_what_it_is_to_give(world: World) -> None:
    from_a, from_b, from_c = (min(world.running(identity)) for identity in "abc")
    world.processes["a"].stop_ms = 8_000
    world.set_layout(moved(world, (from_a, "a", "b"), (from_b, "b", "c"), (from_c, "c", "d")))

    assert world.run(WITHIN_MS, until=lambda: from_b in world.running("c") and from_c in world.running("d"))
    assert (state(world, "a"), state(world, "b")) == (
        MemberState.UNREVOKED_TASKS,
        MemberState.UNRELEASED_TASKS,
    )
    assert from_a not in world.running("b")
    assert world.run(9_000, until=world.is_settled)


def test_targets_change_again_while_a_member_is_revoking(world: World) -> None:
    from_a, from_b = min(world.running("a")), min(world.running("b"))
    world.processes["a"].stop_ms = 8_000
    world.set_layout(moved(world, (from_a, "a", "b")))
    world.run(1_000)
    world.set_layout(moved(world, (from_b, "b", "d")))

    assert world.run(WITHIN_MS, until=lambda: from_b in world.running("d"))
    assert from_a not in world.running("b")


def test_a_member_that_never_releases_is_overdue(world: World) -> None:
    from_a = min(world.running("a"))
    world.processes["a"].stop_ms = 10 * REVOCATION_TIMEOUT_MS
    world.set_layout(moved(world, (from_a, "a", "b")))

    world.run(REVOCATION_TIMEOUT_MS - 1_000)
    assert (world.counts["overdue"], from_a in world.running("b")) == (0, False)
    assert world.run(5_000, until=lambda: from_a in world.running("b"))
    assert world.counts["overdue"] == 1


def test_joins_and_departures_change_nobody_s_tasks(world: World) -> None:
    before = {identity: world.running(identity) for identity in "abcd"}
    records = len(world.log)
    world.start("e")
    world.run(2_000)
    world.kill("e", proven=True)
    world.run(15_000)

    assert {identity: world.running(identity) for identity in "abcd"} == before
    changed = {key.identity for records in world.log[records:] for key in records}
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
