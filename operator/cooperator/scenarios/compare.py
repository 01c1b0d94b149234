"""Compares Kafka and Default on the same scenarios: sums, the reasons where Default is worse, and a table.

Kafka is the policy Kip415, which reproduces it round by round. Default is run twice: with an operator's
knowledge (``knowledge``), and without.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cooperator.model import PolicyName
from cooperator.scenarios.driver import ScenarioRun, drive
from cooperator.scenarios.report import metrics
from cooperator.scenarios.scenario import Scenario

MEASURES: Final = (
    ("rebalances", "rebalances"),
    ("starts", "task_starts"),
    ("moves by pod", "task_moves_by_pod"),
    ("last change s", "last_change_ms"),
    ("unassigned task-s", "unassigned_task_ms"),
    ("longest s", "max_one_task_unassigned_ms"),
    ("twice task-s", "duplicate_task_ms"),
    ("task spread", "final_task_spread"),
    ("connector spread", "final_connector_spread"),
    ("total spread", "final_total_spread"),
    ("skew", "final_worst_connector_skew"),
)
WAITS: Final = frozenset({"unassigned_task_ms", "max_one_task_unassigned_ms"})
"""Measures that are summed only over scenarios in which Kafka's leader stays: a new one does not know the
holds."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The metrics of one scenario, which was run three times."""

    scenario: Scenario
    kafka: dict[str, Any]
    default: dict[str, Any]
    uninformed: dict[str, Any]
    leader_stays: bool

    def worse(self) -> list[tuple[str, str]]:
        """Return the measures in which Default with the operator's knowledge is worse than Kafka, each with
        the reason; "" if unknown."""
        found = [(title, name) for title, name in MEASURES if self.default[name] > self.kafka[name]]
        return [(title, explain(self, name)) for title, name in found]


def compare(scenarios: Iterable[Scenario]) -> list[Compared]:
    """Run each scenario under both policies."""
    compared = []
    for scenario in scenarios:
        kafka = drive(scenario, PolicyName.KIP415)
        informed = drive(scenario, PolicyName.DEFAULT)
        uninformed = drive(scenario, PolicyName.DEFAULT, informed=False)
        stays = _leader_stays(kafka)
        compared.append(Compared(scenario, metrics(kafka), metrics(informed), metrics(uninformed), stays))
    return compared


def _leader_stays(run: ScenarioRun) -> bool:
    return len({round_.outcome.leader for round_ in run.rounds}) <= 1


def sums(compared: Sequence[Compared], measure: str) -> tuple[int, int, int]:
    """Return the sums of a measure over all scenarios: Kafka, Default, Default uninformed."""
    rows = [row for row in compared if row.leader_stays or measure not in WAITS]
    return (
        sum(row.kafka[measure] for row in rows),
        sum(row.default[measure] for row in rows),
        sum(row.uninformed[measure] for row in rows),
    )


def explain(row: Compared, measure: str) -> str:
    """Return why Default is worse than Kafka in ``measure``; "" if no known reason applies."""
    found = (text for measures, applies, text in _REASONS if measure in measures and applies(row, measure))
    lost = "tasks_lost_with_worker"
    return next(found, "").format(default=row.default[lost], kafka=row.kafka[lost])


def _events(row: Compared, *types: str) -> list[int]:
    return [event.pod for event in row.scenario.events if event.type in types]


def _extra(row: Compared, measure: str) -> int:
    return int(row.default[measure] - row.kafka[measure])


def _lost_more(row: Compared, measure: str) -> bool:
    """Return whether the additional tasks of the workers that left explain the whole difference."""
    lost = _extra(row, "tasks_lost_with_worker")
    return lost > 0 and (measure in WAITS or _extra(row, measure) <= lost)


def _leaves_and_more(row: Compared, measure: str) -> bool:
    """Return whether a worker leaves, and something else happens afterwards, while Kafka may still wait for
    it."""
    events = row.scenario.events
    left = next((event.time_ms for event in events if event.type == "leave"), None)
    return left is not None and any(event.time_ms > left for event in events)


_MOVING: Final = frozenset({"task_starts", "task_moves_by_pod"})
_SPREADS: Final = frozenset({"final_task_spread", "final_connector_spread", "final_total_spread"})
_ROUNDS: Final = frozenset({"rebalances"})

