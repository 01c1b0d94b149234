"""The leader's status for users."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cooperator.host.group import group_seen
from cooperator.leader.observability.projection import is_settled, plan_conditions, project
from cooperator.model import INSTANCE, Epoch, Policy, TaskId, TaskState, TaskStatus
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup


def projected(group: FakeGroup) -> Mapping[str, Any]:
    return project(group.machine.state, {})


def conditions(group: FakeGroup) -> dict[str, list[Any]]:
    return {type_: rest for type_, *rest in plan_conditions(projected(group))}


def test_a_plan_that_could_not_be_made_as_asked_is_a_condition_until_one_is() -> None:
    group = FakeGroup(Policy(assignor="Mine"))
    group.join("lake-0")
    group.round()
    [warning] = projected(group)["warnings"]
    assert "assignor 'Mine' is not installed here" in warning
    assert conditions(group)["PlannedAsAsked"] == [False, "PlanWarning", warning]
    assert conditions(group)["Planned"] == [True, "Planned", ""], "there is a plan nevertheless"

    group.policy(Policy(assignor="Uniform"))
    group.round()
    assert projected(group)["warnings"] == []
    assert conditions(group)["PlannedAsAsked"] == [True, "PlannedAsAsked", ""]


def with_one_task(connector: str) -> FakeGroup:
    """lake-0 has the connector and its task."""
    group = FakeGroup()
    group.join("lake-0")
    group.round()
    group.desire(**{connector: 1})
    group.settle()
    group.post(connector, "u0")
    group.settle()
    return group


def task(group: FakeGroup, name: str) -> Mapping[str, Any]:
    [found] = (task for task in projected(group)["tasks"] if task["name"] == name)
    return dict(found)


def test_a_task_in_quarantine_has_failed_and_says_what_to_do() -> None:
    group = with_one_task("bad")
    assert task(group, "bad-0")["member"] == "lake-0"

    dead = group.die("lake-0")
    poisoned = frozenset({TaskId("bad", 0)})
    group.facts(Facts(ended=frozenset(group.dead), poisoned=poisoned))
    assert task(group, "bad-0")["state"] == "FAILED", "before the round without its dead member"
    group.round()
    back = group.join("lake-0")
    group.round()
    assert dead.running - back.running == poisoned
    found = task(group, "bad-0")
    assert (found["state"], found["reason"], found["member"]) == ("FAILED", "PoisonTask", None)
    assert "fix its connector, then restart it" in found["trace"]
    assert not group.asks_for_round()

    group.facts(Facts(ended=frozenset(group.dead)))
    group.settle()
    assert back.running == dead.running
    assert "reason" not in task(group, "bad-0")


def test_reports_of_an_incarnation_do_not_apply_to_the_next() -> None:
    group = with_one_task("a")
    state = group.machine.state

    def runs(epoch: Epoch) -> list[str]:
        tasks = (TaskId("a", INSTANCE), TaskId("a", 0))
        said = {task: TaskStatus(task, TaskState.RUNNING, "lake-0", epoch) for task in tasks}
        return [found["state"] for found in project(state, said)["tasks"]]

    before = Epoch(state.memory.term, state.generation)
    assert runs(before) == ["RUNNING", "RUNNING"]
    group.round()
    assert runs(before) == ["RUNNING", "RUNNING"], "nobody has died: the earlier message still holds"

    group.die("lake-0")
    group.facts(Facts(ended=frozenset(group.dead)))
    group.round()
    group.join("lake-0")
    group.round()
    assert runs(before) == ["UNASSIGNED", "UNASSIGNED"], "its successor has said nothing yet"
    assert runs(Epoch(state.memory.term, state.generation)) == ["RUNNING", "RUNNING"]


def test_a_task_that_failed_says_when_it_is_tried_again_and_the_group_is_at_rest_meanwhile() -> None:
    group = with_one_task("a")
    instance, a0 = TaskId("a", INSTANCE), TaskId("a", 0)
    runs = TaskStatus(instance, TaskState.RUNNING, "lake-0")
    waits = TaskStatus(a0, TaskState.RESTARTING, "lake-0", trace="no disk", next_attempt_ms=70_000)

    def projected_with(status: TaskStatus) -> dict[str, Any]:
        return project(group.machine.state, {instance: runs, a0: status})

    [_, found] = projected_with(waits)["tasks"]
    assert (found["state"], found["trace"], found["next_attempt_ms"]) == ("RESTARTING", "no disk", 70_000)
    assert is_settled(projected_with(waits))
    assert not is_settled(projected_with(replace(waits, next_attempt_ms=0))), "it stops, to start anew"

    [_, found] = projected_with(replace(waits, state=TaskState.FAILED, reason="RestartLimit"))["tasks"]
    assert (found["state"], found["reason"]) == ("FAILED", "RestartLimit")


def test_a_stopped_connector_is_at_rest_though_its_instance_does_not_run() -> None:
    group = with_one_task("a")
    instance, a0 = TaskId("a", INSTANCE), TaskId("a", 0)
    said = {
        instance: TaskStatus(instance, TaskState.STOPPED, "lake-0"),
        a0: TaskStatus(a0, TaskState.RUNNING, "lake-0"),
    }
    projected = dict(project(group.machine.state, said))
    assert not is_settled(projected), "nobody has asked for that: it is being started anew"

    [target] = projected["connectors"].values()
    target["state"] = "STOPPED"
    assert is_settled(projected)


def test_a_task_that_hangs_in_its_stop_is_a_condition_until_its_member_has_ended() -> None:
    group = with_one_task("a")
    state = group.machine.state
    a0 = TaskId("a", 0)
    hangs = TaskStatus(a0, TaskState.STOPPING, "lake-0", trace="a-0 (unit u0) of lake-0", reason="Hung")

    def hung(status: TaskStatus) -> list[Any]:
        return {type_: rest for type_, *rest in plan_conditions(project(state, {a0: status}))}["Hung"]

    def hanging(status: TaskStatus) -> bool:
        """Whether the pool knows, which must not take its end for that of a task that starts."""
        seen = group_seen(project(state, {a0: status}))
        return seen is not None and seen.members["lake-0"].hangs

    assert hung(hangs) == [True, "MemberHangs", "a-0 (unit u0) of lake-0"]
    assert hanging(hangs)
    assert not hanging(replace(hangs, reason="", trace=""))
    assert hung(replace(hangs, reason="", trace="")) == [False, "NoneHangs", ""]
    group.desire()
    assert project(state, {})["tasks"] == []
    assert hung(hangs)[0], "its connector is deleted, and it hangs all the same"
    group.die("lake-0")
    group.facts(Facts(ended=frozenset(group.dead)))
    assert hung(hangs) == [False, "NoneHangs", ""]
