"""Every round that Kafka's leader played is one decision: same inputs and state, same outcome and state."""

from collections.abc import Iterator
from typing import Any

import pytest

from cooperator.model import INSTANCE, Kip415Memory, Member, Memory, Policy, PolicyName, TaskId
from cooperator.model.java import sort_tasks
from cooperator.planner import View, plan
from cooperator.planner.kip415 import backoff_ms
from tests.harness.kafka_vectors import scenarios


def items(connectors: list[str], tasks: list[Any]) -> tuple[TaskId, ...]:
    instances = [TaskId(connector, INSTANCE) for connector in connectors]
    return (*instances, *(TaskId(connector, task) for connector, numbers in tasks for task in numbers))


def state(value: dict[str, Any]) -> Kip415Memory:
    return Kip415Memory(
        previous_generation=value["previous_generation"],
        previous_members=tuple(value["previous_members"]),
        previous_assignment=frozenset(items(value["previous_connectors"], value["previous_tasks"])),
        previous_revocation=frozenset(
            items(value["previous_revoked_connectors"], value["previous_revoked_tasks"])
        ),
        scheduled_rebalance_ms=value["scheduled_rebalance_ms"],
        delay_ms=value["delay_ms"],
        candidates=tuple(value["candidates"]),
        revoked_in_previous=value["revoked_in_previous"],
        successive_revoking_rebalances=value["successive_revoking_rebalances"],
    )


def view(scenario: dict[str, Any], round_: dict[str, Any], policy: PolicyName) -> View:
    return View(
        now_ms=round_["time_ms"],
        generation=round_["generation"],
        members=tuple(
            Member(m["id"], m["pod"], m["id"], items(m["connectors"], m["tasks"]), is_agent=False)
            for m in round_["members"]
        ),
        tasks=round_["config"],
        policy=Policy(policy, scheduled_rebalance_max_delay_ms=scenario["scheduled_rebalance_max_delay_ms"]),
        last_completed_generation=round_["leader_last_completed_generation"],
    )


def rounds(name: str) -> Iterator[Any]:
    for scenario in scenarios(name):
        before = None
        for round_ in scenario["rounds"]:
            before = round_.get("state_before", before)
            if not round_["out"]["error"]:
                yield pytest.param(scenario, round_, before, id=f"{scenario['name']}-{round_['round']}")
            before = round_.get("state_after")


@pytest.mark.parametrize(("scenario", "round_", "before"), list(rounds("named")))
def test_one_decision_of_kafka_s_leader(
    scenario: dict[str, Any], round_: dict[str, Any], before: dict[str, Any]
) -> None:
    decided, after = plan(view(scenario, round_, PolicyName.KIP415), Memory(kip415=state(before)))

    assert decided.delay_ms == round_["out"]["delay_ms"]
    for member_id, wanted in round_["out"]["members"].items():
        assignment = decided.assignments[member_id]
        assert sort_tasks(assignment.assigned) == sort_tasks(
            items(wanted["assigned_connectors"], wanted["assigned_tasks"])
        )
        assert sort_tasks(assignment.revoked) == sort_tasks(
            items(wanted["revoked_connectors"], wanted["revoked_tasks"])
        )
    assert after.kip415 == state(round_["state_after"])


@pytest.mark.parametrize(("scenario", "round_", "before"), list(rounds("eager")))
def test_one_decision_of_the_eager_leader(
    scenario: dict[str, Any], round_: dict[str, Any], before: Any
) -> None:
    decided, _ = plan(view(scenario, round_, PolicyName.EAGER), Memory())
    for member_id, wanted in round_["out"]["members"].items():
        assert sort_tasks(decided.assignments[member_id].assigned) == sort_tasks(
            items(wanted["assigned_connectors"], wanted["assigned_tasks"])
        )


@pytest.mark.parametrize(
    ("max_delay_ms", "wanted"),
    [
        (300_000, [40, 1600, 64_000, 300_000, 300_000]),
        (60_000, [40, 1600, 60_000]),
        (600_000, [40, 1600, 64_000, 599_999]),
        (1000, [40, 999]),
        (40, [40, 40]),
        (20, [19, 19]),
        (1, [1, 1]),
        (0, [0, 0]),
    ],
)
def test_the_back_off_is_truncated_as_java_truncates_it(max_delay_ms: int, wanted: list[int]) -> None:
    assert [backoff_ms(n, max_delay_ms) for n in range(1, len(wanted) + 1)] == wanted