_REASONS: Final[tuple[tuple[frozenset[str], Callable[[Compared, str], bool], str], ...]] = (
    (
        WAITS,
        lambda row, _: bool(row.kafka["duplicate_task_ms"]),
        "a dropped member stops when its lease ends; a Kafka worker keeps running, and its tasks run twice",
    ),
    (
        WAITS,
        lambda row, _: not row.leader_stays,
        "Kafka's leader leaves: its successor does not know the hold, moves tasks at once and back later",
    ),
    (
        WAITS | _MOVING,
        lambda row, _: len(_events(row, "leave")) > len(set(_events(row, "leave"))),
        "a worker that returns gets its tasks back at once, and loses them again when it leaves again",
    ),
    (
        WAITS | _MOVING,
        _lost_more,
        "the workers that left ran {default} tasks instead of {kafka}: the earlier placement differs",
    ),
    (
        WAITS,
        lambda row, _: len(_events(row, "join")) > 1 and not _events(row, "leave"),
        "one revocation round with a full hand-over; in Kafka the next join cuts hand-overs short",
    ),
    (
        _MOVING,
        _leaves_and_more,
        "tasks of a member that leaves move at once; in Kafka they wait, and later events make the move "
        "needless",
    ),
    (
        _MOVING,
        lambda row, _: bool(_events(row, "kick")),
        "the member that was dropped ran more tasks: the earlier placement differs",
    ),
    (
        _ROUNDS,
        lambda row, _: _extra(row, "rebalances_with_revocations") > 0,
        "extra revocations: tasks of a member that announced its departure, or deleted tasks that Kafka "
        "never revokes",
    ),
    (
        _ROUNDS,
        lambda row, _: not row.leader_stays,
        "Kafka's leader leaves: its successor moves tasks at once, without the round that ends a hold",
    ),
    (
        _SPREADS,
        lambda row, _: row.kafka["final_running_tasks"] > row.kafka["final_configured_tasks"],
        "Kafka's value includes deleted items that still run",
    ),
    (
        frozenset({"final_total_spread"}),
        lambda row, _: row.default["final_total_spread"] <= 2,
        "tasks and instances are each within 1; nothing moves to level their sum",
    ),
)


def markdown(compared: Sequence[Compared]) -> str:
    """Return the comparison as a document: sums, reasons, and one line per scenario."""
    return "\n".join([*_sums(compared), "", *_worse(compared), "", *_table(compared), ""])


def _sums(compared: Sequence[Compared]) -> Iterable[str]:
    stays = sum(row.leader_stays for row in compared)
    yield f"## Sums over {len(compared)} scenarios"
    yield ""
    yield f"(Unassigned time: over the {stays} in which Kafka's leader stays.)"
    yield ""
    yield "| | Kafka | Default | Default without host facts |"
    yield "|---|---:|---:|---:|"
    for title, name in MEASURES:
        yield f"| {title} | " + " | ".join(_number(name, value) for value in sums(compared, name)) + " |"


def _worse(compared: Sequence[Compared]) -> Iterable[str]:
    yield "## Where Default is worse, and why"
    yield ""
    yield "| scenario | measure | Kafka | Default | why |"
    yield "|---|---|---:|---:|---|"
    names = dict(MEASURES)
    for row in compared:
        for title, why in row.worse():
            kafka, default = row.kafka[names[title]], row.default[names[title]]
            cells = (_number(names[title], kafka), _number(names[title], default))
            yield f"| {row.scenario.name} | {title} | {cells[0]} | {cells[1]} | {why or 'not explained'} |"


def _table(compared: Sequence[Compared]) -> Iterable[str]:
    yield "## Every scenario: Kafka / Default / Default without host facts"
    yield ""
    yield "| scenario | " + " | ".join(title for title, _ in MEASURES) + " |"
    yield "|---|" + "---:|" * len(MEASURES)
    for row in compared:
        cells = [
            " / ".join(_number(name, played[name]) for played in (row.kafka, row.default, row.uninformed))
            for _, name in MEASURES
        ]
        yield f"| {row.scenario.name} | " + " | ".join(cells) + " |"


def _number(measure: str, value: int) -> str:
    if not measure.endswith("_ms"):
        return str(value)
    return f"{value / 1000:.1f}".removesuffix(".0") if value < 10**7 else f"{value // 1000}"
