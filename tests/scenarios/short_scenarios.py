"""Short scenarios for tests, and extracts from their runs."""

import json
from typing import Any

from cooperator.model import PolicyName, TaskId
from cooperator.scenarios.driver import ScenarioRound, ScenarioRun, drive
from cooperator.scenarios.report import metrics
from cooperator.scenarios.scenario import Scenario, parse_scenarios

KAFKA, DEFAULT = PolicyName.KIP415, PolicyName.DEFAULT


def scenario(
    *events: tuple[float, str, Any], workers: int = 3, delay_s: float = 300, **config: int
) -> Scenario:
    """Events are ``(seconds, type, subject)``; the subject is a pod, a connector, or the event's fields."""
    config = config or {"connector1": 4, "connector2": 4}
    value = {
        "name": "play",
        "scheduled_rebalance_max_delay_ms": int(delay_s * 1000),
        "rejoin_ms": 1000,
        "config0": config,
        "workers0": list(range(workers)),
        "events": [_event(*event) for event in events],
    }
    (parsed,) = parse_scenarios([json.dumps(value)], "play")
    return parsed


def _event(seconds: float, kind: str, subject: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"time_ms": int(seconds * 1000), "type": kind}
    if isinstance(subject, dict):
        return event | subject
    return event | ({"connector": subject} if isinstance(subject, str) else {"pod": subject})


def play(
    policy: PolicyName, *events: tuple[float, str, Any], informed: bool = True, **more: Any
) -> ScenarioRun:
    return drive(scenario(*events, **more), policy, informed)


def measured(policy: PolicyName, *events: tuple[float, str, Any], **more: Any) -> dict[str, Any]:
    return metrics(play(policy, *events, **more))


def at(run: ScenarioRun, seconds: float) -> ScenarioRound:
    """The round at that time."""
    return next(round_ for round_ in run.rounds if round_.time_ms == int(seconds * 1000))


def revoked(round_: ScenarioRound) -> set[TaskId]:
    return {item for assignment in round_.outcome.plan.assignments.values() for item in assignment.revoked}


def assigned(round_: ScenarioRound, pod: str | None = None) -> set[TaskId]:
    return {
        item
        for member in round_.members
        if pod in (None, member.process.name)
        for item in round_.outcome.assignment(member.member_id).assigned
    }


def runs_before(round_: ScenarioRound, pod: str) -> set[TaskId]:
    return {item for member in round_.members if member.process.name == pod for item in member.items}
