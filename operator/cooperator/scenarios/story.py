"""The history of one task in a scenario: what happened to it, when, why, and by which event."""

from collections.abc import Iterable, Iterator

from cooperator.model import TaskId
from cooperator.planner import Reason
from cooperator.scenarios.driver import ScenarioRound, ScenarioRun
from cooperator.scenarios.scenario import ScenarioError, parse_task


def story(runs: Iterable[ScenarioRun], task: str) -> str:
    """Return the story of ``task`` (``orders-0``, or ``orders``: the instance) in every scenario that has it.

    Raises ScenarioError if no scenario has it.
    """
    lines: list[str] = []
    for run in runs:
        item = _item(run, task)
        if item is not None:
            lines += [f"{run.scenario.name} ({run.policy}): {item}", *_lines(run, item), ""]
    if not lines:
        raise ScenarioError(
            f"no scenario has the task {task!r}; use a name such as orders-0, or orders for the instance"
        )
    return "\n".join(lines[:-1])


def _item(run: ScenarioRun, name: str) -> TaskId | None:
    """Return the item with this name; a connector's name may itself end in a number."""
    connectors = {connector for round_ in run.rounds for connector in round_.config}
    if name in connectors:
        return TaskId(name, -1)
    item = parse_task(name)
    return item if item is not None and item.connector in connectors else None


def _lines(run: ScenarioRun, item: TaskId) -> Iterator[str]:
    holders: list[str] = []
    held = ""
    for round_ in run.rounds:
        when = f"  {round_.time_ms / 1000:>9g} s  round {round_.number}: "
        present = {member.process.name: item in member.items for member in round_.members}
        yield from (f"{when}its member {name} has left" for name in holders if name not in present)
        yield from (when + text for text in _happenings(round_, item))
        now = _held(round_, item)
        if now and now != held:
            yield when + now
        held = now
        holders = [name for name, reported in present.items() if reported or _starts(round_, name, item)]


def _starts(round_: ScenarioRound, name: str, item: TaskId) -> bool:
    return any(
        item in round_.outcome.assignment(member.member_id).assigned
        for member in round_.members
        if member.process.name == name and member.member_id not in round_.undelivered
    )


def _happenings(round_: ScenarioRound, item: TaskId) -> Iterator[str]:
    plan = round_.outcome.plan
    for member in round_.members:
        assignment = round_.outcome.assignment(member.member_id)
        lost = " (not delivered)" if member.member_id in round_.undelivered else ""
        if item in assignment.revoked:
            yield f"revoked from {member.process.name}: {_why(plan.revoked_why.get(item))}{lost}"
        if item in assignment.assigned:
            yield f"assigned to {member.process.name}: {_why(plan.assigned_why.get(item))}{lost}"


def _held(round_: ScenarioRound, item: TaskId) -> str:
    held = round_.outcome.plan.held.get(item)
    if held is None:
        return ""
    for_whom = f" for {held.identity}" if held.identity else ""
    cause = f", by {held.cause}" if held.cause else ""
    return f"held{for_whom} until {held.until_ms / 1000:g} s: {held.reason}{cause}"


def _why(reason: Reason | None) -> str:
    if reason is None:
        return "reason unknown"
    return f"{reason.why}, by {reason.cause}" if reason.cause else str(reason.why)
