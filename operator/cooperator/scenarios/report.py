"""Reports runs in the vectors' output format: one JSON object per scenario, with rounds and metrics."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cooperator.model import Kip415Memory, Memory, PolicyName, TaskId
from cooperator.model.java import sort_strings, sort_tasks
from cooperator.scenarios.driver import ScenarioRound, ScenarioRun


def report(run: ScenarioRun) -> dict[str, Any]:
    """Return the scenario with its rounds and metrics."""
    scenario = run.scenario
    return {
        "id": scenario.id,
        "name": scenario.name,
        "policy": run.policy.value,
        "protocol": scenario.protocol,
        "scheduled_rebalance_max_delay_ms": scenario.max_delay_ms,
        "rejoin_ms": scenario.rejoin_ms,
        "config0": dict(scenario.config0),
        "workers0": [f"w{pod:02d}" for pod in scenario.workers0],
        "events": [dict(event.raw) for event in scenario.events],
        "rounds": [_round(round_, run.policy) for round_ in run.rounds],
        "metrics": metrics(run),
    }


def _round(round_: ScenarioRound, policy: PolicyName) -> dict[str, Any]:
    outcome = round_.outcome
    value: dict[str, Any] = {
        "round": round_.number,
        "time_ms": round_.time_ms,
        "trigger": list(round_.trigger),
        "events": [dict(event.raw) for event in round_.events],
        "generation": round_.generation,
        "leader": outcome.leader,
        "leader_last_completed_generation": outcome.leader_last_completed,
    }
    if policy is PolicyName.KIP415:
        value["leader_state"] = outcome.state
        if outcome.state != "carried":
            value["state_before"] = state(outcome.before)
    value |= {
        "config_offset": round_.config_offset,
        "config": round_.config,
        "members": [
            {
                "id": member.member_id,
                "pod": member.process.name,
                "offset": member.offset,
                "connectors": [item.connector for item in member.items if item.is_instance],
                "tasks": runs(item for item in member.items if not item.is_instance),
            }
            for member in round_.members
        ],
        "out": {
            "error": outcome.error,
            "delay_ms": outcome.plan.delay_ms,
            "config_offset": outcome.config_offset,
            "members": {m.member_id: _assignment(round_, m.member_id) for m in round_.members},
        },
    }
    if policy is PolicyName.KIP415:
        value["state_after"] = state(outcome.after)
    if round_.undelivered:
        value["undelivered_to"] = list(round_.undelivered)
    value["running_tasks_after"] = list(round_.running_tasks)
    value["running_connectors_after"] = list(round_.running_instances)
    return value


def _assignment(round_: ScenarioRound, member_id: str) -> dict[str, Any]:
    assignment = round_.outcome.assignment(member_id)
    return {
        "assigned_connectors": _instances(assignment.assigned),
        "assigned_tasks": _tasks(assignment.assigned),
        "revoked_connectors": _instances(assignment.revoked),
        "revoked_tasks": _tasks(assignment.revoked),
    }


def state(memory: Memory) -> dict[str, Any]:
    """Return the state of a Kafka leader."""
    kept = memory.kip415 or Kip415Memory()
    return {
        "previous_generation": kept.previous_generation,
        "previous_members": sort_strings(kept.previous_members),
        "previous_connectors": _instances(kept.previous_assignment),
        "previous_tasks": _tasks(kept.previous_assignment),
        "previous_revoked_connectors": _instances(kept.previous_revocation),
        "previous_revoked_tasks": _tasks(kept.previous_revocation),
        "scheduled_rebalance_ms": kept.scheduled_rebalance_ms,
        "delay_ms": kept.delay_ms,
        "candidates": list(kept.candidates),
        "revoked_in_previous": kept.revoked_in_previous,
        "successive_revoking_rebalances": kept.successive_revoking_rebalances,
    }


def _instances(items: Iterable[TaskId]) -> list[str]:
    return [item.connector for item in sort_tasks(items) if item.is_instance]


def _tasks(items: Iterable[TaskId]) -> list[list[Any]]:
    return runs(item for item in sort_tasks(items) if not item.is_instance)


def runs(items: Iterable[TaskId]) -> list[list[Any]]:
    """Group consecutive tasks of one connector: ``[["a", [0, 1]], ["b", [0]]]``."""
    grouped: list[list[Any]] = []
    for item in items:
        if not grouped or grouped[-1][0] != item.connector:
            grouped.append([item.connector, []])
        grouped[-1][1].append(item.task)
    return grouped


def metrics(run: ScenarioRun) -> dict[str, Any]:
    """Return the vectors' metrics, and moves by pod: a pod that gets its own tasks back moves nothing."""
    meter, members, outcomes = run.group.meter, run.group.members(), [r.outcome for r in run.rounds]
    tasks, instances = meter.tasks, meter.instances
    task_loads = [sum(not item.is_instance for item in member.running) for member in members]
    instance_loads = [sum(item.is_instance for item in member.running) for member in members]
    totals = [a + b for a, b in zip(task_loads, instance_loads, strict=True)]
    return {
        "quiescent": run.quiescent,
        "rebalances": len(outcomes),
        "rebalances_with_revocations": sum(outcome.plan.revoking for outcome in outcomes),
        "rebalances_with_delay": sum(outcome.plan.delay_ms > 0 for outcome in outcomes),
        "task_revocations": tasks.revocations,
        "connector_revocations": instances.revocations,
        "task_revocations_of_configured": tasks.revocations_of_configured,
        "connector_revocations_of_configured": instances.revocations_of_configured,
        "task_starts": tasks.starts,
        "task_stops": tasks.stops,
        "connector_starts": instances.starts,
        "connector_stops": instances.stops,
        "tasks_lost_with_worker": tasks.lost_with_worker,
        "connectors_lost_with_worker": instances.lost_with_worker,
        "task_moves": tasks.moves,
        "connector_moves": instances.moves,
        "task_moves_by_pod": tasks.moves_by_pod,
        "connector_moves_by_pod": instances.moves_by_pod,
        "unassigned_task_ms": tasks.unassigned_ms,
        "down_task_ms": tasks.down_ms,
        "unassigned_connector_ms": instances.unassigned_ms,
        "max_one_task_unassigned_ms": meter.longest_ms,
        "max_one_task_down_ms": meter.longest_down_ms,
        "duplicate_task_ms": meter.duplicate_task_ms,
        "last_change_ms": meter.last_change_ms,
        "end_ms": run.group.now_ms,
        "final_workers": len(members),
        "final_task_spread": _spread(task_loads),
        "final_connector_spread": _spread(instance_loads),
        "final_total_spread": _spread(totals),
        "final_configured_tasks": sum(run.group.config.values()),
        "final_running_tasks": sum(task_loads),
        "final_worst_connector_skew": _worst_skew(run),
        **_of_state(run),
    }


def _of_state(run: ScenarioRun) -> dict[str, Any]:
    """Only of tasks with state: the vectors have none."""
    state = run.group.state
    if not run.scenario.state:
        return {}
    return {"task_cold_starts": state.cold_starts, "restoring_task_ms": state.restoring_ms}


def _spread(loads: list[int]) -> int:
    return max(loads, default=0) - min(loads, default=0)


def _worst_skew(run: ScenarioRun) -> int:
    """Return the maximum, over connectors, of a member's tasks above what an even spread needs."""
    members = run.group.members()
    here = [Counter(item.connector for item in m.running if not item.is_instance) for m in members]
    skews = [
        max(counts[connector] for counts in here) - -(-count // len(members))
        for connector, count in run.group.config.items()
        if members and count
    ]
    return max(0, max(skews, default=0))
