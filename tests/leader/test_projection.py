"""What a leader says of itself, for people."""

from collections.abc import Mapping
from typing import Any

from cooperator.leader.projection import plan_conditions, project
from cooperator.model import Policy
from twins.group_twin import GroupTwin


def told(group: GroupTwin) -> Mapping[str, Any]:
    return project(group.machine.state, {})


def conditions(group: GroupTwin) -> dict[str, list[Any]]:
    return {type_: rest for type_, *rest in plan_conditions(told(group))}


def test_a_plan_that_could_not_be_made_as_asked_is_a_condition_until_one_is() -> None:
    group = GroupTwin(Policy(assignor="Mine"))
    group.join("lake-0")
    group.round()
    [warning] = told(group)["warnings"]
    assert "assignor 'Mine' is not installed here" in warning
    assert conditions(group)["PlannedAsAsked"] == [False, "PlanWarning", warning]
    assert conditions(group)["Planned"] == [True, "Planned", ""], "there is a plan nevertheless"

    group.policy(Policy(assignor="Range"))
    group.round()
    assert told(group)["warnings"] == []
    assert conditions(group)["PlannedAsAsked"] == [True, "PlannedAsAsked", ""]
