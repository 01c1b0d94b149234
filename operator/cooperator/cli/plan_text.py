"""The answer to a "what if" question, as text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from cooperator.model import TaskId, group_tasks
from cooperator.model.text import counted
from cooperator.model.visible import visible_lines
from cooperator.scenarios.answer import Load, PlanStep, PlayedRound, Waiting, WhatIfAnswer
from cooperator.scenarios.meter import HAND_OVER_MS
from cooperator.terminal.tables import table


def text_of(answer: WhatIfAnswer) -> str:
    """Header, rounds, loads and a summary, without a final newline."""
    blocks = [_header(answer)]
    if answer.rounds:
        blocks.append(_rounds(answer))
        blocks.append(_loads(answer.loads))
    blocks.append(_summary(answer))
    return "\n\n".join(blocks)


def _header(answer: WhatIfAnswer) -> str:
    leader = {"operator": "the operator", "member": "a member", "stock": "a Kafka Connect worker"}
    members = sum(load.before is not None for load in answer.loads)
    led = f"led by {leader[answer.led_by.value]}, policy {answer.policy}, {counted(members, 'member')}"
    return visible_lines(
        (f"group {answer.group}, {led}", f"what if: {'; '.join(answer.changes) or 'no changes'}")
    )


def _rounds(answer: WhatIfAnswer) -> str:
    rows: list[dict[str, Any]] = []
    held: frozenset[Waiting] = frozenset()
    for number, round_ in enumerate(answer.rounds, start=1):
        when = {"round": number, "after": f"{(round_.at_ms - answer.now_ms) / 1000:g}s"}
        cause = "what is asked" if round_.cause == ", ".join(answer.changes) else round_.cause
        rows += ({**row, **when, "cause": cause} for row in _rows(round_, held, answer.now_ms))
        held = frozenset(round_.held)
    return table(
        rows,
        {
            "ROUND": lambda r: r["round"],
            "AFTER": lambda r: r["after"],
            "WHAT": lambda r: r["what"],
            "MEMBER": lambda r: r["member"],
            "ITEMS": lambda r: r["items"],
            "WHY": lambda r: r["why"],
            "BECAUSE": lambda r: r["cause"],
        },
    )


def _rows(round_: PlayedRound, held_before: frozenset[Waiting], now_ms: int) -> Iterator[dict[str, Any]]:
    yield from _steps("lets go", round_.lets_go)
    yield from _steps("starts", round_.starts)
    waits = sorted(set(round_.held) - held_before, key=lambda w: (w.held_for, w.until_ms, w.why, w.task))
    for (identity, until_ms, why), waiting in groupby(waits, key=lambda w: (w.held_for, w.until_ms, w.why)):
        until = f"{why}, until {(until_ms - now_ms) / 1000:g}s"
        yield {"what": "held for", "member": identity, "items": _items(w.task for w in waiting), "why": until}
    if not (round_.lets_go or round_.starts or waits):
        yield {"what": "waits no more", "member": "-", "items": "-", "why": ""}


def _steps(what: str, steps: Iterable[PlanStep]) -> Iterator[dict[str, Any]]:
    ordered = sorted(steps, key=lambda step: (step.member, step.why, step.task))
    for (member, why), same in groupby(ordered, key=lambda step: (step.member, step.why)):
        yield {"what": what, "member": member, "items": _items(step.task for step in same), "why": why}


def _items(tasks: Iterable[TaskId]) -> str:
    """``a, a-0, b-[2..5]``: an instance has its connector's name."""
    words: list[str] = []
    for connector, numbers in group_tasks(tasks).items():
        if numbers[0] < 0:
            words.append(connector)
        words += _runs(connector, [number for number in numbers if number >= 0])
    return ", ".join(words)


def _runs(connector: str, numbers: Sequence[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        inside = [number for _, number in run]
        if len(inside) > 2:
            yield f"{connector}-[{inside[0]}..{inside[-1]}]"
        else:
            yield from (f"{connector}-{number}" for number in inside)


def _loads(loads: Sequence[Load]) -> str:
    def cell(load: Load, kind: int) -> str:
        before = "new" if load.before is None else str(load.before[kind])
        after = "gone" if load.after is None else str(load.after[kind])
        return before if before == after else f"{before} -> {after}"

    rows = [{"member": load.member, "tasks": cell(load, 1), "instances": cell(load, 0)} for load in loads]
    return table(
        rows,
        {
            "MEMBER": lambda r: r["member"],
            "TASKS": lambda r: r["tasks"],
            "CONNECTORS": lambda r: r["instances"],
        },
    )


def _summary(answer: WhatIfAnswer) -> str:
    lines = []
    if not answer.rounds:
        lines.append("nothing changes")
    else:
        rest_s = (answer.rest_at_ms - answer.now_ms) / 1000
        rounds, moved = counted(len(answer.rounds), "round"), len(answer.moved)
        ends = f"comes to rest after {rounds}" if answer.at_rest else f"not at rest after {rounds}"
        stopped = f"{counted(answer.stops, 'running task')} {'is' if answer.stops == 1 else 'are'} stopped"
        down_s, longest_s = answer.unassigned_task_ms / 1000, answer.longest_unassigned_ms / 1000
        lines += [
            f"{ends} and {rest_s:g} s",
            f"{counted(moved, 'item')} {'ends' if moved == 1 else 'end'} on another member, "
            f"{counted(answer.starts, 'task')} {'is' if answer.starts == 1 else 'are'} started",
            f"{stopped}; tasks are unassigned for {down_s:g} task-s, none longer than {longest_s:g} s",
            f"(holds, leases and delays; a stopped task counts for {HAND_OVER_MS / 1000:g} s at least)",
        ]
    if answer.unassigned:
        lines.append(f"unassigned: {_items(answer.unassigned)}")
    lines += [f"note: {note}" for note in answer.notes]
    return visible_lines(lines)
