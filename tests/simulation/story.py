"""Tells a history in plain lines: of one task, of one member, or of everything.

Lines are merged by time: faults and the world's events (``-``), what supervisors report of their tasks and of
themselves (the member's name), what leaders learned and did (``lead`` and their process's name), and why they
assigned and revoked tasks (``plan``).
"""

import re

from cooperator.host.story import PLAN, WORLD, StoryEvent, in_order
from cooperator.model import PolicyName
from tests.simulation.cluster import told
from tests.simulation.run import Cuts, Outcome, run
from tests.simulation.scheduler import START_MS
from tests.simulation.simulation import Planned


def story(outcome: Outcome, subject: str | None = None) -> list[StoryEvent]:
    """All lines, or those that concern ``subject``: a task, or a member's identity or name. Faults, and
    events of whole members, concern everybody."""
    lines = [*_of_world(outcome), *_of_members(outcome), *_of_leaders(outcome), *_of_plans(outcome)]
    return in_order(lines, subject)


def line_of(event: StoryEvent) -> str:
    return f"{(event.at_ms - START_MS) / 1000:9.3f} s  {event.who:<18} {event.what}"


_TASK = re.compile(r"^([a-z]+(?:-\d+)?) (?:starts at|has ended at) (\S+?),")


def _of_world(outcome: Outcome) -> list[StoryEvent]:
    lines = []
    for line in outcome.simulation.lines:
        found = _TASK.match(line.what)
        subjects = frozenset({found[1], found[2]}) if found else frozenset[str]()
        lines.append(StoryEvent(line.at_ms, WORLD, line.what, subjects))
    return lines


def _of_members(outcome: Outcome) -> list[StoryEvent]:
    lines = []
    for member in outcome.simulation.everybody:
        for line in member.story_lines():
            subjects = frozenset({str(line.task)}) if line.task is not None else frozenset[str]()
            what = line.what if line.task is None else f"{line.task}: {line.what}"
            lines.append(StoryEvent(line.at_ms, member.name, f"{what}  <- {line.cause}", subjects))
    return lines


def _of_leaders(outcome: Outcome) -> list[StoryEvent]:
    lines = []
    for name, machine in outcome.simulation.stories:
        who = f"lead {name}"
        for line in machine.story():
            lines.append(StoryEvent(line.at_ms, who, f"{line.what}  <- {line.cause}", frozenset({name})))
    return lines


def _of_plans(outcome: Outcome) -> list[StoryEvent]:
    lines = []
    for at_ms, planned in outcome.simulation.rounds:
        lines += [StoryEvent(at_ms, PLAN, *said) for said in _said(planned)]
    return lines


def _said(planned: Planned) -> list[tuple[str, frozenset[str]]]:
    view, plan = planned.view, planned.plan
    round_ = f"round {planned.after.term}.{view.generation}"
    lines = []
    for member in view.members:
        assignment = plan.assignments[member.member_id]
        who = told(member.identity, member.incarnation)
        for task in assignment.revoked:
            what = f"{round_} takes {task} from {who}: {plan.revoked_why[task].why}"
            lines.append((what, frozenset({str(task), member.identity, who})))
        for task in assignment.assigned:
            why = plan.assigned_why.get(task)
            what = f"{round_} gives {task} to {who}: {why.why if why else 'no reason'}"
            lines.append((what, frozenset({str(task), member.identity, who})))
    for task, held in sorted(plan.held.items()):
        until_s = (held.until_ms - START_MS) / 1000
        what = f"{round_} holds {task} for {held.identity} until {until_s:.3f} s: {held.reason}"
        lines.append((what, frozenset({str(task), held.identity})))
    return lines


def replay(
    seed: int,
    cuts: Cuts,
    subject: str | None,
    policy: PolicyName = PolicyName.DEFAULT,
    reconciling: float = 0.0,
) -> list[str]:
    """The story of one seed, as lines."""
    outcome = run(seed, cuts, policy=policy, reconciling=reconciling)
    lines = [f"seed {seed}: {outcome.simulation.shape}"]
    lines += [line_of(line) for line in story(outcome, subject)]
    well = f"at rest {outcome.rest_after_ms} ms after the last fault"
    lines.append(f"broken: {outcome.broken}" if outcome.broken else well)
    return lines
